"""How numbers are said: percentages, intervals, and an honest sentence for a difference. Pure.

A difference whose interval contains zero is said to be unresolved, whatever its sign; one that rests on fewer than
`statistics.LEAST` differing tasks has no interval at all; what makes two models unlike is said with their difference.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rmsweb.statistics import LEAST

MINUS = "\u2212"
DASH = "\u2013"
NONE = "\u2014"
"""Stands where nothing was measured."""


def number(value: float | None, digits: int = 1) -> str:
    """A plain number with a real minus sign."""
    return NONE if value is None else f"{value:.{digits}f}".replace("-", MINUS)


def counted(n: int, what: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def percent(rate: float | None, digits: int = 1) -> str:
    """0.955 -> `95.5 %`."""
    return NONE if rate is None else f"{100 * rate:.{digits}f} %"


def between(interval: Sequence[float] | None, digits: int = 1) -> str:
    """(0.9, 0.97) -> `90.0\u201397.0`, in percent."""
    return NONE if interval is None else f"{100 * interval[0]:.{digits}f}{DASH}{100 * interval[1]:.{digits}f}"


def signed(points: float | None, digits: int = 1, scale: float = 100.0) -> str:
    """0.045 -> `+4.5`; the sign is always there."""
    return NONE if points is None else f"{scale * points:+.{digits}f}".replace("-", MINUS)


def signed_interval(interval: Sequence[float] | None, digits: int = 1, scale: float = 100.0) -> str:
    """(-0.01, 0.1) -> `[\u22121.0, +10.0]`."""
    if interval is None:
        return NONE
    return f"[{signed(interval[0], digits, scale)}, {signed(interval[1], digits, scale)}]"


TOO_FEW = "too few to tell"
"""Stands for the interval of a difference that rests on next to nothing: redrawing few tasks looks exact."""
WHY_TOO_FEW = (
    f"{TOO_FEW.capitalize()}: fewer than {LEAST} tasks differ, and an interval would look more exact than it is."
)


def pair_bounds(pair: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval of a paired difference; None where too few tasks differ (a summary of before may not say)."""
    if "a_only" in pair and pair["a_only"] + pair["b_only"] < LEAST:
        return None
    return (pair["interval"][0], pair["interval"][1])


def step_bounds(common: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval of a difference in steps on commonly solved tasks; None where these are too few, or all alike."""
    interval = common["interval"]
    if interval is None or common["n"] < LEAST or interval[0] == interval[1]:
        return None
    return (interval[0], interval[1])


def bounds_said(bounds: Sequence[float] | None, digits: int = 1, scale: float = 100.0) -> str:
    """`[\u22121.0, +10.0]`, or that there is too little for one."""
    return TOO_FEW if bounds is None else signed_interval(bounds, digits, scale)


def verdict(pair: Mapping[str, Any], a: str, b: str) -> str:
    """What a paired difference says, in one sentence; in two where the models are unlike."""
    said = _verdict(pair, a, b)
    return f"{said} They are unlike: they differ in {pair['unlike']}." if pair.get("unlike") else said


def _verdict(pair: Mapping[str, Any], a: str, b: str) -> str:
    if not pair["n"]:
        return f"{a} and {b} share no task."
    low, high = pair["interval"]
    if pair.get("a_only", 1) == pair.get("b_only", 1) == 0:
        return f"No difference seen: {a} and {b} agree on all {pair['n']} tasks."
    differ = pair.get("a_only", LEAST) + pair.get("b_only", 0)
    if differ < LEAST:
        return f"Too few to tell {a} and {b} apart: they differ on {counted(differ, 'task')} of {pair['n']}."
    if low <= 0 <= high:
        reach = 100 * max(abs(low), abs(high))
        return f"No difference resolved between {a} and {b} (up to {reach:.1f} points either way remain possible)."
    better, worse = (a, b) if low > 0 else (b, a)
    small, large = sorted(100 * abs(x) for x in (low, high))
    return f"{better} solves more than {worse}: by {small:.1f} to {large:.1f} points."


def named_pair(key: str, models: Sequence[str]) -> tuple[str, str]:
    """`rl_vs_sft` -> (rl, sft); model names may contain `_vs_` themselves."""
    for a in models:
        if key.startswith(f"{a}_vs_") and key[len(a) + 4 :] in models:
            return a, key[len(a) + 4 :]
    a, _, b = key.partition("_vs_")
    return a, b
