"""Rubrics: criteria and points, and the one rule of what a usable rubric is. Pure.

    read_rubric(CELL) -> the JSON object of a task file's cell as it stands there, checked; None where it is empty
    parse_rubric(VALUE) -> Rubric   criteria in order, with whatever points they carry

Source: microsoft/WebTailBench, column `precomputed_rubric`: `items[]` of `criterion`, `description`, `max_points`,
empty `justification` and `earned_points`, optional `condition`; the same with points in the Universal Verifier's score
files. Every criterion is worth more than 0 points (its own check of a rubric demands that too): one of 0 points would
say nothing, and a rubric of such has no share. A conditional criterion that is off counts in neither earned nor largest
points; a score passes at 0.8 inclusive, whatever the floats; points beyond a criterion's largest are refused, never
clipped (clipping would turn a judge's slip into full marks).
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rmsweb.errors import DataError

PASS = 0.8
"""Share of the points from which the process passes, inclusive (Universal Verifier)."""
NESTING = 8
"""Deepest nesting of criteria in criteria."""
SLACK = 1e-9
"""Sums of decimal points are this exact."""


@dataclass(slots=True, frozen=True)
class Criterion:
    """One line of a rubric, scored or not."""

    criterion: str
    description: str
    max_points: float
    condition: str = ""
    """It only counts where this holds; empty: it always counts."""
    met: bool | None = None
    """Whether the condition holds; None: not said yet."""
    baseline: float | None = None
    """Points from the actions alone."""
    earned: float | None = None
    """Points that count: after the screenshots were looked at."""
    justification: str = ""
    reality: str = ""
    """What the screenshots show of the criterion's assumptions."""
    penalty: bool = False
    """Added for a side effect that nobody asked for: no points of some."""

    @property
    def counts(self) -> bool:
        """Whether its points count."""
        return not self.condition or self.met is True


@dataclass(slots=True, frozen=True)
class Points:
    """What a scored rubric adds up to."""

    earned: float
    maximum: float

    @property
    def score(self) -> float | None:
        """Share of the points, 0 to 1; None where no criterion counts."""
        return self.earned / self.maximum if self.maximum > 0 else None

    def passed(self, threshold: float = PASS) -> bool | None:
        """Whether the share reaches the threshold, inclusive; None where there is no share."""
        return None if self.score is None else self.score >= threshold - SLACK


@dataclass(slots=True, frozen=True)
class Rubric:
    """The criteria of one task, in order."""

    items: tuple[Criterion, ...]

    @property
    def largest(self) -> float:
        """All points there are, conditional ones included."""
        return math.fsum(item.max_points for item in self.items)

    @property
    def conditional(self) -> tuple[int, ...]:
        """Indices of the criteria that have a condition."""
        return tuple(index for index, item in enumerate(self.items) if item.condition)

    def points(self) -> Points:
        """Earned and largest points of the criteria that count. Raises DataError where one of them has no points."""
        counted = [item for item in self.items if item.counts]
        open_ones = [item.criterion for item in counted if item.earned is None]
        if open_ones:
            raise DataError(f"criterion {open_ones[0][:80]!r} has no earned points")
        return Points(math.fsum(item.earned or 0.0 for item in counted), math.fsum(i.max_points for i in counted))

    def changed(self, changes: Mapping[int, Mapping[str, Any]]) -> "Rubric":
        """A copy in which the criteria at these indices have other fields."""
        return Rubric(tuple(replace(item, **changes.get(index, {})) for index, item in enumerate(self.items)))


def read_rubric(value: object, where: str = "precomputed_rubric") -> dict[str, Any] | None:
    """The rubric of a cell (JSON text) or field as it stands there; None when there is none. Raises as `parse_rubric`.

    The task keeps what the file says; a judge reads it with `parse_rubric`, so that what loads here is usable there.
    """
    if value is None or value == {} or (isinstance(value, str) and not value.strip()):
        return None
    given = _object(value, where)
    parse_rubric(given, where)
    return given


