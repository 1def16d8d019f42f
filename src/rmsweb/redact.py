"""Takes secrets out of text before it is shown, logged or stored: the one place that knows their looks. Pure."""

import re

MARK = "[redacted]"

_PATTERNS = (
    re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?\s*(?:bearer|basic|token)?\s*)[^\s\"',;}]+"),
    re.compile(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(r"(?i)((?:api[_-]?key|access[_-]?token|secret|password|x-api-key)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&}]+"),
    re.compile(r"()\b(?:sk|rk|pk|hf|ghp|gho|xox[a-z])[-_][A-Za-z0-9_-]{8,}"),
    re.compile(r"()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # a JSON web token, under any name
    re.compile(r"()\b(?:AKIA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{35})\b"),
    re.compile(r"(://)[^/\s@:]+:[^/\s@]+(?=@)"),
)


def redact(text: str, *secrets: str) -> str:
    """The text without the given secrets, and without what looks like a key, a token or a password in an address."""
    for secret in secrets:
        if len(secret) > 4:  # Shorter ones are placeholders such as "none", and stand in ordinary words.
            text = text.replace(secret, MARK)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{MARK}", text)
    return text
