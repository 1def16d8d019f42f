"""What a step did, drawn over its screenshot (SVG) and said in one line. Pure; report and viewer share it.

Everything that came from a page or a model is escaped here. Coordinates are CSS pixels of the viewport.
"""

from html import escape
from math import hypot
from typing import assert_never

from rmsweb.actions import (
    Action,
    Answer,
    CloseTab,
    DoubleClick,
    Drag,
    GoBack,
    Goto,
    Key,
    LeftClick,
    Memorize,
    MouseMove,
    NewTab,
    Point,
    RightClick,
    Scroll,
    SelectOption,
    SwitchTab,
    Terminate,
    TripleClick,
    Type,
    Wait,
    WebSearch,
)
from rmsweb.records import Box, Step

ACT, HIT = "#d55e00", "#0072b2"
"""Vermilion for what the policy did, blue for what it hit: told apart in all common kinds of colour vision."""


def describe(action: Action | None) -> str:
    """One plain line, not escaped: `click (24, 77)`, `type "mug" + Enter`."""
    match action:
        case None:
            return "no action"
        case LeftClick() | DoubleClick() | TripleClick() | RightClick() | MouseMove():
            return f"{_VERBS[action.action]} {_at(action.point)}"
        case Drag():
            return f"drag {_at(action.start) + ' ' if action.start else ''}to {_at(action.point)}"
        case Type():
            extra = " + Enter" if action.press_enter else ""
            return f"type {_quoted(action.text)}{extra}{' at ' + _at(action.point) if action.point else ''}"
        case SelectOption():
            return f"select {_quoted(action.text)} at {_at(action.point)}"
        case Scroll():
            return f"scroll {_amount(action)}{' at ' + _at(action.point) if action.point else ''}"
        case Terminate():
            return f"end: {action.status}{' ' + _quoted(action.text) if action.text else ''}"
        case _:
            return _without_place(action)


def _without_place(
    action: Key | Wait | Goto | WebSearch | GoBack | SwitchTab | NewTab | CloseTab | Memorize | Answer,
) -> str:
    match action:
        case Key():
            return "key " + "+".join(action.keys)
        case Wait():
            return f"wait {action.seconds:g} s"
        case Goto():
            return f"go to {action.url}"
        case WebSearch():
            return f"web search {_quoted(action.query)}"
        case GoBack():
            return "go back"
        case SwitchTab():
            return f"switch to tab {action.tab}"
        case NewTab():
            return f"new tab {action.url}".strip()
        case CloseTab():
            return "close tab" if action.tab is None else f"close tab {action.tab}"
        case Memorize():
            return f"memorize {_quoted(action.fact)}"
        case Answer():
            return f"answer {_quoted(action.text)}"
        case _:
            assert_never(action)


def overlay_svg(step: Step, viewport: tuple[int, int]) -> str:
    """An `<svg>` of the viewport's size in its own units, to lie over the step's `before` picture."""
    width, height = viewport
    unit = max(2.0, width / 160)
    parts = [_box(step.effect.hit.box, unit)] if step.effect.hit else []
    match step.decision.action:
        case LeftClick() | RightClick() | MouseMove() as action:
            parts.append(_target(action.point, unit, 1, hollow=isinstance(action, MouseMove)))
        case DoubleClick() as action:
            parts.append(_target(action.point, unit, 2))
        case TripleClick() as action:
            parts.append(_target(action.point, unit, 3))
        case Drag() as action:
            if action.start is not None:
                parts += [_target(action.start, unit, 1, hollow=True), _arrow(action.start, action.point, unit)]
            else:
                parts.append(_target(action.point, unit, 1))
        case Scroll() as action:
            parts.append(_scroll(action, viewport, unit))
        case Type() as action if action.point is not None:
            parts += [_target(action.point, unit, 1), _text(action.point, _short(action.text), unit, viewport)]
        case SelectOption() as action:
            parts += [_target(action.point, unit, 1), _text(action.point, _short(action.text), unit, viewport)]
        case _:
            pass
    label = escape(describe(step.decision.action), quote=True)
    return f'<svg class="overlay" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


