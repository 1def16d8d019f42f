"""The stage `collect`: attempt -> judge -> reflect -> retry, for one arm.

Owns the loop, the order of attempts and the three record files (trajectories, verdicts, reflections). Promises: first
attempts of all tasks, then second ones, and so on; what an attempt does depends on its task and number and the
reflections before it, never on timing, so that a run that was killed and gone on with ends like one that was not.
Infra errors and failed judgements are done again without spending a retry. Blocked and invalid tasks stop. The arm
`plain` is the same loop without reflections.

Nothing is deleted: every judged attempt stays in the files, `kept` says which one is the task's success.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmsweb.config import Config
from rmsweb.errors import BudgetError, RunError
from rmsweb.executor import LocalExecutor
from rmsweb.judge import Judge, inefficient, outcome
from rmsweb.outage import Outage, owed_again, what_broke
from rmsweb.records import INFRA_STOPS, Outcome, Reflection, Stop, Task, Trajectory, Verdict
from rmsweb.reflect.reflector import Reflector
from rmsweb.reflect.yields import kept, summary
from rmsweb.rollout import episode, trajectory_id
from rmsweb.store import Run

if TYPE_CHECKING:
    from rmsweb.policy import Policy
    from rmsweb.web.browser import Browser
    from rmsweb.web.suite import Suite

log = logging.getLogger(__name__)

Show = Callable[[str, int, int, str], None]
ENDING = frozenset({Outcome.BLOCKED, Outcome.INVALID_TASK, Outcome.INFRA_ERROR, Outcome.JUDGE_FAILED})
"""Outcomes after which a task is left alone: none of them says anything about the policy."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the stage works with, built by the caller; the stage opens suite and browser itself."""

    policy: Policy
    suite: Suite
    browser: AbstractAsyncContextManager[Browser]
    judge: Judge
    reflector: Reflector


@dataclass(slots=True)
class _Files:
    """What the run directory holds, by trajectory id; grows with the run."""

    run: Run
    trajectories: dict[str, Trajectory] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    reflections: dict[str, Reflection] = field(default_factory=dict)

    @classmethod
    def read(cls, run: Run) -> _Files:
        return cls(
            run,
            # What the machine or the endpoint broke is owed again by a run that goes on; its later line counts.
            {t.id: t for t in run.read("trajectory", Trajectory) if not owed_again(t)},
            {v.trajectory_id: v for v in run.read("verdict", Verdict)},
            {r.trajectory_id: r for r in run.read("reflection", Reflection)},
        )

    def add_trajectory(self, record: Trajectory) -> None:
        self.run.append("trajectory", record)
        self.trajectories[record.id] = record

    def add_verdict(self, record: Verdict) -> None:
        self.run.append("verdict", record)
        self.verdicts[record.trajectory_id] = record

    def add_reflection(self, record: Reflection) -> None:
        self.run.append("reflection", record)
        self.reflections[record.trajectory_id] = record


class _Ledger:
    """Lets an attempt begin only when the browser steps of all attempts before it are known to fit the budget.

    The rule is the sequential one (begin if the steps of all earlier attempts are fewer than the budget), so that
    concurrency cannot change which attempts are made: an attempt that still runs counts with its step limit.
    """

    def __init__(self, budget: int | None, spent: int) -> None:
        self.budget, self.spent = budget, spent
        self.open: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        self.closed = False
        self._changed = asyncio.Condition()

    async def begin(self, index: int, most: int) -> bool:
        """Whether attempt `index` of the wave may begin; waits until that is certain."""
        async with self._changed:
            while self.budget is not None and not self.closed:
                sure = self.spent + sum(n for i, n in self.ended.items() if i < index)
                running = sum(n for i, n in self.open.items() if i < index)
                if sure >= self.budget:
                    self.closed = True
                elif all(i in self.ended or i in self.open for i in range(index)) and sure + running < self.budget:
                    break
                else:
                    await self._changed.wait()
            if self.closed:
                self._changed.notify_all()
                return False
            self.open[index] = most
            return True

    async def end(self, index: int, steps: int) -> None:
        async with self._changed:
            self.open.pop(index, None)
            self.ended[index] = steps
            self._changed.notify_all()


async def run(config: Config, run: Run, parts: Parts, show: Show | None = None) -> dict[str, Any]:
    """Does what is owed of `config.collect` and returns the summary, which is also written to summary.json.

    Raises BudgetError when the policy's token budget is used up; the same command with a larger one goes on.
    """
    tasks = parts.suite.tasks(config.suite)
    files = _Files.read(run)
    spent = 0
    async with parts.suite.serving(), parts.browser as browser:
        stage = _Stage(config, parts, browser, files, show or (lambda *_: None), Outage(config.browser.concurrency))
        for attempt in range(config.collect.retries + 1):
            wave = [task for task in tasks if stage.owed(task, attempt)]
            spent = await stage.wave(wave, attempt, spent)
    _refuse_nothing(list(files.trajectories.values()))
    result = summary(tasks, files.trajectories.values(), files.verdicts, files.reflections, config.collect)
    run.write_json("summary.json", result)
    if said := what_broke(files.trajectories.values()):
        log.warning("%s: %s", run.path, said)
        return result
    run.finish(trajectories=len(files.trajectories), verdicts=len(files.verdicts), reflections=len(files.reflections))
    return result


