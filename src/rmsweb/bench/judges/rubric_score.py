"""Rubrics and their points: parsing, scoring, recomputing stored scores. Pure, but for reading one score file.

Source: WebTailBench's `precomputed_rubric` and the Universal Verifier's score files (`scores/mmrubric_*.json`).
Promises: a conditional criterion that is off counts in neither earned nor largest points; a score passes at 0.8
inclusive, whatever the floats; points beyond a criterion's largest are refused, never clipped (clipping would turn a
judge's slip into full marks).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
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


def parse_rubric(value: object, where: str = "rubric") -> Rubric:
    """A rubric from its JSON value or JSON text; unknown fields are ignored, nested criteria are flattened.

    `where`: put in front of every error. A list is a list of rubrics, of which the first is taken (so upstream).
    Raises DataError: no items, a blank criterion, points that are no finite number above 0, earned points that are
    negative or beyond the largest.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON: {error}") from None
    if isinstance(value, list) and value and isinstance(value[0], dict) and "items" in value[0]:
        value = value[0]
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object with `items`, found {_kind(value)}")
    found = _items(value, where, 0)
    if not found:
        raise DataError(f"{where}: `items` is empty; a rubric needs a criterion")
    return Rubric(tuple(found))


def _items(value: Mapping[str, Any], where: str, depth: int) -> list[Criterion]:
    items = value.get("items")
    if not isinstance(items, list):
        raise DataError(f"{where}: `items` should be a list of criteria, found {_kind(items)}")
    if depth > NESTING:
        raise DataError(f"{where}: criteria are nested more than {NESTING} deep")
    found: list[Criterion] = []
    for number, item in enumerate(items):
        here = f"{where}.items[{number}]"
        if not isinstance(item, dict):
            raise DataError(f"{here}: expected an object, found {_kind(item)}")
        found += _items(item, here, depth + 1) if isinstance(item.get("items"), list) else [_criterion(item, here)]
    return found


