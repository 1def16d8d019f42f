"""Failure modes of an exam's failed episodes: one for each, by Part 2's own rules and taxonomy.

Where the successes of any examined model pass through the same state, the first step that left them is blamed;
otherwise the first error that the rules of `mine.locate` find. Nothing here is trained on.
"""

from collections.abc import Sequence

from rmsweb.actions import Viewport
from rmsweb.bench.metrics import mode_by_stop
from rmsweb.mine.align import Successes, state_keys
from rmsweb.mine.label import Case, label
from rmsweb.mine.locate import Mark, locate
from rmsweb.records import INFRA_STOPS, Trajectory, Verdict

DETECTORS = ("divergence", "first_error", "mechanical")
"""In the order in which a finding is believed."""

Judged = tuple[Trajectory, Verdict | None]


def failure_modes(judged: Sequence[Judged]) -> dict[str, str]:
    """trajectory id -> code of taxonomy.toml, for every judged failure; how it ended, where there is nothing to see."""
    known: dict[tuple[int, int], Successes] = {}
    for trajectory, verdict in judged:
        here = known.setdefault(trajectory.viewport, Successes(Viewport(*trajectory.viewport)))
        if verdict is not None and verdict.success:
            here.add(trajectory, "sibling")
    return {
        trajectory.id: _mode(trajectory, verdict, known[trajectory.viewport])
        for trajectory, verdict in judged
        if verdict is not None and verdict.success is False and trajectory.stop not in INFRA_STOPS
    }


def _mode(trajectory: Trajectory, verdict: Verdict, known: Successes) -> str:
    if not trajectory.steps:
        return mode_by_stop(trajectory)
    marks = locate(trajectory, verdict, known, DETECTORS)
    blamed = min(marks, key=_belief).step if marks else trajectory.steps[-1].index
    references = known.at(trajectory.task.id, state_keys(trajectory.steps)[blamed])
    here = tuple(mark for mark in marks if mark.step == blamed)
    return label(Case(trajectory, trajectory.steps[blamed], here, references[0] if references else None))


def _belief(mark: Mark) -> tuple[int, int]:
    return DETECTORS.index(mark.detector), mark.step
