"""What the teacher is told before it goes on: reflections on the failed rollout, then on its own failed tries.

The writer is given from outside (Part 1's, or none). Reflections are stored (reflections.jsonl) and never asked for
twice; the references that come of advised tries carry no thought, so that no advice can leak into training.
"""

from collections.abc import Sequence
from typing import Protocol

from rmsweb.mine.fix import Continuation
from rmsweb.records import INFRA_STOPS, Reflection, Task, Trajectory, Verdict
from rmsweb.store import Run

KEPT = 2
"""Reflections shown at most: the one on the rollout and the latest on the teacher's own tries."""


class Reflect(Protocol):
    """Writes a reflection on one attempt, given those on the attempts before it."""

    async def __call__(
        self, task: Task, trajectory: Trajectory, verdict: Verdict, earlier: Sequence[Reflection] = ()
    ) -> Reflection: ...


class Advice:
    """The reflections on each failed rollout, as they grow with the tries."""

    def __init__(self, run: Run, reflect: Reflect | None) -> None:
        self._run, self._reflect = run, reflect
        self._stored = {one.trajectory_id: one for one in run.read("reflection", Reflection)}
        self._lessons: dict[str, list[Reflection]] = {}

    async def on(self, job: Continuation, verdict: Verdict) -> tuple[Reflection, ...]:
        """What is said before a try; `verdict` is the failed rollout's."""
        ident = job.trajectory.id
        if self._reflect is not None and ident not in self._lessons:
            self._lessons[ident] = [await self._write(job.trajectory, verdict, ())]
        known = self._lessons.get(ident, [])
        return tuple(known[:1] + known[1:][-(KEPT - 1) :])

    async def learn(self, job: Continuation, tried: Trajectory, verdict: Verdict) -> None:
        """A try that failed teaches the next one of the same rollout; infra errors and unjudged tries teach nothing."""
        if self._reflect is None or verdict.success is not False or tried.stop in INFRA_STOPS:
            return
        lessons = self._lessons.setdefault(job.trajectory.id, [])
        lessons.append(await self._write(tried, verdict, lessons))

    async def _write(self, trajectory: Trajectory, verdict: Verdict, earlier: Sequence[Reflection]) -> Reflection:
        if trajectory.id not in self._stored:
            assert self._reflect is not None
            written = await self._reflect(trajectory.task, trajectory, verdict, earlier)
            written = written.model_copy(update={"trajectory_id": trajectory.id})
            self._run.append("reflection", written)
            self._stored[trajectory.id] = written
        return self._stored[trajectory.id]