@dataclass(slots=True)
class _Stage:
    config: Config
    parts: Parts
    browser: Browser
    files: _Files
    show: Show
    outage: Outage

    def key(self, task: Task, attempt: int) -> str:
        return trajectory_id(task, attempt, self.config.collect.arm)

    def outcome(self, key: str) -> Outcome:
        return outcome(self.files.trajectories[key], self.files.verdicts.get(key))

    def owed(self, task: Task, attempt: int) -> bool:
        """Whether the task's earlier attempts call for this one."""
        keys = [self.key(task, earlier) for earlier in range(attempt)]
        if any(key not in self.files.trajectories for key in keys):
            return attempt == 0
        if any(self.outcome(key) in ENDING for key in keys):
            return False
        best = kept([self.files.trajectories[key] for key in keys], self.files.verdicts)
        return best is None or inefficient(best, self.files.verdicts[best.id], self.config.collect.step_budget)

    async def wave(self, tasks: Sequence[Task], attempt: int, spent: int) -> int:
        """One attempt at each task; returns the browser steps spent so far, this wave included."""
        ledger = _Ledger(self.config.collect.browser_steps, spent)
        name, done = f"{self.config.collect.arm} attempt {attempt + 1}", 0

        async def one(item: tuple[int, Task]) -> None:
            nonlocal done
            index, task = item
            most = min(task.max_steps, self.config.episode.max_steps)
            if not await ledger.begin(index, most):
                return
            steps = 0
            try:
                steps = await self.attempt(task, attempt)
            finally:
                await ledger.end(index, steps)
            done += 1
            self.show(name, done, len(tasks), f"{self.solved()} solved")

        await LocalExecutor(self.config.browser.concurrency).map(one, list(enumerate(tasks)))
        return spent + sum(ledger.ended.values())

    def solved(self) -> int:
        return len({t.task.id for t in self.files.trajectories.values() if _succeeded(self.files.verdicts, t)})

    async def attempt(self, task: Task, attempt: int) -> int:
        """Rolls out, judges and reflects where that is owed; returns the attempt's browser steps."""
        key = self.key(task, attempt)
        trajectory = self.files.trajectories.get(key)
        if trajectory is None:
            trajectory = await self.roll_out(task, attempt)
            self.files.add_trajectory(trajectory)
            self.outage(trajectory)
        if trajectory.stop not in INFRA_STOPS and key not in self.files.verdicts:
            self.files.add_verdict(await self.judge(trajectory))
        await self.reflect(task, attempt, trajectory)
        return len(trajectory.steps)

    async def roll_out(self, task: Task, attempt: int) -> Trajectory:
        """The attempt; again when the world or the model, not the policy, was at fault."""
        advice = self.advice(task, attempt)
        for again in range(self.config.collect.infra_retries + 1):
            trajectory = await episode(
                task,
                self.parts.policy,
                self.parts.suite,
                self.browser,
                self.files.run.images,
                self.config,
                attempt=attempt,
                arm=self.config.collect.arm,
                reflections=advice,
                seed=self.config.seed,
            )
            if trajectory.stop is Stop.BUDGET:
                raise BudgetError(trajectory.detail)
            if trajectory.stop not in INFRA_STOPS:
                break
            self.files.run.log(
                {"infra": trajectory.id, "try": again, "stop": trajectory.stop, "detail": trajectory.detail}
            )
        return trajectory

    def advice(self, task: Task, attempt: int) -> tuple[Reflection, ...]:
        """All reflections so far on this task; none in the plain arm."""
        keys = (self.key(task, earlier) for earlier in range(attempt))
        return tuple(self.files.reflections[key] for key in keys if key in self.files.reflections)

    async def judge(self, trajectory: Trajectory) -> Verdict:
        """The verdict; asked again when the judge could not tell."""
        for _ in range(self.config.collect.infra_retries + 1):
            verdict = await self.parts.judge(trajectory)
            if verdict.success is not None:
                break
        return verdict.model_copy(update={"trajectory_id": trajectory.id})

    async def reflect(self, task: Task, attempt: int, trajectory: Trajectory) -> None:
        """A reflection where a retry is owed and the arm has them."""
        collect = self.config.collect
        if collect.arm == "plain" or attempt >= collect.retries or trajectory.id in self.files.reflections:
            return
        if self.owed(task, attempt + 1):
            verdict = self.files.verdicts[trajectory.id]
            earlier = self.advice(task, attempt)
            self.files.add_reflection(await self.parts.reflector(task, trajectory, verdict, earlier))


def _refuse_nothing(done: Sequence[Trajectory]) -> None:
    """Raise RunError when no episode ran: a throttled or never-started run is no result (field-log S83)."""
    if all(trajectory.stop in INFRA_STOPS for trajectory in done):
        why = f"the first says: {done[0].detail}" if done else "the suite gave no task"
        raise RunError(f"0 of {len(done)} episodes ran; {why}; when that is cured, the same command goes on")


def _succeeded(verdicts: Mapping[str, Verdict], trajectory: Trajectory) -> bool:
    verdict = verdicts.get(trajectory.id)
    return verdict is not None and verdict.success is True
