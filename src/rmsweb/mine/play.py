"""Episodes of mining, done once: what the run directory holds is not done again.

Owns trajectories.jsonl and verdicts.jsonl of a mining run. Promises: a record is on disk before anything is concluded
from it; infra errors are redone a bounded number of times with the same seed, then kept as such and left out of mining.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmsweb.config import Config
from rmsweb.errors import ConfigError
from rmsweb.mine.advice import Reflect
from rmsweb.mine.fix import Continuation
from rmsweb.mine.probe import Probe
from rmsweb.outage import owed_again
from rmsweb.progress import Progress
from rmsweb.records import INFRA_STOPS, Reflection, Stop, Task, Trajectory, Verdict
from rmsweb.rollout import Job, many, trajectory_id
from rmsweb.store import Run

if TYPE_CHECKING:
    from rmsweb.chat import ChatModel
    from rmsweb.judge import Judge
    from rmsweb.policy import Policy
    from rmsweb.web.browser import Browser
    from rmsweb.web.suite import Suite


@dataclass(frozen=True, slots=True)
class Parts:
    """What the stage works with; built by the caller, fakes in tests. The stage opens suite and browser."""

    policy: "Policy"
    """The SFT policy, at `mine.temperature`."""
    teacher: "Policy | None"
    """Goes on from critical states; None: only siblings give references."""
    suite: "Suite"
    browser: AbstractAsyncContextManager["Browser"]
    judge: "Judge"
    chat: "ChatModel | None" = None
    """For `first_error = "chat"` and `labels = "chat"`."""
    reflect: Reflect | None = None
    """Advises the teacher; None: it goes on unadvised."""


SAME: Mapping[str, tuple[str, ...]] = {
    "seed": (), "profile": (), "episode": (), "suite": (), "judge": (), "policy": (), "collect": (),
    "mine": ("temperature", "samples", "probe_states", "first_error"),
}  # fmt: skip
"""What has to be equal where rollouts are taken over: whole sections, or the named settings of one."""
ASKED = ("sampling", "detectors", "fix_tries", "fix_attempts", "fix_steps")
"""Settings by which the teacher's tries follow from the rollouts."""


@dataclass(slots=True)
class Played:
    """The episodes of a run by trajectory id, in memory and on disk."""

    run: Run
    config: Config
    parts: Parts
    browser: "Browser"
    trajectories: dict[str, Trajectory] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @classmethod
    def read(cls, run: Run, config: Config, parts: Parts, browser: "Browser") -> "Played":
        return cls(
            run,
            config,
            parts,
            browser,
            {t.id: t for t in run.read("trajectory", Trajectory) if not owed_again(t)},
            {v.trajectory_id: v for v in run.read("verdict", Verdict)},
        )

    async def rollouts(self, tasks: Sequence[Task], show: Progress) -> list[tuple[Trajectory, Verdict]]:
        """`mine.rollouts` episodes of each task by the policy, without infra errors and unjudged ones."""
        jobs = [self._job(task, attempt) for task in tasks for attempt in range(self.config.mine.rollouts)]
        ids = [trajectory_id(job.task, job.attempt) for job in jobs]
        await self._play(dict(zip(ids, jobs, strict=True)), "mine: rollouts", show)
        done = ((self.trajectories[i], self.verdicts.get(i)) for i in ids)
        return [(t, v) for t, v in done if v is not None and v.success is not None and t.stop not in INFRA_STOPS]

    async def continuations(
        self,
        jobs: Sequence[Continuation],
        by: "Policy",
        name: str,
        show: Progress,
        advice: Mapping[str, tuple[Reflection, ...]] | None = None,
    ) -> Mapping[str, tuple[Trajectory, Verdict]]:
        """Replays and goes on with `by`; the step limit counts from the restored state."""
        limit = self.config.episode.max_steps
        wanted = {
            job.id: Job(
                task=job.trajectory.task.model_copy(
                    update={"max_steps": len(job.prefix) + min(job.trajectory.task.max_steps, limit)}
                ),
                policy=by,
                suite=self.parts.suite,
                browser=self.browser,
                images=self.run.images,
                attempt=job.attempt,
                arm=job.arm,
                reflections=(advice or {}).get(job.id, ()),
                prefix=job.prefix,
                expect=job.expect,
                seed=self.config.seed,
            )
            for job in jobs
        }
        await self._play(wanted, name, show, {job.id: job.trajectory.task for job in jobs})
        none = Verdict(success=None, judge="", unjudged="infra")
        return {i: (self.trajectories[i], self.verdicts.get(i, none)) for i in wanted}

    def _job(self, task: Task, attempt: int) -> Job:
        parts = self.parts
        return Job(
            task=task,
            policy=parts.policy,
            suite=parts.suite,
            browser=self.browser,
            images=self.run.images,
            attempt=attempt,
            seed=self.config.seed,
        )

    async def _play(
        self, jobs: Mapping[str, Job], name: str, show: Progress, tasks: Mapping[str, Task] | None = None
    ) -> None:
        """Plays what is not there yet, judges what has no verdict, stores each as it comes."""
        tasks = tasks or {}
        for i in jobs:
            if i in self.trajectories:
                await self._judge(self.trajectories[i])
        done = sum(i in self.trajectories for i in jobs)
        tries = self.config.mine.infra_retries

        async def keep(trajectory: Trajectory) -> None:
            nonlocal done
            drifted = "replay:" in trajectory.detail
            if trajectory.stop is Stop.BUDGET or (trajectory.stop in INFRA_STOPS and tries > 0 and not drifted):
                return
            if trajectory.id in tasks:
                trajectory = trajectory.model_copy(update={"task": tasks[trajectory.id]})
            self.run.append("trajectory", trajectory)
            self.trajectories[trajectory.id] = trajectory
            await self._judge(trajectory)
            done += 1
            show(name, done, len(jobs))

        limits = self.config.episode.model_copy(update={"max_steps": 10**6}) if tasks else self.config.episode
        config = self.config.model_copy(update={"episode": limits})
        while owed := [job for i, job in jobs.items() if i not in self.trajectories]:
            await many(owed, config, keep)
            tries -= 1

    async def _judge(self, trajectory: Trajectory) -> None:
        if trajectory.stop in INFRA_STOPS or trajectory.id in self.verdicts:
            return
        verdict = await self.parts.judge(trajectory)
        self.add_verdict(verdict.model_copy(update={"trajectory_id": trajectory.id}))

    def add_verdict(self, verdict: Verdict) -> None:
        """Store a verdict; a later one of the same trajectory replaces an earlier."""
        self.run.append("verdict", verdict)
        self.verdicts[verdict.trajectory_id] = verdict


