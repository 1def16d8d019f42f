"""The action-only anchor: which text, which tokens, which weight. Pure.

Owns the boundary between a reply's context and its action, and the mask over the tokens of the reference reply.
Promises: the whole reply is tokenised once, as a sampled reply is, and the mask is cut by character offsets, so no
token boundary is invented; a group without a reference never gets here (the gate sees to it).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rmsweb.config import AnchorConfig
from rmsweb.errors import DataError

Which = Literal["call", "call+target", "reply"]
CALL = "<tool_call>"
TARGET = "Action:"


class AnchorText(NamedTuple):
    """A reply to imitate and where its action begins."""

    text: str
    start: int
    """Character at which the anchored part begins."""
    context: Literal["ref", "self", "none"]
    """The context that was really used: `self` falls back to `ref` when no sampled reply has one."""


def boundary(text: str, which: Which) -> int | None:
    """First character of the anchored part; None when the text has no call (or no naming line)."""
    if which == "reply":
        return 0
    call = text.rfind(CALL)
    if call < 0:
        return None
    if which == "call":
        return call
    line = text.rfind(TARGET, 0, call)
    return None if line < 0 else line


def anchor_text(reference: str, sampled: Sequence[str], config: AnchorConfig) -> AnchorText:
    """The text whose action part is anchored: the reference's action behind the chosen context.

    `reference` is a+ as policy.render_reply writes it, `sampled` the group's replies (for `context = "self"`).
    Raises DataError when the reference has no call.
    """
    start = boundary(reference, config.tokens)
    if start is None and config.tokens == "call+target":
        start = boundary(reference, "call")  # a reply without a naming line: the call is the action
    if start is None:
        raise DataError(f"reference reply without {CALL}: {reference[:80]!r}")
    if config.context == "none":
        return AnchorText(reference[start:], 0, "none")
    if config.context == "self":
        for text in sampled:
            own = boundary(text, config.tokens)
            if own is not None:
                return AnchorText(text[:own] + reference[start:], own, "self")
    return AnchorText(reference, start, "ref")


def anchor_mask(offsets: Sequence[tuple[int, int]], text: str, which: Which, start: int | None = None) -> list[int]:
    """0/1 over the reply's tokens; `offsets` are their character spans (end exclusive) in `text`.

    A token counts when any of its characters lies in the anchored part; an empty span at the end (the end mark)
    counts too. `start` overrides the boundary (AnchorText.start).
    """
    first = boundary(text, which) if start is None else start
    if first is None:
        raise DataError(f"no {'naming line' if which == 'call+target' else CALL} in the reply: {text[:80]!r}")
    return [int(end > first or begin == end == len(text)) for begin, end in offsets]


def anchor_coefficient(config: AnchorConfig, progress: float) -> float:
    """lambda(t); `progress` runs from 0 to 1 over the training."""
    return config.weight * (1 - progress) if config.decay == "linear" else config.weight
