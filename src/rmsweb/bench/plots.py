"""The report's charts as inline SVG. Owns their looks: one palette, direct labels, no chart junk.

Colours are told apart in the common kinds of colour blindness (Okabe and Ito), and never carry a meaning alone. Text
stays text (searchable, in the page's font). The same numbers give the same bytes. Every function returns one
`<svg>`; rates are given as 0..1 and drawn in percent.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rmsweb.bench.wording import MINUS, bounds_said, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, FAINT, PAPER = "#1b1e23", "#5d646e", "#d9dbd7", "#fdfdfc"
NAMED = {
    "base": "#7f8791",
    "sft": "#56b4e9",
    "sft_continued": "#009e73",
    "rl": "#d55e00",
    "plain": "#7f8791",
    "reflect": "#0072b2",
}
MORE = ("#0072b2", "#cc79a7", "#e69f00", "#000000", "#009e73", "#d55e00", "#56b4e9", "#7f8791")
FATES = {"accepted": "#0072b2", "anchored": "#e69f00", "dropped": "#c3c7cb"}
WIDTH = 4.7
"""Inches: narrow enough to be read on a phone, two side by side on a desk."""
ROOM = 68
"""Small characters that fit side by side into a figure."""

Series = Sequence[tuple[float, float]]


def fitted(name: str, room: int) -> str:
    """A name of at most `room` characters: of a longer one both ends, by which like names are told apart."""
    if len(name) <= room:
        return name
    head = (room - 1) // 2
    return f"{name[:head]}\u2026{name[len(name) - (room - 1 - head) :]}"


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name: the known ones keep theirs, others take what is left."""
    left = [c for c in MORE if c not in {NAMED.get(n) for n in names}] or list(MORE)
    found: dict[str, str] = {}
    for name in names:
        found[name] = NAMED.get(name) or left[len([n for n in found if n not in NAMED]) % len(left)]
    return found


@contextmanager
def _figure(
    height: float, left: float = 0.11, right: float = 0.97, bottom: float = 0.42
) -> Iterator[tuple[Figure, Axes, list[str]]]:
    """A figure and its one pair of axes; the SVG is put into the list when the block ends."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: dict[str, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "rmsweb",
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "text.color": INK,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": SOFT,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
    }
    out: list[str] = []
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH, height))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((left, bottom / height, right - left, 1 - (bottom + 0.1) / height))
        yield figure, axes, out
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Type": None})
        out.append(_clean(buffer.getvalue()))


def _clean(svg: str) -> str:
    """Only the drawing: no XML head or metadata, the page's font, and a size that follows the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
    return svg.replace("'DejaVu Sans'", "inherit").replace("DejaVu Sans", "inherit").strip()


