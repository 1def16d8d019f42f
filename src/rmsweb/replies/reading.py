"""One reply -> thought, intent, action. Owns the choice among several calls and what stands before the call. Pure."""

import re
from dataclasses import dataclass
from typing import Any

from rmsweb import actions as act
from rmsweb.actions import PROFILES, Action, Coordinates, Viewport
from rmsweb.errors import ConfigError
from rmsweb.replies.arguments import read_call
from rmsweb.replies.blocks import Block, committed, last_of_thinking, without_thinking
from rmsweb.replies.fields import Frame, ParseErrorKind, ReplyError
from rmsweb.replies.writing import frame_of

_LABEL = re.compile(r"^[ \t]*[*_#]*(thought|action)[*_]*[ \t]*:[*_]*[ \t]*", re.IGNORECASE | re.MULTILINE)


@dataclass(slots=True, frozen=True)
class Parsed:
    """One reply, read. Pixels of the viewport."""

    thought: str
    intent: str
    action: Action
    repairs: tuple[str, ...] = ()


def parse_reply(
    text: str,
    viewport: Viewport,
    profile: Coordinates,
    *,
    truncated: bool = False,
    resized: Viewport | None = None,
) -> Parsed:
    """Reads one reply. Raises ReplyError.

    `truncated`: the length limit cut the reply; it is never executed then. `resized`: for absolute profiles, the size
    of the picture the model saw; None means `resized_size(viewport, profile.factor)`.
    """
    repairs: list[str] = []
    text = _plain(text, repairs)
    if truncated:
        raise ReplyError(ParseErrorKind.TRUNCATED, "the reply was cut by the length limit; write less")
    if not text.strip():
        raise ReplyError(ParseErrorKind.EMPTY, "the reply is empty")
    thinking, body = without_thinking(text)
    blocks = committed(body)
    if not blocks and not body.strip() and thinking:
        blocks = last_of_thinking(thinking)
        body = thinking if blocks else body
    if not blocks:
        raise ReplyError(ParseErrorKind.NO_CALL, "the reply holds no call; write exactly one")
    frame = frame_of(viewport, profile, resized)
    action, block, found = _choose(blocks, frame)
    repairs += [*block.repairs, *found]
    before = body[: block.start]
    thought, intent, prose = _labels(before)
    if isinstance(action, act.Terminate) and not action.text and prose:
        action = action.model_copy(update={"text": prose})
        repairs.append("answer_from_prose")
    thought = thought or (thinking.strip() if body is not thinking else "")
    return Parsed(thought, intent, action, tuple(dict.fromkeys(repairs)))


def _plain(text: str, repairs: list[str]) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced (noted)."""
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        return text
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if "�" in joined:
        repairs.append("lone_surrogate")
    return joined


def _plain_value(value: Any, repairs: list[str]) -> Any:
    """`_plain` for every text in a JSON value."""
    if isinstance(value, str):
        return _plain(value, repairs)
    if isinstance(value, list):
        return [_plain_value(item, repairs) for item in value]
    if isinstance(value, dict):
        return {_plain(key, repairs): _plain_value(item, repairs) for key, item in value.items()}
    return value


def _choose(blocks: list[Block], frame: Frame) -> tuple[Action, Block, list[str]]:
    """The one action that the blocks mean. Raises ReplyError."""
    valid: list[tuple[Action, Block, list[str]]] = []
    errors: list[ReplyError] = []
    for block in blocks:
        repairs: list[str] = []
        try:
            if block.error is not None:
                raise block.error
            valid.append((read_call(_plain_value(block.value, repairs), frame, repairs), block, repairs))
        except ReplyError as error:
            errors.append(error)
    if not valid:
        raise errors[-1]
    distinct: list[tuple[Action, Block, list[str]]] = []
    for item in valid:
        if all(item[0] != other[0] for other in distinct):
            distinct.append(item)
    action, block, repairs = distinct[0]
    if len(distinct) == 2 and isinstance(action, act.Answer):
        last = distinct[1][0]
        if isinstance(last, act.Terminate) and last.status == "success" and last.text in ("", action.text):
            return action, block, [*repairs, "answer_then_terminate"]
    if len(distinct) > 1:
        names = " and ".join(dict.fromkeys(item[0].action for item in distinct))
        raise ReplyError(
            ParseErrorKind.SEVERAL_CALLS, f"{len(distinct)} calls that differ ({names}); write exactly one"
        )
    if len(valid) > 1:
        repairs.append("repeated_call")
    if errors:
        repairs.append("ignored_broken_call")
    return action, block, repairs


def _labels(before: str) -> tuple[str, str, str]:
    """(thought, intent, prose): what stands behind `Thought:` and `Action:`, and what stands before any label."""
    labels = list(_LABEL.finditer(before))
    prose = (before[: labels[0].start()] if labels else before).strip().strip("`").strip()
    thought = intent = ""
    for label, following in zip(labels, [*labels[1:], None], strict=False):
        said = before[label.end() : following.start() if following else len(before)].strip()
        if label.group(1).lower() == "action":
            intent = said.split("\n", 1)[0].strip()
            if "*" in label.group(0).split(":")[0]:
                intent = intent.removesuffix("**").rstrip()
        elif not thought:
            thought = said
    return thought or prose, intent, prose


def parse_command(
    text: str, profile: str = "qwen3vl", viewport: Viewport | str = "1280x800"
) -> tuple[dict[str, Any], int]:
    """What `rmsweb parse` prints, and its exit code.

    `{thought, intent, action, repairs}` and 0, the action as in the records, in pixels; or `{error, message}` and 2.
    Raises ConfigError for an unknown profile or a viewport that is not WIDTHxHEIGHT.
    """
    if profile not in PROFILES:
        raise ConfigError(f"--profile {profile!r}: unknown; one of {', '.join(PROFILES)}")
    size = viewport if isinstance(viewport, tuple) else _size(viewport)
    try:
        parsed = parse_reply(text, size, PROFILES[profile])
    except ReplyError as error:
        return {"error": error.kind.value, "message": error.message}, 2
    action = parsed.action.model_dump(mode="json")
    return {
        "thought": parsed.thought,
        "intent": parsed.intent,
        "action": action,
        "repairs": list(parsed.repairs),
    }, 0


def _size(text: str) -> Viewport:
    found = re.fullmatch(r"\s*(\d{1,5})\s*[xX×,]\s*(\d{1,5})\s*", text)
    if found is None or not int(found[1]) or not int(found[2]):
        raise ConfigError(f"--viewport {text!r}: write WIDTHxHEIGHT in CSS pixels, for instance 1280x800")
    return Viewport(int(found[1]), int(found[2]))