_VERBS = {
    "left_click": "click",
    "double_click": "double click",
    "triple_click": "triple click",
    "right_click": "right click",
    "mouse_move": "point at",
}


def _at(point: Point) -> str:
    return f"({point.x}, {point.y})"


def _quoted(text: str) -> str:
    return f"\u201c{text}\u201d"


def _short(text: str, length: int = 28) -> str:
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def _amount(action: Scroll) -> str:
    parts = []
    if action.dy or not action.dx:
        parts.append(f"{'down' if action.dy >= 0 else 'up'} {abs(action.dy)} px")
    if action.dx:
        parts.append(f"{'right' if action.dx > 0 else 'left'} {abs(action.dx)} px")
    return ", ".join(parts)


def _stroke(shape: str, unit: float, colour: str = ACT) -> str:
    """The shape twice: a white halo below, so that it stands out on any page."""
    halo = f'<g fill="none" stroke="#fff" stroke-width="{1.9 * unit:g}" stroke-opacity=".7">{shape}</g>'
    return f'{halo}<g fill="none" stroke="{colour}" stroke-width="{unit:g}">{shape}</g>'


def _target(point: Point, unit: float, rings: int, hollow: bool = False) -> str:
    circles = "".join(f'<circle cx="{point.x}" cy="{point.y}" r="{unit * (4.4 + 2.2 * i):g}"/>' for i in range(rings))
    dot = "" if hollow else f'<circle cx="{point.x}" cy="{point.y}" r="{0.8 * unit:g}" fill="{ACT}"/>'
    return _stroke(circles, unit) + dot


def _arrow(start: Point, end: Point, unit: float) -> str:
    length = hypot(end.x - start.x, end.y - start.y) or 1.0
    dx, dy = (end.x - start.x) / length, (end.y - start.y) / length
    head = 4 * unit
    left = (end.x - head * (dx + 0.6 * dy), end.y - head * (dy - 0.6 * dx))
    right = (end.x - head * (dx - 0.6 * dy), end.y - head * (dy + 0.6 * dx))
    path = (
        f"M{start.x} {start.y}L{end.x} {end.y}"
        f"M{left[0]:.1f} {left[1]:.1f}L{end.x} {end.y}L{right[0]:.1f} {right[1]:.1f}"
    )
    return _stroke(f'<path d="{path}" stroke-linecap="round" stroke-linejoin="round"/>', unit)


def _scroll(action: Scroll, viewport: tuple[int, int], unit: float) -> str:
    """An arrow from the wheel's place; it points where the view goes, at most a third of the viewport long."""
    width, height = viewport
    middle = action.point or Point(x=width // 2, y=height // 2)
    size = hypot(action.dx, action.dy) or 1.0
    length = max(10 * unit, min(size, min(width, height) / 3))
    end = Point(x=round(middle.x + action.dx / size * length), y=round(middle.y + action.dy / size * length))
    return _arrow(middle, end, unit)


def _box(box: Box, unit: float) -> str:
    shape = f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="{unit:g}"/>'
    return _stroke(shape, 0.8 * unit, HIT)


def _text(point: Point, text: str, unit: float, viewport: tuple[int, int]) -> str:
    """What was typed or chosen, on a plate beside the point, kept inside the picture."""
    size = max(9.0, 5.5 * unit)
    width = 0.64 * size * len(text) + size
    x = min(max(0.0, point.x + 6 * unit), max(0.0, viewport[0] - width))
    y = point.y - 8 * unit if point.y > 14 * unit + size else point.y + 8 * unit + size
    return (
        f'<rect x="{x:g}" y="{y - 1.1 * size:g}" width="{width:g}" height="{1.5 * size:g}" rx="{unit:g}" fill="{ACT}"/>'
        f'<text x="{x + size / 2:g}" y="{y:g}" font-size="{size:g}" fill="#fff" '
        f'font-family="system-ui, sans-serif">{escape(text)}</text>'
    )
