"""What an endpoint's answer says: replies and token counts out of a chat completion that may be anything.

Servers and gateways answer HTTP 200 with a login page, with null, with counts left out. Promises that whatever is no
chat completion raises Unreadable, that a good reply beside missing counts is kept (the counts are estimated and said
to be), and that a reply which echoes the key does not carry it on. Never sends anything.
"""

import json
import math
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


def read_answer(body: bytes, key: str = "") -> Answer:
    """Replies and counts of a body. `key`: taken out of the texts. Raises Unreadable."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is no JSON ({error}): {body[:200].decode('utf-8', 'replace')!r}") from None
    if not isinstance(answer, dict) or "choices" not in answer:
        raise Unreadable(f"it is no chat completion: {body[:200].decode('utf-8', 'replace')!r}")
    choices = answer["choices"] or []
    if not isinstance(choices, list):
        raise Unreadable(f"`choices` is a {type(choices).__name__}, no list")
    texts = [text_of(_of(choice, "message")) for choice in choices]
    usage = answer.get("usage")
    prompt = _count(_of(usage, "prompt_tokens")) or 0
    total = _count(_of(usage, "completion_tokens"))
    estimated = sum(math.ceil(len(text) / 4) for text, _ in texts) if total is None else 0
    total = estimated if total is None else total
    pairs = zip(choices, texts, strict=True)
    replies = [_reply(choice, text, source, prompt, total / len(choices), key) for choice, (text, source) in pairs]
    return Answer(
        tuple(replies) or (Reply("", prompt_tokens=prompt, finish="empty"),), len(choices), prompt, total, estimated
    )


def _of(value: Any, name: str) -> Any:
    """A field of an object; None of anything else."""
    return value.get(name) if isinstance(value, dict) else None


def _reply(choice: dict[str, Any], text: str, source: str, prompt: int, share: float, key: str) -> Reply:
    refusal = _of(choice["message"], "refusal")
    ids, logprobs = _ids(choice.get("token_ids")), _logprobs(_of(choice.get("logprobs"), "content"))
    finish: Literal["stop", "length", "refused", "empty"] = "stop"
    if choice.get("finish_reason") == "length":
        finish = "length"
    elif choice.get("finish_reason") == "content_filter" or refusal:
        finish = "refused"
        text = text or (refusal if isinstance(refusal, str) else "")
    elif not text.strip():
        finish = "empty"
    return Reply(
        text=text.replace(key, MARK) if len(key) >= SECRET else text,
        token_ids=ids,
        logprobs=logprobs,
        prompt_tokens=prompt,
        completion_tokens=len(ids) if ids else len(logprobs) if logprobs else round(share),
        finish=finish,
        source=source,
    )


SECRET = 8
"""Letters from which on a key is looked for in replies: `none` is a word."""


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _count(value: Any) -> int | None:
    """A token count; None where the server gives none that can be one."""
    return round(value) if _number(value) and value >= 0 else None


def _ids(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return None
    return tuple(value) or None


def _logprobs(value: Any) -> tuple[float, ...] | None:
    """One for each sampled token; None where any of them is no number."""
    found = [_of(entry, "logprob") for entry in value] if isinstance(value, list) else []
    return tuple(map(float, found)) or None if all(map(_number, found)) else None


def text_of(message: Any) -> tuple[str, str]:
    """(text, where it stood): content, else one of the two names for reasoning, else structured tool calls."""
    if not isinstance(message, dict):
        raise Unreadable("a choice has no message")
    content = _content(message.get("content"))
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls and "<tool_call>" not in content:
        return (content + "".join(_call(_of(call, "function")) for call in calls)).strip(), "tool_calls"
    if content.strip():
        return content, "content"
    for name in ("reasoning_content", "reasoning"):
        if isinstance(said := message.get(name), str) and said.strip():
            return said, name
    return content, "content"


def _call(function: Any) -> str:
    """A structured call as the text that a model writes; empty where it names no function."""
    name, arguments = _of(function, "name"), _of(function, "arguments")
    if not isinstance(name, str):
        return ""
    if not isinstance(arguments, str):  # some servers send the object itself
        arguments = json.dumps(arguments) if isinstance(arguments, dict) else ""
    return f'\n<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments or "{}"}}}\n</tool_call>'


def _content(value: Any) -> str:
    """Text, or the texts of a list of parts. Raises Unreadable."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        # A part of another kind (a thought, a picture) stands beside the text of some servers.
        parts = [part["text"] for part in value if isinstance(_of(part, "text"), str)]
        if parts or not value:
            return "".join(parts)
    raise Unreadable(f"`content` is a {type(value).__name__} that holds no text")