def take_rollouts(run: Run, source: Run) -> None:
    """Takes over the rollouts and probes of another mining run, as if this one had made them: for a second draw.

    Where both ask the teacher alike, its tries and their advice too. Raises ConfigError when that run mined another
    policy, or the same in another way.
    """
    theirs, ours = source.manifest, run.manifest
    where = f"--from rollouts={source.path}"
    if theirs["inputs"]["sft"]["sha256"] != ours["inputs"]["sft"]["sha256"]:
        raise ConfigError(f"{where}: it mined another policy than --from sft; mine without it")
    for section, keys in SAME.items():
        one, other = (m["config"][section] for m in (theirs, ours))
        if any((one[key] != other[key] for key in keys) if keys else [one != other]):
            raise ConfigError(f"{where}: its settings under {section!r} are others; mine without it")
    alike = all(theirs["config"]["mine"][key] == ours["config"]["mine"][key] for key in ASKED)
    have = {trajectory.id for trajectory in run.read("trajectory", Trajectory)}
    judged = {verdict.trajectory_id for verdict in run.read("verdict", Verdict)}
    taken = set[str]()
    for trajectory in source.read("trajectory", Trajectory):
        if not alike and trajectory.id != trajectory_id(trajectory.task, trajectory.attempt):
            continue
        taken.add(trajectory.id)
        for sha in {image for step in trajectory.steps for image in (step.before.image, step.after.image)}:
            if sha not in run.images:
                run.images.put(source.images[sha])  # the next stage reads this run's pictures alone
        if trajectory.id not in have:
            run.append("trajectory", trajectory)
    for verdict in {v.trajectory_id: v for v in source.read("verdict", Verdict)}.values():
        if verdict.trajectory_id in taken - judged:
            run.append("verdict", verdict)
    noted = {reflection.trajectory_id for reflection in run.read("reflection", Reflection)}
    for reflection in source.read("reflection", Reflection):
        if reflection.trajectory_id in taken - noted:
            run.append("reflection", reflection)
    probed = {probe.id for probe in run.read("probe", Probe)}
    for probe in source.read("probe", Probe):
        if probe.id not in probed:
            run.append("probe", probe)
