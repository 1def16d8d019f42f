"""The exact text of a call, and what written coordinates mean. Pure.

One function each for: pixels -> written numbers, the size a processor gives a picture, the call's JSON. Rollout, SFT
and RL all write through here.
"""

import json
import math
import re
from typing import Any, assert_never

from rmsweb import actions as act
from rmsweb.actions import Action, Coordinates, Point, Viewport
from rmsweb.replies.fields import Frame

_RESERVED = re.compile(
    r"<(?=[|｜]|/?(?:tool_call|tool_response|think|image|video|function|parameter)\b)", re.IGNORECASE
)
"""Openings that a tokenizer or the reader could take for a mark; written as \\u003c inside a call."""


def frame_of(viewport: Viewport, profile: Coordinates, resized: Viewport | None = None) -> Frame:
    """What the profile's numbers mean on this viewport."""
    if profile.scale is not None:
        return Frame(viewport, profile.scale, profile.scale)
    size = resized or resized_size(viewport, profile.factor)
    return Frame(viewport, size.width, size.height)


def resized_size(
    viewport: Viewport, factor: int, min_pixels: int | None = None, max_pixels: int | None = None
) -> Viewport:
    """The size that Qwen's processors give a picture: multiples of `factor`, area within the limits.

    Without limits those of the model card hold: 4 and 16384 squares of `factor` pixels.
    """
    low = 4 * factor * factor if min_pixels is None else min_pixels
    high = 16384 * factor * factor if max_pixels is None else max_pixels
    width, height = (max(factor, round(side / factor) * factor) for side in viewport)
    if width * height > high:
        shrink = math.sqrt(viewport.width * viewport.height / high)
        width, height = (max(factor, math.floor(side / shrink / factor) * factor) for side in viewport)
    elif width * height < low:
        stretch = math.sqrt(low / (viewport.width * viewport.height))
        width, height = (math.ceil(side * stretch / factor) * factor for side in viewport)
    return Viewport(width, height)


def format_call(action: Action, viewport: Viewport, profile: Coordinates, *, resized: Viewport | None = None) -> str:
    """The call's exact text: `parse_reply`'s inverse for every point on the profile's grid.

    Defaults are left out. Raises ValueError for a scroll along both axes at once, which the text form cannot say.
    """
    fields = call_fields(action, viewport, profile, resized)
    arguments = json.dumps({"name": "computer_use", "arguments": fields}, ensure_ascii=False)
    # Typed text must not look like a mark: the same JSON value, spelt so that no tokenizer sees one.
    arguments = _RESERVED.sub(r"\\u003c", arguments)
    arguments = re.sub("[\ud800-\udfff]", lambda lone: f"\\u{ord(lone.group()):04x}", arguments)
    return f"<tool_call>\n{arguments}\n</tool_call>"


def written_point(point: Point, viewport: Viewport, profile: Coordinates, resized: Viewport | None = None) -> list[int]:
    """Pixels -> the numbers that a model of this profile writes."""
    frame, step = frame_of(viewport, profile, resized), profile.step
    x, y = point.x * frame.across / viewport.width / step, point.y * frame.down / viewport.height / step
    return [min(frame.across, round(x) * step), min(frame.down, round(y) * step)]


def call_fields(
    action: Action, viewport: Viewport, profile: Coordinates, resized: Viewport | None = None
) -> dict[str, Any]:
    """Fields in their written order; defaults are left out."""

    def at(point: Point | None, name: str = "coordinate") -> dict[str, list[int]]:
        return {} if point is None else {name: written_point(point, viewport, profile, resized)}

    kind = {"action": action.action}
    match action:
        case act.LeftClick() | act.DoubleClick() | act.TripleClick() | act.RightClick() | act.MouseMove():
            return {**kind, **at(action.point)}
        case act.Drag():
            return {**kind, **at(action.start, "start_coordinate"), **at(action.point)}
        case act.Type():
            flags = {"press_enter": action.press_enter, "clear_first": action.clear_first}
            return {**kind, **at(action.point), "text": action.text, **{k: True for k, on in flags.items() if on}}
        case act.Key():
            return {**kind, "keys": list(action.keys)}
        case act.Scroll():
            if action.dx and action.dy:
                raise ValueError("a scroll along both axes at once has no text form")
            pixels = {"action": "hscroll", "pixels": action.dx} if action.dx else {**kind, "pixels": -action.dy}
            return {"action": pixels["action"], **at(action.point), "pixels": pixels["pixels"]}
        case act.Wait():
            seconds = int(action.seconds) if action.seconds == int(action.seconds) else action.seconds
            return {**kind, "time": seconds}
        case act.Goto():
            return {**kind, "url": action.url}
        case act.WebSearch():
            return {**kind, "query": action.query}
        case act.GoBack():
            return {**kind}
        case act.SwitchTab():
            return {**kind, "tab": action.tab}
        case act.NewTab():
            return {**kind, **({"url": action.url} if action.url else {})}
        case act.CloseTab():
            return {**kind, **({} if action.tab is None else {"tab": action.tab})}
        case act.SelectOption():
            return {**kind, **at(action.point), "text": action.text}
        case act.Memorize():
            return {**kind, "fact": action.fact}
        case act.Answer():
            return {**kind, "text": action.text}
        case act.Terminate():
            return {**kind, "status": action.status, **({"text": action.text} if action.text else {})}
        case _:
            assert_never(action)
