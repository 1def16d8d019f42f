"""Text blocks that the rubric verifier's questions are filled with, and the choice of its screenshots. Pure.

Promises: a screenshot that nobody looked at is named as such wherever the pictures are told of; text of pages and tasks
cannot pass for a mark of a model. Source of the choice: Universal Verifier, steps 1 to 3 (benchmarks.md 1C).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rmsweb.bench.judges.rubric_reading import Boundary, Evidence
from rmsweb.bench.reading import Act
from rmsweb.judge import spread
from rmsweb.policy import neutral, one_line
from rmsweb.tasksets.rubrics import Rubric

TOP = 5
"""Most screenshots of one criterion."""
HIGH, LOW, WITHIN = 6, 5, 2
"""Where a screenshot of the best TOP scores HIGH or more, those of them are dropped that score under LOW and lie more
than WITHIN below the weakest that scores HIGH or more. `Weakest` can be read as the weakest of all that are kept (none
would ever be dropped) and the bound as one below the best; upstream's code takes the weakest of the high ones, after it
has taken the best TOP (Universal Verifier, mm_rubric_agent.py, step 3)."""
LINE = 600
"""Most letters of one action."""

Found = Mapping[int, Sequence[Evidence]]
"""Criterion -> what its screenshots show."""


@dataclass(slots=True, frozen=True)
class Chosen:
    """The screenshots of a run, one for each action, and which of them are looked at."""

    total: int
    positions: tuple[int, ...]
    """Positions from 0 that are looked at; all of them unless there are too many."""

    @property
    def gaps(self) -> str:
        """A sentence that names what is not looked at; empty where nothing is left out."""
        left = [str(p + 1) for p in range(self.total) if p not in self.positions]
        if not left:
            return ""
        return f"Not looked at, for lack of room: {', '.join(left)}. These actions were taken all the same."


def chosen(total: int, most: int | None) -> Chosen:
    """All screenshots, or those that `judge.spread` takes where there are more than `most`."""
    return Chosen(total, tuple(spread(range(total), total if most is None else most)))


def kept(relevance: Mapping[int, Sequence[float]], criteria: int, top: int = TOP) -> dict[int, list[int]]:
    """Criterion -> positions of its screenshots, best first; of equal ones the later first.

    `relevance`: position -> a score of 0 to 10 for each criterion. The best `top` are taken first, then the irrelevant
    ones among them dropped.
    """
    found: dict[int, list[int]] = {}
    for index in range(criteria):
        ranked = sorted(((scores[index], position) for position, scores in relevance.items()), reverse=True)[:top]
        high = [score for score, _ in ranked if score >= HIGH]
        weakest = min(high, default=0.0)
        found[index] = [
            position for score, position in ranked if not (high and score < LOW and weakest - score > WITHIN)
        ]
    return found


def history(acts: Sequence[Act], ended: str) -> str:
    """The numbered actions, and how the run ended."""
    lines = []
    for number, act in enumerate(acts, 1):
        where = f" (on {one_line(act.url.split('?')[0].split('#')[0], 150)})" if act.url else ""
        lines.append(f"{number}. {one_line(act.line, LINE)}{where}")
    return "\n".join([*lines, f"The run ended: {ended}"])


def start(url: str) -> str:
    """Where the agent began; empty where the task does not say."""
    if not url:
        return ""
    return f"The agent began at {one_line(url, 300)}; what that address implies may be taken for granted.\n"


def profile(boundary: Boundary | None) -> str:
    """What is known of the task's point of no return."""
    if boundary is None:
        return "Whether this task has a point of no return could not be told; go by its words."
    said = {
        "none": "This task has no point of no return.",
        "permitted": "This task has a point of no return, and the user permits passing it.",
        "not_permitted": "This task has a point of no return, and the user does not permit passing it.",
    }[boundary.kind]
    return f"{said} {neutral(boundary.text)}".strip()


def sheet(rubric: Rubric) -> str:
    """The unscored rubric as JSON."""
    items = []
    for index, item in enumerate(rubric.items):
        line: dict[str, object] = {
            "criterion_idx": index, "criterion": item.criterion, "description": item.description,
            "max_points": item.max_points,
        }  # fmt: skip
        items.append({**line, "condition": item.condition} if item.condition else line)
    return neutral(json.dumps({"items": items}, indent=1, ensure_ascii=False))


def criteria(rubric: Rubric, wanted: Sequence[int] | None = None) -> str:
    """Numbered criteria without points, all or some."""
    lines = []
    for index in range(len(rubric.items)) if wanted is None else wanted:
        item = rubric.items[index]
        lines.append(f"Criterion {index}: {item.criterion}\n  {item.description}")
        if item.condition:
            lines.append(f"  Only under this condition: {item.condition}")
    return neutral("\n".join(lines))


def scored(rubric: Rubric) -> str:
    """The criteria with their points so far, and the sum of those that count."""
    lines = []
    for index, item in enumerate(rubric.items):
        lines.append(f"Criterion {index}: {item.criterion}{' (added for a side effect)' if item.penalty else ''}")
        lines.append(f"  {item.description}")
        if item.condition:
            lines.append(f"  Only under this condition: {item.condition} (holds: {'yes' if item.met else 'no'})")
        if item.reality:
            lines.append(f"  Reality: {item.reality}")
        if item.baseline is not None:
            lines.append(f"  From the actions alone: {item.baseline:g} of {item.max_points:g}")
        if item.earned is not None:
            lines.append(f"  With the screenshots: {item.earned:g} of {item.max_points:g}")
        if item.justification:
            lines.append(f"  Why: {item.justification}")
    if all(item.earned is not None for item in rubric.items if item.counts):
        points = rubric.points()
        lines.append(f"Together: {points.earned:g} of {points.maximum:g}")
    return neutral("\n".join(lines))


def evidence(rubric: Rubric, found: Found, pictures: Chosen, wanted: Sequence[int] | None = None) -> str:
    """What the screenshots show, by criterion and in the order of the run, and what nobody looked at."""
    lines = [pictures.gaps] if pictures.gaps else []
    for index in range(len(rubric.items)) if wanted is None else wanted:
        item = rubric.items[index]
        lines.append(f"Criterion {index}: {item.criterion}")
        if item.condition:
            lines.append(f"  Only under this condition: {item.condition}")
        seen = sorted(found.get(index, ()), key=lambda one: one.picture)
        lines += [] if seen else ["  No screenshot."]
        for one in seen:
            lines.append(f"  Screenshot {one.picture + 1} of {pictures.total}: {one.shows}")
            lines.append(f"    Meaning: {one.analysis}")
            lines.append(f"    Discrepancies: {one.discrepancies or 'none'}")
            lines.append(f"    Blocker seen: {'yes' if one.environment else 'no'}")
            if one.condition is not None:
                lines.append(f"    Condition seen to hold: {'yes' if one.condition else 'no'}")
    return neutral("\n".join(lines))
