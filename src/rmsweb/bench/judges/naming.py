"""The whole name of a judge: wording, protocol, model, options, and how the model is sampled. Written and read here.

    rmsweb/webjudge-om2w:gpt-4o:prompt=1a2b3c4d:threshold=3:temperature=0:again=0.7:tokens=512:attempts=3

Two verdicts are of one judge only where all of it is the same. Promises: what changes a reply or which reply counts is
in the name; a name from before the sampling was recorded reads `not recorded`, and is no judge of known sampling.
"""

import hashlib
import json

from rmsweb.bench.judges.packs import Wording
from rmsweb.config import JudgeConfig
from rmsweb.errors import ConfigError

WARMER = 0.7
"""Least temperature at which a question is asked again: the same reply would only come once more."""
SAMPLING = ("temperature", "again", "parameters", "tokens", "attempts", "extra")
"""Keys of a name that say how the model is asked, in this order."""
NOT_RECORDED = "not recorded"
_WORDS = {
    "temperature": "temperature {}",
    "again": "{} when asked again",
    "parameters": "{} parameters",
    "tokens": "{} tokens",
    "attempts": "{} attempts",
    "extra": "extra_body {}",
}


def judge_name(
    protocol: str, model: str, *options: str, config: JudgeConfig, temperature: float, max_tokens: int
) -> str:
    """`protocol`: as its wording names it. `options`: `key=value`; empty ones are left out.

    `temperature`: of the first attempt; `again` is that of every later one, where it is warmer. An endpoint of
    reasoning models is told none, so neither has a place there. `extra_body` stands as eight hexadecimal digits of its
    SHA-256, since its values may be long. Raises ConfigError for a temperature that is set and that the protocol does
    not ask at.
    """
    asked = config.model
    if asked.temperature not in (temperature, JudgeConfig().model.temperature):
        raise ConfigError(
            f"{protocol} asks at temperature {temperature:g}, whatever judge.model.temperature says; it is "
            f"{asked.temperature:g}: leave it out"
        )
    warm = f"temperature={temperature:g}" + (f":again={WARMER:g}" if temperature < WARMER else "")
    warmth = "parameters=reasoning" if asked.parameters == "reasoning" else warm
    body = json.dumps(asked.extra_body, sort_keys=True, separators=(",", ":"))
    extra = f"extra={hashlib.sha256(body.encode()).hexdigest()[:8]}" if asked.extra_body else ""
    parts = (protocol, model, *options, warmth, f"tokens={max_tokens}", f"attempts={config.attempts}", extra)
    return ":".join(part for part in parts if part)


def own_wording(wording: Wording) -> str:
    """`prompt=<hash>` of our own texts, which may change from one release to the next; empty for upstream's."""
    return f"prompt={wording.digest}" if wording.prefix == "rmsweb/" else ""


def judge_parts(judge: str) -> tuple[str, str]:
    """(protocol, model) of a judge's name `protocol:model:key=value...`; a rule judge has no model."""
    if judge.startswith("imported:"):  # a file name stands behind it
        return judge, ""
    protocol, _, rest = judge.partition(":")
    parts = rest.split(":") if rest else []
    while parts and "=" in parts[-1]:
        parts.pop()
    return protocol, "" if protocol.startswith("rules") else ":".join(parts)


def split_sampling(judge: str) -> tuple[str, dict[str, str]]:
    """(name without its sampling, sampling by key). Of a name from before it was recorded, the sampling is empty."""
    parts = [] if judge.startswith("imported:") else judge.split(":")
    found: dict[str, str] = {}
    while parts and (key := parts[-1].partition("=")[0]) in SAMPLING and "=" in parts[-1]:
        found[key] = parts.pop().partition("=")[2]
    return (":".join(parts) if found else judge), found


def said_sampling(judge: str) -> str:
    """`temperature 0, 512 tokens, 3 attempts`; `not recorded`; empty where no model was asked (rules, nobody)."""
    _, found = split_sampling(judge)
    if not found:
        return NOT_RECORDED if judge and not judge.startswith("rules") else ""
    return ", ".join(_WORDS[key].format(found[key]) for key in SAMPLING if key in found)
