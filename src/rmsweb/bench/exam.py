"""The stage `eval`: any number of models on the same tasks, judged, compared, with controls.

Owns which episodes are owed, exam.json (what was asked for, written before the first episode) and scores.json.
Promises: every model gets the same tasks from fresh pages; an episode is stored before it is judged and a verdict
before the next is asked for, so that a kill loses at most what was being played; the same command again plays only
what is owed; with greedy models the numbers do not depend on order, on concurrency or on resumes. An infra error is
played again a bounded number of times and never counted as a verdict. Tasks that were trained on are refused.
Never trains, never reads a reference answer (checks live with the suites).

Models run one after the other (several at once would share the cores), tasks of one model side by side.
"""

import logging
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmsweb.bench import scores
from rmsweb.bench.controls import KINDS, Donors, PictureControl
from rmsweb.bench.disjoint import assert_disjoint
from rmsweb.bench.judges.naming import judge_parts
from rmsweb.bench.paper import selected
from rmsweb.bench.setting import Asked, facts_of, refuse_other_tasks, write_asked
from rmsweb.config import Config, SuiteConfig
from rmsweb.errors import RunError
from rmsweb.policy import one_line
from rmsweb.progress import Progress, Silent
from rmsweb.records import INFRA_STOPS, Task, Trajectory, Verdict
from rmsweb.rollout import Job, many, trajectory_id
from rmsweb.store import Run

if TYPE_CHECKING:
    from rmsweb.judge import Judge
    from rmsweb.policy import Policy
    from rmsweb.web.browser import Browser
    from rmsweb.web.suite import Suite


log = logging.getLogger(__name__)
_ADDRESS = re.compile(r"https?://\S+")
HELD_OUT = 200
"""Tasks of the first exam on the built-in suites, unless eval.tasks says otherwise."""


@dataclass(slots=True, frozen=True)
class Exam:
    """Tasks of one suite and one split, what is known of them, and who judges them."""

    suite: "Suite"
    asked: Asked
    judge: "Judge"

    @property
    def tasks(self) -> tuple[Task, ...]:
        return self.asked.tasks

    @property
    def name(self) -> str:
        """`heldout`, `heldout_template`, `miniwob` ... (`scores.exam_of`)."""
        return scores.exam_of(self.tasks[0])


def wanted(config: Config) -> list[SuiteConfig]:
    """What the recipe asks for: held-out seeds first, then held-out templates and MiniWoB++ where they are wanted.

    An exam starts at its split's first task whatever the training suite's offset is: runs stay comparable.
    """
    asked = config.eval
    own = config.suite.model_copy(update={"offset": 0})
    file = own.name == "file"
    count = asked.tasks or (sys.maxsize if file else HELD_OUT)
    suites = [own.model_copy(update={"split": "exam" if file else asked.split, "count": count})]
    if own.name == "sites" and asked.template_tasks:
        apart = {"split": "heldout_template", "count": asked.template_tasks, "templates": ()}
        suites.append(own.model_copy(update=apart))
    if asked.miniwob_tasks and own.name != "miniwob":
        suites.append(SuiteConfig(name="miniwob", split="exam", count=asked.miniwob_tasks))
    return suites


def exams(config: Config, suites: Mapping[str, "Suite"], judges: Mapping[str, "Judge"]) -> list[Exam]:
    """The exams of a recipe; `suites` and `judges` by suite name. Raises ConfigError when a suite gives no task."""
    asked = wanted(config)
    papers = selected(config, [(suites[one.name], one) for one in asked])
    return [Exam(suites[one.name], paper, judges[one.name]) for one, paper in zip(asked, papers, strict=True)]


def refuse_changed_file(config: Config, run: Run, suites: Mapping[str, "Suite"]) -> None:
    """Raise RunError when a task file asks for other tasks than the run's attempts were made at.

    To be called for a finished run too: its summary is that of the file as it was. A file that is gone says nothing.
    """
    if config.suite.name == "file" and Path(config.suite.path).is_file():
        papers = selected(config, [(suites[one.name], one) for one in wanted(config)])
        refuse_other_tasks(run, {scores.exam_of(paper.tasks[0]): paper.tasks for paper in papers})


