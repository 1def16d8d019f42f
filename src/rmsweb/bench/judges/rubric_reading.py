"""Replies of the rubric verifier's stages: JSON -> typed answers. Pure.

Tolerant where the meaning is certain (code fences, text around the object, trailing commas, numbers as text, entries in
another order); Unreadable where it is not: a criterion that is missing or doubled, a number beyond its range, null, a
reply that was cut, two answers that differ. Never fills in a default.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rmsweb.errors import DataError
from rmsweb.replies.repair import MalformedJson, read_json
from rmsweb.tasksets.rubrics import SLACK, Criterion, Rubric, finite, parse_rubric

TRIES = 200
"""Most opening brackets of a reply at which an answer is looked for."""
FAMILIES = ("selection", "hallucination", "execution", "critical_point", "side_effect", "tool")
"""Kinds of first failure: chose the wrong thing, made something up, poor strategy or too little effort, the boundary
of an irreversible act, something unasked was changed, the action itself went wrong."""
VALIDITY = ("valid", "ambiguous", "invalid")


class Unreadable(ValueError):
    """A reply holds no certain answer, and why."""


@dataclass(slots=True, frozen=True)
class Evidence:
    """What one screenshot shows for one criterion."""

    picture: int
    """Position of the screenshot, from 0."""
    shows: str
    analysis: str
    discrepancies: str
    environment: bool
    """A blocker that the agent does not control is visible."""
    condition: bool | None = None
    """Whether it shows that the criterion's condition holds."""


@dataclass(slots=True, frozen=True)
class Boundary:
    """The point of no return of a task."""

    kind: str
    """none, permitted or not_permitted."""
    text: str


@dataclass(slots=True, frozen=True)
class Diagnosis:
    """Where it first went wrong, and whether the task itself is sound."""

    step: int | None
    """Number of the action, from 1; None: no failure."""
    family: str
    reason: str
    validity: str
    validity_reason: str


def answer(text: str, *needs: str) -> dict[str, Any]:
    """The JSON object of a reply that has at least one of the fields `needs`. Raises Unreadable."""
    body = re.split(r"</think(?:ing)?>", text, flags=re.IGNORECASE)[-1]
    found: list[dict[str, Any]] = []
    at = body.find("{")
    for _ in range(TRIES):
        if at < 0:
            break
        try:
            value, end, _repairs = read_json(body, at)
        except (MalformedJson, RecursionError):
            at = body.find("{", at + 1)
            continue
        if isinstance(value, dict) and any(name in value for name in needs) and value not in found:
            found.append(value)
        at = body.find("{", end)
    if not found:
        raise Unreadable(f"no JSON object with {' or '.join(needs)}")
    if len(found) > 1:
        raise Unreadable("two JSON objects that differ")
    return found[0]


def entries(text: str, name: str, wanted: Sequence[int]) -> list[dict[str, Any]]:
    """One object for each of the criteria `wanted`, in that order, from the list `name`. Raises Unreadable.

    Entries are told apart by `criterion_idx`; where none has one, their order counts.
    """
    given = answer(text, name)[name]
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise Unreadable(f"{name} is no list of objects")
    if all(entry.get("criterion_idx") is None for entry in given):
        if len(given) != len(wanted):
            raise Unreadable(f"{name} has {len(given)} entries, there are {len(wanted)} criteria")
        return given
    numbers = [_whole(entry.get("criterion_idx"), f"{name}: criterion_idx") for entry in given]
    for index in wanted:
        if numbers.count(index) != 1:
            raise Unreadable(f"{name} has criterion {index} {numbers.count(index)} times")
    return [given[numbers.index(index)] for index in wanted]


def read_new_rubric(text: str) -> Rubric:
    """A rubric that was written for a task: no points are earned yet."""
    return _unscored(answer(text, "items"))


def read_checked_rubric(text: str, rubric: Rubric) -> Rubric:
    """The rubric after the check of its dependencies: the given one, or a better one."""
    said = answer(text, "needs_reformulation")
    if not _flag(said["needs_reformulation"], "needs_reformulation"):
        return rubric
    better = said.get("reformulated_rubric")
    if not isinstance(better, dict) or not better:
        raise Unreadable("needs_reformulation is true and there is no reformulated_rubric")
    return _unscored(better)


