"""Process beside outcome, by segment, the refusal set apart (benchmarks.md, WTB-2). Pure.

Promises: the two numbers never stand alone; what is not judged is left out of the judged rates and stays in the others.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rmsweb.records import Verdict


@dataclass(slots=True, frozen=True)
class RubricRow:
    """One attempt as the table sees it."""

    segment: str
    process: bool | None
    outcome: bool | None
    score: float | None = None
    """Share of the points."""
    refusal: bool = False
    """A task of the refusal set, where declining is right: it is never mixed with the others."""


@dataclass(slots=True, frozen=True)
class Line:
    """One row of the table; a rate is None where nothing is behind it."""

    segment: str
    n: int
    process_judged: int
    process_passed: int
    outcome_judged: int
    outcome_passed: int
    mean_score: float | None
    """Mean share of the points over the attempts that have one."""

    @property
    def process_all(self) -> float | None:
        """Process passes over all attempts, 0 to 1."""
        return _rate(self.process_passed, self.n)

    @property
    def process_rate(self) -> float | None:
        """Process passes over those with a process verdict."""
        return _rate(self.process_passed, self.process_judged)

    @property
    def outcome_all(self) -> float | None:
        """Outcome successes over all attempts, 0 to 1."""
        return _rate(self.outcome_passed, self.n)

    @property
    def outcome_rate(self) -> float | None:
        """Outcome successes over those with an outcome verdict."""
        return _rate(self.outcome_passed, self.outcome_judged)


@dataclass(slots=True, frozen=True)
class Table:
    """Process and outcome side by side, by segment, the refusal set apart."""

    segments: tuple[Line, ...]
    total: Line
    """Over the segments, refusals left out."""
    refusals: tuple[Line, ...]


def judged(segment: str, verdict: Verdict, *, refusal: bool = False) -> RubricRow:
    """A verdict of a rubric protocol as a row. `segment`: where the task belongs (WebTailBench's `benchmark`)."""
    process, outcome, score = (verdict.details.get(name) for name in ("process_passed", "outcome", "process_score"))
    return RubricRow(
        segment=segment,
        process=process if isinstance(process, bool) else None,
        outcome=outcome if isinstance(outcome, bool) else None,
        score=float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None,
        refusal=refusal,
    )


def process_outcome_table(rows: Iterable[RubricRow]) -> Table:
    """Rows by segment, sorted by name. A refusal task counts in `refusals` only, whatever its segment."""
    given = list(rows)
    tasks, refusals = [r for r in given if not r.refusal], [r for r in given if r.refusal]
    return Table(_lines(tasks), _line("all", tasks), _lines(refusals))


def _lines(rows: Sequence[RubricRow]) -> tuple[Line, ...]:
    return tuple(_line(name, [r for r in rows if r.segment == name]) for name in sorted({r.segment for r in rows}))


def _line(segment: str, rows: Sequence[RubricRow]) -> Line:
    scores = [row.score for row in rows if row.score is not None]
    return Line(
        segment=segment,
        n=len(rows),
        process_judged=sum(row.process is not None for row in rows),
        process_passed=sum(row.process is True for row in rows),
        outcome_judged=sum(row.outcome is not None for row in rows),
        outcome_passed=sum(row.outcome is True for row in rows),
        mean_score=math.fsum(scores) / len(scores) if scores else None,
    )


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
