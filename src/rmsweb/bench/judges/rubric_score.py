"""Stored rubric scores of the Universal Verifier (`scores/mmrubric_*.json`), recomputed from their items, and labels.

Pure. Rubrics themselves: rmsweb.tasksets.rubrics.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmsweb.errors import DataError
from rmsweb.tasksets.rubrics import PASS, SLACK, Points, finite, kind_of, parse_rubric


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
        raise DataError(f"{where}: `gpt_response_text` should be JSON text with `rubric_items`, found {kind_of(body)}")
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