async def run(
    config: Config,
    run: Run,
    models: Mapping[str, "Policy"],
    exams: Sequence[Exam],
    browser: "Browser",
    *,
    controls: Mapping[str, "Policy"] | None = None,
    training: Sequence[Task] = (),
    unrecorded: Sequence[str] = (),
    show: Progress | None = None,
) -> dict[str, Any]:
    """Play what is owed, judge it, write scores.json, return the summary (`heldout` and the other exams).

    `models` name the policies as they are to be called in tables; all read their pictures from `run.images`.
    `controls` are tried with blank and swapped screenshots on the first exam (None: the last of `models`).
    `training`: every task that any of the models was trained on, `unrecorded`: models of which
    that is not known. `browser` is open and stores into `run.images`.
    Raises ConfigError when exam and training share tasks, worlds or texts on a host and `eval.allow_overlap` is not
    set, RunError when no episode of a model ran.
    """
    allowed = config.eval.allow_overlap
    shared = {
        exam.name: assert_disjoint(exam.tasks, training, unrecorded=unrecorded, allowed=allowed) for exam in exams
    }
    asked = {
        exam.name: exam.asked.model_copy(update={"contamination": shared[exam.name].counts(), "runs": config.eval.runs})
        for exam in exams
    }
    write_asked(run, asked)
    stage = _Stage(config, run, browser, show or Silent())
    for exam in exams:
        async with exam.suite.serving():
            await stage.judge_owed(exam)
            for name, policy in models.items():
                await stage.play(exam, name, policy, exam.tasks)
            if exam is exams[0] and config.eval.controls:
                await stage.play_controls(exam, _controlled(models, controls))
    return stage.finish(asked, {name: found._asdict() for name, found in shared.items()})


def _controlled(models: Mapping[str, "Policy"], controls: Mapping[str, "Policy"] | None) -> Mapping[str, "Policy"]:
    return dict(list(models.items())[-1:]) if controls is None else controls


@dataclass(slots=True)
class _Stage:
    """What one call of `run` works with."""

    config: Config
    run: Run
    browser: "Browser"
    show: Progress

    played: dict[str, Trajectory] = field(default_factory=dict)
    """Stored episodes by id, the last try of each; infra errors are still owed and not in it."""

    def __post_init__(self) -> None:
        stored = {t.id: t for t in self.run.read("trajectory", Trajectory)}
        self.played = {ident: t for ident, t in stored.items() if t.stop not in INFRA_STOPS}

    async def judge_owed(self, exam: Exam) -> None:
        """Judge what a kill left between a trajectory and its verdict."""
        verdicts = self.run.read("verdict", Verdict)
        judged, names = {v.trajectory_id for v in verdicts}, {task.id for task in exam.tasks}
        own = {t.id for t in self.played.values() if t.task.id in names}
        _refuse_other_judge(self.run, [v for v in verdicts if v.trajectory_id in own], exam.judge.name)
        for t in self.played.values():
            if t.id not in judged and t.task.id in names:
                await self.judge(exam, t)

    async def judge(self, exam: Exam, trajectory: Trajectory) -> None:
        verdict = await exam.judge(trajectory)
        self.run.append("verdict", verdict.model_copy(update={"trajectory_id": trajectory.id}))

    async def play(self, exam: Exam, name: str, policy: "Policy", tasks: Sequence[Task]) -> None:
        """All episodes of one model that are owed; those that the infrastructure broke again, up to the limit."""
        every = [(task, run) for task in tasks for run in range(self.config.eval.runs)]
        title = f"{exam.name} {name}"
        for _ in range(1 + self.config.eval.infra_retries):
            owed = [(task, run) for task, run in every if trajectory_id(task, run, name) not in self.played]
            done = len(every) - len(owed)
            self.show(title, done, len(every))
            if not owed:
                return

            async def on_done(trajectory: Trajectory) -> None:
                nonlocal done
                self.run.append("trajectory", trajectory)
                if trajectory.stop not in INFRA_STOPS:
                    self.played[trajectory.id] = trajectory
                    await self.judge(exam, trajectory)
                    done += 1
                    self.show(title, done, len(every))

            jobs = (
                Job(
                    task,
                    policy,
                    exam.suite,
                    self.browser,
                    self.run.images,
                    attempt=run,
                    arm=name,
                    seed=self.config.seed,
                )
                for task, run in owed
            )
            await many(jobs, self.config, on_done)

    async def play_controls(self, exam: Exam, models: Mapping[str, "Policy"]) -> None:
        """Blank and swapped screenshots on the exam's first tasks; swaps come from this run's own true episodes."""
        some = exam.tasks[: self.config.eval.controls]
        names = {task.id for task in exam.tasks}
        for name, policy in models.items():
            for kind in KINDS:
                true = [t for t in self.played.values() if t.task.id in names and not _is_control(t)]
                donors = Donors(_first_model(true)) if kind == "swapped" else None
                control = PictureControl(policy, kind, self.run.images, self.config.profile.viewport, donors)
                await self.play(exam, f"{name}+{kind}", control, some)

    def _judge_answered(self) -> None:
        """Say for how many episodes the judge's endpoint failed. Raises RunError where it did for all."""
        latest = {v.trajectory_id: v for v in self.run.read("verdict", Verdict)}
        verdicts = [latest[ident] for ident in self.played if ident in latest]
        failed = [verdict for verdict in verdicts if verdict.unjudged == "infra"]
        if not failed:
            return
        cure = f"the episodes are stored: judge them with `rmsweb judge --from {self.run.path} -o DIRECTORY`"
        why = f"the judge answered for {len(verdicts) - len(failed)} of {len(verdicts)} episodes"
        if len(failed) == len(verdicts):
            raise RunError(f"{why}, no score is written ({failed[-1].reason}); {cure}")
        log.warning("%s; %s", why, cure)

    def finish(self, asked: Mapping[str, Asked], shared: Mapping[str, Any]) -> dict[str, Any]:
        """Compute every number from the stored files and write scores.json."""
        self._judge_answered()
        settings = self.config.eval
        rows = scores.results_of(scores.read_judged(self.run), with_end=settings.steps_with_end)
        numbers: dict[str, Any] = {}
        for name, paper in asked.items():
            ids = {task.id for task in paper.tasks}
            here = [r for r in rows if r.task.id in ids]
            judges = {model: "" for model in scores.models_of(here)}
            judges.update({r.model: r.judge for r in here if r.model in judges and r.judge})
            numbers[name] = scores.exam_numbers(
                here, paper.tasks, runs=paper.runs, resamples=settings.bootstrap, seed=self.config.seed,
                prices=settings.prices,
                facts={m: facts_of(paper.tasks, paper, self.run.manifest, judge, m) for m, judge in judges.items()},
            )  # fmt: skip
            _refuse_empty(name, numbers[name], self.run)
        facts = {"exams": numbers, "disjoint": shared, "prices_date": settings.prices_date}
        self.run.write_json("scores.json", facts)
        return {name: scores.heldout_summary(value) for name, value in numbers.items()}