def _criterion(item: Mapping[str, Any], here: str) -> Criterion:
    name = item.get("criterion")
    if not isinstance(name, str) or not name.strip():
        raise DataError(f"{here}: `criterion` should be a text, found {_kind(name)}")
    most = finite(item.get("max_points"), f"{here}: `max_points`")
    if most <= 0:
        raise DataError(f"{here}: `max_points` should be above 0, found {most:g}")
    condition, met = item.get("condition"), item.get("is_condition_met")
    if condition is not None and not isinstance(condition, str):
        raise DataError(f"{here}: `condition` should be a text, found {_kind(condition)}")
    if met is not None and not isinstance(met, bool):
        raise DataError(f"{here}: `is_condition_met` should be true or false, found {_kind(met)}")
    if "condition" in item and met is not None and not (condition or "").strip():
        condition = "(not stated)"  # It was treated as conditional by whoever stored this.
    baseline = _earned(item, "earned_points", most, here)
    seen = _earned(item, "post_image_earned_points", most, here)
    why = item.get("post_image_justification") or item.get("justification")
    description = item.get("description")
    return Criterion(
        criterion=name.strip(),
        description=description.strip() if isinstance(description, str) else "",
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
        raise DataError(f"{what} should be a number, found {_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"{what} should be a finite number, found {number}")
    return number


def _kind(value: object) -> str:
    """What a value is, for people: `null`, `a text ("three")`, `a list` ..."""
    if value is None:
        return "null or nothing"
    if isinstance(value, str):
        return f"a text ({value[:40]!r})"
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


# Stored scores


@dataclass(slots=True, frozen=True)
class Recomputed:
    """A stored score, computed again from its items, and what does not agree with the stored fields."""

    score: float | None
    """Share of the points; None where nothing was scored (an aborted run, a verifier error, a zero without items)."""
    earned: float
    maximum: float
    label: int | None
    """1: the process passes, 0: it does not."""
    outcome: bool | None
    """Stored outcome verdict."""
    stored: float | None
    """Stored `score`: 1, 0, or None for an attempt that is left out of means."""
    criteria: tuple[str, ...]
    """Of process, outcome, both: the success criteria whose label is the stored one."""
    differences: tuple[str, ...]
    """Stored fields that the items contradict; empty: the file agrees with itself."""


def recompute(stored: Mapping[str, Any], where: str = "score file", threshold: float = PASS) -> Recomputed:
    """Earned points, score and label of a Fara score file, from its items alone. Raises DataError.

    `stored`: the file's JSON object (`score`, `gpt_response_text`). The process label is upstream's
    `rubric_is_success`; the stored top-level `score` follows the outcome, the process, or both, whichever was set.
    """
    top = stored.get("score")
    mark = None if top is None else finite(top, f"{where}: `score`")
    body = _breakdown(stored.get("gpt_response_text"), where, needed=mark is not None and mark != 0)
    if body is None:
        return Recomputed(None, 0.0, 0.0, None if mark is None else 0, None, mark, (), ())
    items = body.get("rubric_items", body.get("items"))
    rubric = parse_rubric({"items": items}, f"{where}: rubric_items")
    points = rubric.points()
    label = None if (passed := points.passed(threshold)) is None else int(passed)
    outcome = body.get("outcome_success")
    if outcome is not None and not isinstance(outcome, bool):
        outcome = bool(finite(outcome, f"{where}: `outcome_success`"))
    differences = [*_totals(body, points, where), *_flags(body, label), *_copies(body, points, where)]
    labels = success_labels(passed, outcome)
    agreeing = tuple(name for name, success in labels.items() if mark is not None and mark == int(success is True))
    if mark is not None and not agreeing:
        said = ", ".join(f"{name} {success}" for name, success in labels.items())
        differences.append(f"score is {mark:g}, the items and the outcome say {said}")
    return Recomputed(points.score, points.earned, points.maximum, label, outcome, mark, agreeing, tuple(differences))


def success_labels(process: bool | None, outcome: bool | None) -> dict[str, bool | None]:
    """Success under each criterion; `both` is certain as soon as one of the two fails."""
    both = None if process is None or outcome is None else process and outcome
    if process is False or outcome is False:
        both = False
    return {"process": process, "outcome": outcome, "both": both}


def read_score_file(path: Path) -> dict[str, Any]:
    """The JSON object of a score file. Raises DataError."""
    try:
        value = json.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not a JSON score file: {error}", path) from None
    if not isinstance(value, dict):
        raise DataError(f"expected an object with `score`, found {_kind(value)}", path)
    return value


def _breakdown(text: object, where: str, *, needed: bool) -> dict[str, Any] | None:
    """The breakdown that a score file carries as JSON text; None where a zero or an error has only a sentence."""
    body: object = text
    if isinstance(text, str):
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:
            if not needed:
                return None
            raise DataError(f"{where}: `gpt_response_text` is no JSON: {error}") from None
    if isinstance(body, dict) and ("rubric_items" in body or "items" in body):
        return body
    if needed:
        raise DataError(f"{where}: `gpt_response_text` should be JSON text with `rubric_items`, found {_kind(body)}")
    return None


def _totals(body: Mapping[str, Any], points: Points, where: str) -> list[str]:
    found = []
    for field, value in (("earned", points.earned), ("max", points.maximum)):
        name = f"rubric_total_{field}_points"
        if (stored := body.get(name)) is not None and abs(finite(stored, f"{where}: `{name}`") - value) > SLACK:
            found.append(f"{name} is {stored:g}, the items say {value:g}")
    return found


def _flags(body: Mapping[str, Any], label: int | None) -> list[str]:
    stored = body.get("rubric_is_success")
    if stored is None or stored == (label or 0):
        return []
    return [f"rubric_is_success is {stored!r}, the items say {label}"]


def _copies(body: Mapping[str, Any], points: Points, where: str) -> list[str]:
    """The voted scores: each instance's own items give its score, and the median one is the score of the items."""
    found = []
    rubrics, scores = body.get("rubric_all_rubric_dicts"), body.get("rubric_all_scores_list")
    items = parse_rubric({"items": body.get("rubric_items", body.get("items"))}, where).items
    same = False
    if isinstance(rubrics, list) and isinstance(scores, list):
        for number, (rubric, score) in enumerate(zip(rubrics, scores, strict=False)):
            here = f"{where}: rubric_all_rubric_dicts[{number}]"
            copy = parse_rubric(rubric, here)
            same, own = same or copy.items == items, copy.points().score or 0.0
            if abs(finite(score, f"{where}: rubric_all_scores_list[{number}]") - own) > SLACK:
                found.append(f"rubric_all_scores_list[{number}] is {score:g}, its items say {own:g}")
        if rubrics and not same:
            found.append("rubric_items are those of no instance in rubric_all_rubric_dicts")
    votes = body.get("rubric_majority_vote_metadata")
    median = votes.get("median_score") if isinstance(votes, dict) else None
    if median is not None and abs(finite(median, f"{where}: median_score") - (points.score or 0.0)) > SLACK:
        found.append(f"median_score is {median:g}, the items say {points.score or 0.0:g}")
    return found