def _percent_axis(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", MINUS) + " %"))


def _grid(axes: Axes, which: str = "y") -> None:
    axes.grid(axis=which, color=FAINT, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def _end_labels(axes: Axes, ends: Sequence[tuple[float, str, str]], x: float, gap: float) -> None:
    """Names at the right ends of lines, moved apart where they would lie on each other, none above the top."""
    ordered = sorted(ends)
    for (_, name, colour), at in zip(ordered, apart([y for y, *_ in ordered], gap, axes.get_ylim()[1]), strict=True):
        axes.annotate(
            fitted(name, 14), (x, at), xytext=(6, 0), textcoords="offset points", va="center", color=_dark(colour),
            annotation_clip=False,
        )  # fmt: skip


def apart(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Ascending heights moved so that neighbours are `gap` apart: upwards, and down again where the top is passed."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    limit = top
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - gap
    return placed


def _dark(colour: str) -> str:
    """A colour dark enough for small text."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    while 0.299 * red + 0.587 * green + 0.114 * blue > 125:
        red, green, blue = int(red * 0.92), int(green * 0.92), int(blue * 0.92)
    return f"#{red:02x}{green:02x}{blue:02x}"


def lines(
    series: Mapping[str, Series],
    x_label: str,
    *,
    percent: bool = True,
    bands: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    marks: bool = False,
    from_zero: bool = True,
    whole_x: bool = True,
    stairs: bool = False,
) -> str:
    """One line a name with its label at the end; `bands` are (low, high) bars at its points, `stairs` for budgets."""
    from matplotlib.ticker import MaxNLocator

    shade, scale = colours(list(series)), 100.0 if percent else 1.0
    with _figure(2.75, right=0.76) as (_, axes, out):
        ends, step = [], len(series)
        for i, (name, points) in enumerate(series.items()):
            shift = 0.03 * (i - (step - 1) / 2) if bands else 0.0
            xs, ys = [x + shift for x, _ in points], [scale * y for _, y in points]
            axes.plot(
                xs,
                ys,
                drawstyle="steps-post" if stairs else "default",
                color=shade[name],
                linewidth=2,
                marker="o" if marks else None,
                markersize=5,
                clip_on=False,
            )
            if bands and name in bands:
                lows, highs = ([scale * band[k] for band in bands[name]] for k in (0, 1))
                axes.vlines(xs, lows, highs, color=shade[name], linewidth=1.4, alpha=0.8)
            ends.append((ys[-1], name, shade[name]))
        if from_zero:
            axes.set_ylim(bottom=0)
        if percent:
            axes.set_ylim(0, min(100.0, axes.get_ylim()[1]))
            _percent_axis(axes.yaxis)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
        if whole_x:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        _grid(axes)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(x_label)
        low, high = axes.get_ylim()
        _end_labels(axes, ends, max(x for points in series.values() for x, _ in points), 0.085 * (high - low))
    return out[0]


def shares(
    steps: Sequence[float], layers: Mapping[str, Sequence[float]], x_label: str, shade: Mapping[str, str] = FATES
) -> str:
    """Stacked shares (they add up to 1) over steps, each layer named at its right end."""
    with _figure(2.75, right=0.76) as (_, axes, out):
        rows = [[100 * v for v in values] for values in layers.values()]
        axes.stackplot(
            steps, rows, colors=[shade[name] for name in layers], edgecolor="white", linewidth=0.6, step="mid"
        )
        axes.set_xlim(min(steps), max(steps))
        axes.set_ylim(0, 100)
        _percent_axis(axes.yaxis)
        below, ends = 0.0, []
        for name, values in zip(layers, rows, strict=True):
            tail = values[-max(1, len(values) // 6) :]
            height = sum(tail) / len(tail)
            ends.append((below + height / 2, name, shade[name]))
            below += height
        _end_labels(axes, ends, max(steps), 8.5)
        axes.set_xlabel(x_label)
        axes.spines["left"].set_visible(False)
    return out[0]


def dots(
    rows: Sequence[tuple[str, float, tuple[float, float], float | None]],
    shade: Mapping[str, str] | None = None,
    x_label: str = "",
) -> str:
    """One row a name: rate with its interval, and a hollow diamond for the rate over judged tasks where it differs."""
    shade = shade or colours([name for name, *_ in rows])
    below = 0.42 if x_label else 0.26
    with _figure(0.14 + below + 0.36 * len(rows), left=0.3, right=0.87, bottom=below) as (_, axes, out):
        for y, (name, rate, (low, high), other) in enumerate(reversed(rows)):
            axes.hlines(y, 100 * low, 100 * high, color=shade[name], linewidth=3, alpha=0.45)
            axes.plot(100 * rate, y, "o", color=shade[name], markersize=8, clip_on=False)
            if other is not None and abs(other - rate) > 0.0005:
                axes.plot(100 * other, y, "D", markerfacecolor="white", markeredgecolor=shade[name], markersize=5)
            axes.annotate(f"{100 * rate:.1f}", (100, y), xytext=(8, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(rows)), [fitted(name, 17) for name, *_ in reversed(rows)])
        axes.tick_params(axis="y", colors=INK, pad=12)  # a dot at 0 % reaches 4 points to the left
        axes.set_xlim(0, 100)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        _percent_axis(axes.xaxis)
        axes.set_xlabel(x_label)
        _grid(axes, "x")
        axes.spines["left"].set_visible(False)
    return out[0]


def forest(
    rows: Sequence[tuple[str, float, tuple[float, float] | None]], scale: float = 100.0, unit: str = "points"
) -> str:
    """Paired differences with intervals about a zero line; filled where the interval leaves zero out. None: too few
    tasks for one. What a row says in words stands above its line, as names of models may be long."""
    with _figure(0.62 + 0.52 * len(rows), left=0.03, right=0.97) as (_, axes, out):
        axes.axvline(0, color=SOFT, linewidth=1)
        for y, (name, difference, bounds) in enumerate(reversed(rows)):
            resolved = bounds is not None and not bounds[0] <= 0 <= bounds[1]
            colour = "#0072b2" if resolved else "#8b929a"
            if bounds is not None:
                axes.hlines(y, scale * bounds[0], scale * bounds[1], color=colour, linewidth=2)
            axes.plot(
                scale * difference, y, "o", markersize=7, markeredgecolor=colour,
                markerfacecolor=colour if resolved else "white", markeredgewidth=1.5,
            )  # fmt: skip
            digits = 1 if scale > 1 else 2
            said = f"{signed(difference, digits, scale)} {bounds_said(bounds, digits, scale)}"
            title = fitted(name, ROOM - len(said))
            for text, at, side, shade in ((title, 0, "left", INK), (said, 1, "right", INK if resolved else SOFT)):
                axes.annotate(
                    text, (at, y), xycoords=("axes fraction", "data"), xytext=(0, 13), textcoords="offset points",
                    ha=side, va="center", fontsize=8.5, color=shade,
                    bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
                )  # fmt: skip
        axes.set_yticks([])
        axes.set_ylim(-0.45, len(rows) - 0.25)
        ends = [scale * x for _, difference, bounds in rows for x in (difference, *(bounds or ()))]
        reach = 1.08 * max(map(abs, ends), default=1.0) or 1.0
        axes.set_xlim(-reach if min(ends, default=0.0) < 0 else -0.08 * reach, reach)
        axes.set_xlabel(unit)
        _grid(axes, "x")
        axes.spines["left"].set_visible(False)
    return out[0]


def before_after(rows: Sequence[tuple[str, float, float]], names: tuple[str, str]) -> str:
    """Two rates a row joined by a line: hollow before, filled after."""
    shade = colours(names)
    with _figure(0.85 + 0.34 * len(rows), left=0.49, right=0.84) as (_, axes, out):
        for y, (_, before, after) in enumerate(reversed(rows)):
            axes.plot([100 * before, 100 * after], [y, y], color=FAINT, linewidth=3, zorder=1)
            axes.plot(
                100 * before, y, "o", markersize=7, markerfacecolor="white", markeredgewidth=1.8,
                markeredgecolor=shade[names[0]],
            )  # fmt: skip
            axes.plot(100 * after, y, "o", markersize=7, color=shade[names[1]])
        top = len(rows) - 1
        first, second = rows[0][1], rows[0][2]
        for value, name, side in ((first, names[0], first > second), (second, names[1], second >= first)):
            axes.annotate(
                fitted(name, 14), (100 * value, top), xytext=(5 if side else -5, 7), textcoords="offset points",
                ha="left" if side else "right", color=_dark(shade[name]),
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [fitted(name, 32) for name, *_ in reversed(rows)])
        axes.tick_params(axis="y", colors=INK)
        axes.set_xlim(-0.5, 1.2 * max(1.0, *(100 * x for row in rows for x in row[1:])))
        axes.set_ylim(-0.6, len(rows) - 0.1)
        _percent_axis(axes.xaxis)
        axes.set_xlabel("of all episodes")
        _grid(axes, "x")
        axes.spines["left"].set_visible(False)
    return out[0]


class Spot(NamedTuple):
    """One model: cost, rate (0..1) and their 95 % bounds."""

    x: float
    rate: float
    interval: tuple[float, float]
    x_interval: tuple[float, float] | None = None


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of the (cost, rate) points that no other beats: none as cheap is better, none as good is cheaper."""
    found = []
    for name, (x, rate) in points.items():
        beaten = any((a <= x and b >= rate) and (a < x or b > rate) for a, b in points.values())
        if not beaten:
            found.append(name)
    return sorted(found, key=lambda name: points[name])


def scatter(points: Mapping[str, Spot], x_label: str, best: Sequence[str] = ()) -> str:
    """Accuracy against cost, cheap and good at the top left; `best` (the Pareto front) is filled and joined."""
    shade = colours(list(points))
    with _figure(2.75, right=0.76) as (_, axes, out):
        widest = max(spot.x_interval[1] if spot.x_interval else spot.x for spot in points.values())
        if len(best) > 1:
            xs, ys = [points[n].x for n in best], [100 * points[n].rate for n in best]
            axes.plot(xs, ys, drawstyle="steps-post", color=SOFT, linewidth=1, linestyle=(0, (3, 2)), zorder=1)
        for name, spot in points.items():
            low, high = spot.interval
            axes.vlines(spot.x, 100 * low, 100 * high, color=shade[name], linewidth=1.6, alpha=0.6)
            if spot.x_interval:
                axes.hlines(100 * spot.rate, *spot.x_interval, color=shade[name], linewidth=1.6, alpha=0.6)
            filled = not best or name in best
            axes.plot(
                spot.x, 100 * spot.rate, "o", markersize=8, markeredgecolor=shade[name], markeredgewidth=1.6,
                markerfacecolor=shade[name] if filled else "white", clip_on=False,
            )  # fmt: skip
        axes.set_xlim(0, widest * 1.06)
        axes.set_ylim(0, 100)
        ends = [(100 * spot.rate, name, shade[name]) for name, spot in points.items()]
        _end_labels(axes, ends, widest * 1.06, 8.5)
        _percent_axis(axes.yaxis)
        axes.set_xlabel(x_label)
        _grid(axes)
        axes.spines["left"].set_visible(False)
    return out[0]
