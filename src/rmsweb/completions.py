"""What an endpoint's answer says: replies and token counts out of a chat completion that may be anything.

Servers and gateways answer HTTP 200 with a login page, with null, with counts left out. Promises that whatever is no
chat completion raises Unreadable, that a good reply beside missing counts is kept (the counts are estimated and said
to be), and that a reply which echoes the key does not carry it on. Never sends anything.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rmsweb.chat import Reply
from rmsweb.redact import MARK


class Unreadable(ValueError):
    """An answer is no chat completion, and why."""


@dataclass(slots=True, frozen=True)
class Answer:
    """One answer of an endpoint."""

    replies: tuple[Reply, ...]
    """At least one; an answer without choices is one empty reply."""
    choices: int
    prompt_tokens: int
    completion_tokens: int
    estimated: int
    """Tokens among the completion tokens that the server did not report: a quarter of the letters."""


def read_answer(answer: Any, key: str = "") -> Answer:
    """Replies and counts. `key`: taken out of the texts. Raises Unreadable."""
    if not hasattr(answer, "choices"):
        raise Unreadable(f"a {type(answer).__name__} where a chat completion is due: {str(answer)[:200]!r}")
    choices = answer.choices or []
    if not isinstance(choices, Sequence) or isinstance(choices, str | bytes):
        raise Unreadable(f"`choices` is a {type(choices).__name__}, no list")
    texts = [text_of(getattr(choice, "message", None)) for choice in choices]
    usage = getattr(answer, "usage", None)
    prompt = _count(getattr(usage, "prompt_tokens", None)) or 0
    total = _count(getattr(usage, "completion_tokens", None))
    estimated = sum(math.ceil(len(text) / 4) for text, _ in texts) if total is None else 0
    total = estimated if total is None else total
    pairs = zip(choices, texts, strict=True)
    replies = [_reply(choice, text, source, prompt, total / len(choices), key) for choice, (text, source) in pairs]
    return Answer(
        tuple(replies) or (Reply("", prompt_tokens=prompt, finish="empty"),), len(choices), prompt, total, estimated
    )


def _reply(choice: Any, text: str, source: str, prompt: int, share: float, key: str) -> Reply:
    refusal = getattr(choice.message, "refusal", None)
    content = getattr(getattr(choice, "logprobs", None), "content", None)
    logprobs = content if isinstance(content, list) and content else None
    ids = _ids(getattr(choice, "token_ids", None))
    finish: Literal["stop", "length", "refused", "empty"] = "stop"
    if getattr(choice, "finish_reason", None) == "length":
        finish = "length"
    elif getattr(choice, "finish_reason", None) == "content_filter" or refusal:
        finish = "refused"
        text = text or (refusal if isinstance(refusal, str) else "")
    elif not text.strip():
        finish = "empty"
    return Reply(
        text=text.replace(key, MARK) if len(key) >= SECRET else text,
        token_ids=ids,
        logprobs=tuple(float(entry.logprob) for entry in logprobs) if logprobs else None,
        prompt_tokens=prompt,
        completion_tokens=len(ids) if ids else len(logprobs) if logprobs else round(share),
        finish=finish,
        source=source,
    )


SECRET = 8
"""Letters from which on a key is looked for in replies: `none` is a word."""


def _count(value: Any) -> int | None:
    """A token count; None where the server gives none that can be one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return round(value)


def _ids(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return None
    return tuple(value) or None


def text_of(message: Any) -> tuple[str, str]:
    """(text, where it stood): content, else one of the two names for reasoning, else structured tool calls."""
    if message is None or isinstance(message, str | int | float | list):
        raise Unreadable("a choice has no message")
    content = _content(getattr(message, "content", None))
    calls = getattr(message, "tool_calls", None)
    if isinstance(calls, list) and calls and "<tool_call>" not in content:
        for call in calls:
            function = getattr(call, "function", None)
            if function is not None:
                written = f'{{"name": {json.dumps(function.name)}, "arguments": {function.arguments or "{}"}}}'
                content += f"\n<tool_call>\n{written}\n</tool_call>"
        return content.strip(), "tool_calls"
    if content.strip():
        return content, "content"
    for name in ("reasoning_content", "reasoning"):
        if isinstance(said := getattr(message, name, None), str) and said.strip():
            return said, name
    return content, "content"


def _content(value: Any) -> str:
    """Text, or the texts of a list of parts."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, dict) else getattr(part, "text", None) for part in value]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
    raise Unreadable(f"`content` is a {type(value).__name__} that holds no text")