def _refuse_other_judge(run: Run, verdicts: Sequence[Verdict], name: str) -> None:
    """Raises RunError when episodes were judged by a model judge that has another name now, before any is played."""
    others = sorted({v.judge for v in verdicts if v.success is not None and judge_parts(v.judge)[1]} - {name})
    if others:
        raise RunError(
            f"{run.path}: {len(verdicts)} episodes were judged by {' and '.join(others)}, the rest would be judged by "
            f"{name}; take another -o, or judge what is there alike: `rmsweb judge --from {run.path} -o DIRECTORY`"
        )


def _is_control(trajectory: Trajectory) -> bool:
    return scores.is_control(scores.arm_of(trajectory))


def _first_model(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Donors come from one model (the first by name), so that they are the same however the run was cut."""
    arms = sorted({scores.arm_of(t) for t in trajectories})
    return [t for t in trajectories if scores.arm_of(t) == arms[0]] if arms else []


def _refuse_empty(name: str, numbers: Mapping[str, Any], run: Run) -> None:
    """A model of which no episode ran has no score, and zero must not stand where none was measured."""
    for model, score in numbers["scores"].items():
        ran = score["n"] - sum(score["outcomes"].get(kind, 0) for kind in ("infra_error", "missing"))
        if ran == 0:
            latest = {t.id: t for t in run.read("trajectory", Trajectory) if scores.arm_of(t) == model}
            broken = [t for t in latest.values() if t.stop in INFRA_STOPS and scores.exam_of(t.task) == name]
            raise RunError(
                f"exam {name}, model {model}: 0 of {score['n']} episodes ran ({score['outcomes']}); "
                f"no score is written. {_cause(broken)}Every `detail` stands in trajectories.jsonl; the same command "
                "plays what is owed"
            )


def _cause(broken: Sequence[Trajectory]) -> str:
    """The most frequent reason of episodes that broke, with its count; addresses make no other reason."""
    why = Counter(_ADDRESS.sub("", t.detail) for t in broken)
    if not why:
        return ""
    [(most, count)] = why.most_common(1)
    first = next(t for t in broken if _ADDRESS.sub("", t.detail) == most)
    return f"Most frequent cause ({count} of {len(broken)}): {one_line(first.detail, 300) or first.stop.value}. "