def rubric_hash(rubric: Mapping[str, Any]) -> str:
    """First 8 hex digits of the SHA-256 of what is asked for; fields to be filled in by a judge do not count."""
    items = [
        [item["criterion"], item.get("description") or "", item["max_points"], item.get("condition") or ""]
        for item in _leaves(rubric)
    ]
    text = json.dumps(items, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def _leaves(rubric: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The criteria of a rubric that was checked, nested ones in their place."""
    nested = [_leaves(item) if isinstance(item.get("items"), list) else [item] for item in rubric["items"]]
    return [leaf for leaves in nested for leaf in leaves]


def parse_rubric(value: object, where: str = "rubric") -> Rubric:
    """A rubric from its JSON value or JSON text; unknown fields are ignored, nested criteria are flattened.

    `where`: put in front of every error. A list is a list of rubrics, of which the first is taken (so upstream).
    Raises DataError: no items, a blank criterion, points that are no finite number above 0, earned points that are
    negative or beyond the largest.
    """
    found = _items(_object(value, where), where, 0)
    if not found:
        raise DataError(f"{where}: `items` is empty; a rubric needs a criterion")
    return Rubric(tuple(found))


def _object(value: object, where: str) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON: {error}; leave it empty to have no rubric") from None
    if isinstance(value, list) and value and isinstance(value[0], dict) and "items" in value[0]:
        value = value[0]
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object with `items`, found {kind_of(value)}")
    return value


def _items(value: Mapping[str, Any], where: str, depth: int) -> list[Criterion]:
    items = value.get("items")
    if not isinstance(items, list):
        raise DataError(f"{where}: `items` should be a list of criteria, found {kind_of(items)}")
    if depth > NESTING:
        raise DataError(f"{where}: criteria are nested more than {NESTING} deep")
    found: list[Criterion] = []
    for number, item in enumerate(items):
        here = f"{where}.items[{number}]"
        if not isinstance(item, dict):
            raise DataError(f"{here}: expected an object, found {kind_of(item)}")
        found += _items(item, here, depth + 1) if isinstance(item.get("items"), list) else [_criterion(item, here)]
    return found


def _criterion(item: Mapping[str, Any], here: str) -> Criterion:
    name = item.get("criterion")
    if not isinstance(name, str) or not name.strip():
        raise DataError(f"{here}: `criterion` should be a text, found {kind_of(name)}")
    most = finite(item.get("max_points"), f"{here}: `max_points`")
    if most <= 0:
        raise DataError(f"{here}: `max_points` should be above 0, found {most:g}")
    condition, met = item.get("condition"), item.get("is_condition_met")
    if condition is not None and not isinstance(condition, str):
        raise DataError(f"{here}: `condition` should be a text, found {kind_of(condition)}")
    if met is not None and not isinstance(met, bool):
        raise DataError(f"{here}: `is_condition_met` should be true or false, found {kind_of(met)}")
    if "condition" in item and met is not None and not (condition or "").strip():
        condition = "(not stated)"  # It was treated as conditional by whoever stored this.
    baseline = _earned(item, "earned_points", most, here)
    seen = _earned(item, "post_image_earned_points", most, here)
    why = item.get("post_image_justification") or item.get("justification")
    description = item.get("description")
    if description is not None and not isinstance(description, str):
        raise DataError(f"{here}: `description` should be a text, found {kind_of(description)}")
    return Criterion(
        criterion=name.strip(),
        description=(description or "").strip(),
        max_points=most,
        condition=(condition or "").strip(),
        met=met,
        baseline=baseline,
        earned=baseline if seen is None else seen,
        justification=why if isinstance(why, str) else "",
        penalty=item.get("penalty") is True,
    )


def _earned(item: Mapping[str, Any], field: str, most: float, here: str) -> float | None:
    """Points of a field; None where it is absent, null or the empty text of an unscored rubric."""
    value = item.get(field)
    if value is None or value == "":
        return None
    points = finite(value, f"{here}: `{field}`")
    if not 0 <= points <= most + SLACK:
        raise DataError(f"{here}: `{field}` should be between 0 and {most:g}, found {points:g}; it is not clipped")
    return points


def finite(value: object, what: str) -> float:
    """A finite number; a text or a truth value is none. Raises DataError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{what} should be a number, found {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"{what} should be a finite number, found {number}")
    return number


def kind_of(value: object) -> str:
    """What a value is, for people: `null`, `a text ("three")`, `a list` ..."""
    if value is None:
        return "null or nothing"
    if isinstance(value, str):
        return f"a text ({value[:40]!r})"
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
