"""What an agent can do: a tagged union, in CSS pixels of the viewport. Pure.

The text form (`computer_use` JSON of Qwen3-VL's convention) and its tolerant reader live in `replies.py`; this
module owns the meaning: the kinds, their fields, the coordinate profiles and the canonical key names.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


class Frozen(BaseModel):
    """Frozen, closed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(Frozen):
    """A pixel of the viewport, 0-based, left to right and top to bottom."""

    x: int
    y: int


class Act(Frozen):
    """Base of all actions; keeps the tag on disk even where defaults are left out."""

    @model_serializer(mode="wrap")
    def _with_tag(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"action": getattr(self, "action"), **handler(self)}  # noqa: B009


class LeftClick(Act):
    action: Literal["left_click"] = "left_click"
    point: Point


class DoubleClick(Act):
    action: Literal["double_click"] = "double_click"
    point: Point


class TripleClick(Act):
    action: Literal["triple_click"] = "triple_click"
    point: Point


class RightClick(Act):
    action: Literal["right_click"] = "right_click"
    point: Point


class MouseMove(Act):
    action: Literal["mouse_move"] = "mouse_move"
    point: Point


class Drag(Act):
    """From `start`, or from where the mouse is."""

    action: Literal["left_click_drag"] = "left_click_drag"
    point: Point
    start: Point | None = None


class Type(Act):
    """Types into the field at `point`, or into what has the focus."""

    action: Literal["type"] = "type"
    text: str
    point: Point | None = None
    press_enter: bool = False
    clear_first: bool = False


class Key(Act):
    """Keys pressed together, by canonical (Playwright) name."""

    action: Literal["key"] = "key"
    keys: tuple[str, ...] = Field(min_length=1)


class Scroll(Act):
    """Wheel at `point` or the middle. Pixels: `dy` > 0 goes down the page, `dx` > 0 goes right."""

    action: Literal["scroll"] = "scroll"
    dy: int = 0
    dx: int = 0
    point: Point | None = None


class Wait(Act):
    action: Literal["wait"] = "wait"
    seconds: float = Field(default=1.0, ge=0, le=60)


class Goto(Act):
    action: Literal["goto"] = "goto"
    url: str


class WebSearch(Act):
    action: Literal["web_search"] = "web_search"
    query: str


class GoBack(Act):
    action: Literal["go_back"] = "go_back"


class SwitchTab(Act):
    action: Literal["switch_tab"] = "switch_tab"
    tab: int = Field(ge=0)


class NewTab(Act):
    action: Literal["new_tab"] = "new_tab"
    url: str = ""


class CloseTab(Act):
    """Closes the tab that is shown, or the one named."""

    action: Literal["close_tab"] = "close_tab"
    tab: int | None = Field(default=None, ge=0)


class SelectOption(Act):
    """Chooses by visible text in the native drop-down at `point`."""

    action: Literal["select_option"] = "select_option"
    point: Point
    text: str


class Memorize(Act):
    action: Literal["memorize"] = "memorize"
    fact: str


class Answer(Act):
    """The final answer; ends the episode."""

    action: Literal["answer"] = "answer"
    text: str


class Terminate(Act):
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