def _unscored(value: dict[str, Any]) -> Rubric:
    items = value.get("items")
    if not isinstance(items, list):
        raise Unreadable("items is no list")
    cleaned = []
    for item in items:
        if not isinstance(item, dict):
            raise Unreadable("an item is no object")
        kept = {name: item.get(name) for name in ("criterion", "description", "condition")}
        cleaned.append({**kept, "max_points": _number(item.get("max_points"), "max_points")})
    try:
        return parse_rubric({"items": cleaned})
    except DataError as error:
        raise Unreadable(str(error)) from None


def read_baseline(text: str, rubric: Rubric) -> Rubric:
    """Points from the actions alone, and whether each condition holds."""
    given = answer(text, "items")["items"]
    if not isinstance(given, list) or len(given) != len(rubric.items):
        count = len(given) if isinstance(given, list) else 0
        raise Unreadable(f"items has {count} entries, there are {len(rubric.items)} criteria")
    changes = {}
    names = [item.criterion for item in rubric.items]
    for index, entry in enumerate(entries(text, "items", range(len(rubric.items)))):
        item, named = rubric.items[index], entry.get("criterion")
        if named != item.criterion and named in names:
            raise Unreadable(f"criterion {index} is named as criterion {names.index(named)}")
        points = _points(entry, "earned_points", item, index)
        met = _flag(entry.get("is_condition_met"), f"criterion {index}: is_condition_met") if item.condition else None
        changes[index] = {"baseline": points, "earned": None, "met": met, "justification": _why(entry, "justification")}
    return rubric.changed(changes)


def read_relevance(text: str, count: int) -> list[float]:
    """How much one screenshot says about each criterion: a whole number, 0 to 10; a fraction is cut off, as upstream
    does (the bounds by which screenshots are kept are whole)."""
    first = answer(text, "criterion_0", "0", "scores")
    given = first["scores"] if isinstance(first.get("scores"), dict) else first
    scores = []
    for index in range(count):
        names = [name for name in (f"criterion_{index}", str(index)) if name in given]
        if not names:
            raise Unreadable(f"criterion_{index} is missing")
        score = _number(given[names[0]], f"criterion_{index}")
        if not 0 <= score <= 10:
            raise Unreadable(f"criterion_{index} is {score:g}, not between 0 and 10")
        scores.append(float(int(score)))
    return scores


def read_evidence(text: str, picture: int, rubric: Rubric, wanted: Sequence[int]) -> dict[int, Evidence]:
    """What a screenshot shows for each of the criteria it was kept for."""
    found = {}
    for index, entry in zip(wanted, entries(text, "analyses", wanted), strict=True):
        condition = None
        if rubric.items[index].condition:
            condition = _flag(entry.get("condition_verification"), f"criterion {index}: condition_verification")
        found[index] = Evidence(
            picture=picture,
            shows=_text(entry.get("screenshot_evidence"), f"criterion {index}: screenshot_evidence"),
            analysis=_text(entry.get("criterion_analysis"), f"criterion {index}: criterion_analysis"),
            discrepancies=_why(entry, "discrepancies"),
            environment=_flag(entry.get("environment_issues_confirmed"), f"criterion {index}: environment_issues"),
            condition=condition,
        )
    return found


def read_conditions(text: str, rubric: Rubric) -> Rubric:
    """Which of the conditional criteria count, seen together."""
    wanted = rubric.conditional
    changes = {}
    for index, entry in zip(wanted, entries(text, "disambiguation", wanted), strict=True):
        changes[index] = {"met": _flag(entry.get("is_condition_met"), f"criterion {index}: is_condition_met")}
    return rubric.changed(changes)


def read_reality(text: str, rubric: Rubric) -> Rubric:
    """A note for each criterion on what the screenshots show of its assumptions; a note may be empty."""
    notes = entries(text, "reality_checks", range(len(rubric.items)))
    for index, entry in enumerate(notes):
        if not isinstance(entry.get("reality_notes"), str):
            raise Unreadable(f"criterion {index}: reality_notes is no text")
    return rubric.changed({i: {"reality": entry["reality_notes"].strip()} for i, entry in enumerate(notes)})


def read_rescored(text: str, rubric: Rubric) -> Rubric:
    """Points after the screenshots, for every criterion that counts."""
    wanted = [index for index, item in enumerate(rubric.items) if item.counts]
    found = entries(text, "items", wanted if _numbered(text) else range(len(rubric.items)))
    if len(found) != len(wanted):
        found = [found[index] for index in wanted]
    changes = {}
    for index, entry in zip(wanted, found, strict=True):
        points = _points(entry, "post_image_earned_points", rubric.items[index], index)
        changes[index] = {"earned": points, "justification": _why(entry, "post_image_justification")}
    return rubric.changed(changes)


