"""What an agent can do: a tagged union, in CSS pixels of the viewport. Pure.

The text form (`computer_use` JSON of Qwen3-VL's convention) and its tolerant reader live in `replies.py`; this
module owns the meaning: the kinds, their fields, the coordinate profiles and the canonical key names.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """Frozen, closed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(Frozen):
    """A pixel of the viewport, 0-based, left to right and top to bottom."""

    x: int
    y: int


class LeftClick(Frozen):
    action: Literal["left_click"] = "left_click"
    point: Point


class DoubleClick(Frozen):
    action: Literal["double_click"] = "double_click"
    point: Point


class TripleClick(Frozen):
    action: Literal["triple_click"] = "triple_click"
    point: Point


class RightClick(Frozen):
    action: Literal["right_click"] = "right_click"
    point: Point


class MouseMove(Frozen):
    action: Literal["mouse_move"] = "mouse_move"
    point: Point


class Drag(Frozen):
    """From `start`, or from where the mouse is."""

    action: Literal["left_click_drag"] = "left_click_drag"
    point: Point
    start: Point | None = None


class Type(Frozen):
    """Types into the field at `point`, or into what has the focus."""

    action: Literal["type"] = "type"
    text: str
    point: Point | None = None
    press_enter: bool = False
    clear_first: bool = False


class Key(Frozen):
    """Keys pressed together, by canonical (Playwright) name."""

    action: Literal["key"] = "key"
    keys: tuple[str, ...] = Field(min_length=1)


class Scroll(Frozen):
    """Wheel at `point` or the middle. Pixels: `dy` > 0 goes down the page, `dx` > 0 goes right."""

    action: Literal["scroll"] = "scroll"
    dy: int = 0
    dx: int = 0
    point: Point | None = None


class Wait(Frozen):
    action: Literal["wait"] = "wait"
    seconds: float = Field(default=1.0, ge=0, le=60)


class Goto(Frozen):
    action: Literal["goto"] = "goto"
    url: str


class WebSearch(Frozen):
    action: Literal["web_search"] = "web_search"
    query: str


class GoBack(Frozen):
    action: Literal["go_back"] = "go_back"


class SwitchTab(Frozen):
    action: Literal["switch_tab"] = "switch_tab"
    tab: int = Field(ge=0)


class NewTab(Frozen):
    action: Literal["new_tab"] = "new_tab"
    url: str = ""


class CloseTab(Frozen):
    """Closes the tab that is shown, or the one named."""

    action: Literal["close_tab"] = "close_tab"
    tab: int | None = Field(default=None, ge=0)


class SelectOption(Frozen):
    """Chooses by visible text in the native drop-down at `point`."""

    action: Literal["select_option"] = "select_option"
    point: Point
    text: str


class Memorize(Frozen):
    action: Literal["memorize"] = "memorize"
    fact: str


class Answer(Frozen):
    """The final answer; ends the episode."""

    action: Literal["answer"] = "answer"
    text: str


class Terminate(Frozen):
    """Ends the episode; `text` is an answer that stood beside it."""

    action: Literal["terminate"] = "terminate"
    status: Literal["success", "failure"]
    text: str = ""


Action = Annotated[
    LeftClick
    | DoubleClick
    | TripleClick
    | RightClick
    | MouseMove
    | Drag
    | Type
    | Key
    | Scroll
    | Wait
    | Goto
    | WebSearch
    | GoBack
    | SwitchTab
    | NewTab
    | CloseTab
    | SelectOption
    | Memorize
    | Answer
    | Terminate,
    Field(discriminator="action"),
]

POINTING = (LeftClick, DoubleClick, TripleClick, RightClick, MouseMove)
ENDING = (Answer, Terminate)


class Viewport(NamedTuple):
    """CSS pixels."""

    width: int
    height: int


class Coordinates(NamedTuple):
    """How a model family writes a point. Never guessed from the size of the numbers."""

    name: str
    scale: int | None
    """Full range of both axes; None: absolute pixels of the picture the model saw."""
    step: int = 1
    """Written numbers are multiples of this (the tiny model's grid)."""
    factor: int = 32
    """Absolute schemes: the picture is resized to multiples of this before the model sees it."""


PROFILES: Mapping[str, Coordinates] = {
    "qwen3vl": Coordinates("qwen3vl", 1000),
    "compact": Coordinates("compact", 1000, step=50),
    "absolute": Coordinates("absolute", None, factor=28),
    "percent": Coordinates("percent", 100),
}


def to_pixels(x: float, y: float, viewport: Viewport, scale: int) -> Point:
    """Relative (0..scale on both axes) to pixels; each axis with its own size. Raises ValueError out of range."""
    if not (0 <= x <= scale and 0 <= y <= scale):
        raise ValueError(f"coordinate ({x:g}, {y:g}) is outside 0..{scale}")
    width, height = viewport
    return Point(x=min(width - 1, round(x * width / scale)), y=min(height - 1, round(y * height / scale)))


def from_pixels(point: Point, viewport: Viewport, scale: int, step: int = 1) -> tuple[int, int]:
    """Pixels to relative numbers, rounded to the profile's step: the inverse of `to_pixels` on its own grid."""
    width, height = viewport
    x, y = point.x * scale / width / step, point.y * scale / height / step
    return min(scale, round(x) * step), min(scale, round(y) * step)
