"""Where the committed call stands in a reply. Pure.

The places, in this order; the first that holds one decides:
1. `<tool_call>` marks outside of thinking. A mark in quotation marks, or with words on both sides in its line, is talk.
2. Code fences that hold one object with the shape of a call.
3. One object on lines of its own that ends the reply, or a whole call (name and arguments) that begins it.
4. A marked call that ends the thinking, when nothing but thinking was written.
JSON that is only talked about is no call; a call that ends in its middle is a block with an error.
"""

import re
from typing import Any, NamedTuple

from rmsweb.replies.arguments import is_envelope, looks_like_call
from rmsweb.replies.fields import ParseErrorKind, ReplyError
from rmsweb.replies.repair import MalformedJson, Read, read_json

_OPEN = re.compile(r"<tool_call>", re.IGNORECASE)
_CLOSE = re.compile(r"</tool_call>", re.IGNORECASE)
_THINK = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[ \t]*\n?(.*?)(?:^[ \t]*\1|\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_FENCE_LANGUAGES = frozenset(
    {"", "json", "jsonc", "json5", "tool_call", "tool_code", "python", "py", "javascript", "js"}
)
_BEFORE_OBJECT = re.compile(r"\s*(?:```+\w*\s*)?(?:json\s*|computer_use\s*)?")
_QUOTES = "\"'`“”‘’«»"


class Block(NamedTuple):
    """A place where a call stands: its value or why it has none, and what had to be repaired."""

    start: int
    value: Any
    error: ReplyError | None
    repairs: tuple[str, ...]


def without_thinking(text: str) -> tuple[str, str]:
    """(thinking, the rest). Either mark may be missing; marks inside a call's JSON are text."""
    spans = [(m.start(), _end_of_object(text, m.end())) for m in _OPEN.finditer(text)]
    marks = [m for m in _THINK.finditer(text) if not any(a < m.start() < b for a, b in spans)]
    closing = [m for m in marks if m.group(1)]
    if closing:
        last = closing[-1]
        return _THINK.sub("", text[: last.start()]), _cut_open_thinking(text[last.end() :], marks, last.end())
    if marks:
        return text[marks[0].end() :], text[: marks[0].start()]
    return "", text


def _cut_open_thinking(rest: str, marks: list[re.Match[str]], offset: int) -> str:
    """What stands behind the last closing mark, up to an opening one that nothing closes."""
    later = [m.start() - offset for m in marks if m.start() >= offset]
    return rest[: later[0]] if later else rest


def _end_of_object(text: str, start: int) -> int:
    try:
        return read_json(text, start).end
    except MalformedJson:
        return start


def committed(body: str) -> list[Block]:
    """The places where a committed call stands: those of the first kind that there is."""
    return _marked(body) or _fenced(body) or _bare(body)


def _marked(body: str) -> list[Block]:
    blocks: list[Block] = []
    at = 0
    opening = _OPEN.search(body)
    while opening:
        at = opening.end()
        closing = _CLOSE.search(body, at)
        following = _OPEN.search(body, at)
        if following and not body[at : following.start()].strip():  # The mark is written twice.
            opening = following
            continue
        block, at = _marked_block(body, opening, closing, following)
        if block is not None:
            blocks.append(block)
        opening = _OPEN.search(body, at)
    if not blocks and (closing := _CLOSE.search(body)):
        blocks = [b._replace(repairs=(*b.repairs, "unopened_call")) for b in _bare(body[: closing.start()])]
    return blocks


def _marked_block(
    body: str, opening: re.Match[str], closing: re.Match[str] | None, following: re.Match[str] | None
) -> tuple[Block | None, int]:
    """The block behind an opening mark (None: only talked about), and where to go on."""
    prefix = _BEFORE_OBJECT.match(body, opening.end())
    start = prefix.end() if prefix else opening.end()
    repairs = ["call_prefix"] if body[opening.end() : start].strip() else []
    limit = min([m.start() for m in (closing, following) if m], default=len(body))
    try:
        read = _read_marked(body, start, limit, closing is not None and closing.start() == limit)
    except MalformedJson as error:
        kind = ParseErrorKind.TRUNCATED if error.cut and closing is None else ParseErrorKind.MALFORMED
        failed = ReplyError(kind, f"the call is no JSON object: {error}")
        end = closing.end() if closing and closing.start() == limit else limit
        if _is_talk(body, opening.start(), end):
            return None, end
        return Block(opening.start(), None, failed, ()), end
    end = read.end
    if extra := re.compile(r"[\s}\])]*[}\])]").match(body, end):
        repairs.append("extra_brace")
        end = extra.end()
    close = re.compile(r"\s*`*\s*</tool_call>", re.IGNORECASE).match(body, end)
    if close is None:
        repairs.append("unclosed_call")
    else:
        end = close.end()
    if _is_talk(body, opening.start(), end):
        return None, end
    return Block(opening.start(), read.value, None, (*read.repairs, *repairs)), end


def _read_marked(body: str, start: int, limit: int, closed: bool) -> Read:
    try:
        return read_json(body, start)
    except MalformedJson:
        if not closed:
            raise
    return read_json(body, start, limit, close=True)


def _is_talk(body: str, start: int, end: int) -> bool:
    """Whether the marked text is quoted, or stands in the middle of a sentence."""
    before = re.split(r"</?tool_call>", body[body.rfind("\n", 0, start) + 1 : start], flags=re.IGNORECASE)[-1].strip()
    behind = body[end:].split("\n", 1)[0].strip()
    if before and (before[-1] in _QUOTES or before[0] == ">"):
        return True
    return bool(re.search(r"\w", before)) and bool(re.match(r"[^<]*\w", behind))


def _fenced(body: str) -> list[Block]:
    blocks = []
    for fence in _FENCE.finditer(body):
        content = fence.group(3)
        if fence.group(2).lower() not in _FENCE_LANGUAGES or not content.lstrip().startswith(("{", "[")):
            continue
        try:
            read = read_json(content)
        except MalformedJson as error:
            if re.search(r"action|computer_use", content):
                kind = ParseErrorKind.TRUNCATED if error.cut else ParseErrorKind.MALFORMED
                blocks.append(Block(fence.start(), None, ReplyError(kind, f"the call is no JSON object: {error}"), ()))
            continue
        if looks_like_call(read.value) and not content[read.end :].strip():
            blocks.append(Block(fence.start(), read.value, None, ("fence", *read.repairs)))
    return blocks


def _bare(body: str) -> list[Block]:
    """An object on lines of its own that ends the text, or a whole call that begins it."""
    starts = [m.start(1) for m in re.finditer(r"^[ \t]*([\[{])", body, re.MULTILINE)][:50]
    for start in starts:
        try:
            read = read_json(body, start)
        except MalformedJson as error:
            if start == starts[0] and not body[:start].strip() and "action" in body:
                kind = ParseErrorKind.TRUNCATED if error.cut else ParseErrorKind.MALFORMED
                return [Block(start, None, ReplyError(kind, f"the call is no JSON object: {error}"), ())]
            continue
        rest = body[read.end :]
        ends = not rest.strip(" \t\n}")
        begins = not body[:start].strip() and is_envelope(read.value) and re.match(r"[ \t]*\n", rest)
        if (ends or begins) and (looks_like_call(read.value) or (ends and not body[:start].strip())):
            extra = ("extra_brace",) if "}" in rest and ends else ()
            return [Block(start, read.value, None, ("bare_json", *read.repairs, *extra))]
    return []


def last_of_thinking(thinking: str) -> list[Block]:
    """Marked calls of a reply that is all thinking, when one of them ends it."""
    closing = list(_CLOSE.finditer(thinking))
    if not closing or thinking[closing[-1].end() :].strip():
        return []
    return [b._replace(repairs=(*b.repairs, "call_in_thinking")) for b in _marked(thinking)]