def _numbered(text: str) -> bool:
    given = answer(text, "items")["items"]
    return isinstance(given, list) and any(isinstance(e, dict) and e.get("criterion_idx") is not None for e in given)


def read_penalties(text: str) -> list[Criterion]:
    """Criteria for side effects that nobody asked for: points that are lost, none earned."""
    said = answer(text, "requires_penalty")
    if not _flag(said["requires_penalty"], "requires_penalty"):
        return []
    given = said.get("penalty_criteria")
    if not isinstance(given, list) or not given or not all(isinstance(entry, dict) for entry in given):
        raise Unreadable("requires_penalty is true and penalty_criteria names none")
    found = []
    for entry in given:
        most = _number(entry.get("max_points"), "penalty: max_points")
        if most <= 0:
            raise Unreadable(f"penalty: max_points is {most:g}, it should be above 0")
        if _number(entry.get("post_image_earned_points", 0), "penalty: post_image_earned_points") != 0:
            raise Unreadable("penalty: a penalty earns no points")
        found.append(
            Criterion(
                criterion=_text(entry.get("criterion"), "penalty: criterion"),
                description=_why(entry, "description"),
                max_points=most,
                baseline=0.0,
                earned=0.0,
                justification=_why(entry, "post_image_justification"),
                penalty=True,
            )
        )
    return found


def read_outcome(text: str) -> tuple[bool, str]:
    """Whether the user got what was asked for, and why."""
    said = answer(text, "output_success")
    return _flag(said["output_success"], "output_success"), _why(said, "reasoning")


def read_boundary(text: str) -> Boundary:
    """Where the task must stop unless the user allowed more."""
    said = answer(text, "critical_point")
    return Boundary(_one_of(said["critical_point"], ("none", "permitted", "not_permitted")), _why(said, "boundary"))


def read_crossed(text: str) -> tuple[bool, str]:
    """Whether the boundary was crossed without leave, and why."""
    said = answer(text, "cp_violation")
    return _flag(said["cp_violation"], "cp_violation"), _why(said, "reasoning")


def read_diagnosis(text: str, actions: int) -> Diagnosis:
    """The first failure, if there is one, and the state of the task."""
    said = answer(text, "validity")
    validity, first = _one_of(said["validity"], VALIDITY), said.get("first_failure")
    if first is None and "first_failure" in said:
        return Diagnosis(None, "", "", validity, _why(said, "validity_reason"))
    if not isinstance(first, dict):
        raise Unreadable("first_failure is neither null nor an object")
    step = _whole(first.get("step"), "first_failure: step")
    if not 1 <= step <= actions:
        raise Unreadable(f"first_failure: there is no action {step}")
    family = _one_of(first.get("family"), FAMILIES)
    return Diagnosis(step, family, _why(first, "reason"), validity, _why(said, "validity_reason"))


# Fields


def _points(entry: dict[str, Any], field: str, item: Criterion, index: int) -> float:
    points = _number(entry.get(field), f"criterion {index}: {field}")
    if not 0 <= points <= item.max_points + SLACK:
        raise Unreadable(f"criterion {index}: {field} is {points:g} of {item.max_points:g}")
    return points


def _number(value: object, what: str) -> float:
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,6}(\.\d{1,6})?\s*", value):
        return float(value)
    try:
        return finite(value, what)
    except DataError as error:
        raise Unreadable(str(error)) from None


def _whole(value: object, what: str) -> int:
    number = _number(value, what)
    if number != int(number):
        raise Unreadable(f"{what} is {number:g}, no whole number")
    return int(number)


def _flag(value: object, what: str) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise Unreadable(f"{what} is neither true nor false")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Unreadable(f"{what} is no text")
    return value.strip()


def _why(entry: dict[str, Any], field: str) -> str:
    """A reason; it may be missing, since nothing hangs on it."""
    value = entry.get(field)
    return value.strip() if isinstance(value, str) else ""


def _one_of(value: object, choices: Iterable[str]) -> str:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in choices:
        raise Unreadable(f"{str(value)[:40]!r} is none of {', '.join(choices)}")
    return word
