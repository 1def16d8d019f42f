"""The stage `eval`: any number of models on the same tasks, judged, compared, with controls.

Owns which episodes are owed, and scores.json. Promises: every model gets the same tasks from fresh pages; an episode
is stored before it is judged and a verdict before the next is asked for, so that a kill loses at most what was being
played; the same command again plays only what is owed; with greedy models the numbers do not depend on order, on
concurrency or on resumes. An infra error is played again a bounded number of times and never counted as a verdict.
Never trains, never reads a reference answer (checks live with the suites).

Models run one after the other (several at once would share the cores), tasks of one model side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmsweb.bench import scores
from rmsweb.bench.controls import KINDS, Donors, PictureControl
from rmsweb.bench.disjoint import assert_disjoint
from rmsweb.config import Config, SuiteConfig
from rmsweb.errors import ConfigError, RunError
from rmsweb.progress import Progress, Silent
from rmsweb.records import INFRA_STOPS, Task, Trajectory, Verdict
from rmsweb.rollout import Job, many, trajectory_id
from rmsweb.store import Run

if TYPE_CHECKING:
    from rmsweb.judge import Judge
    from rmsweb.policy import Policy
    from rmsweb.web.browser import Browser
    from rmsweb.web.suite import Suite


@dataclass(slots=True, frozen=True)
class Exam:
    """Tasks of one suite and one split, and who judges them."""

    suite: "Suite"
    tasks: tuple[Task, ...]
    judge: "Judge"

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
    suites = [own.model_copy(update={"split": "exam" if own.name == "file" else asked.split, "count": asked.tasks})]
    if own.name == "sites" and asked.template_tasks:
        apart = {"split": "heldout_template", "count": asked.template_tasks, "templates": ()}
        suites.append(own.model_copy(update=apart))
    if asked.miniwob_tasks and own.name != "miniwob":
        suites.append(SuiteConfig(name="miniwob", split="exam", count=asked.miniwob_tasks))
    return suites


def exams(config: Config, suites: Mapping[str, "Suite"], judges: Mapping[str, "Judge"]) -> list[Exam]:
    """The exams of a recipe; `suites` and `judges` by suite name. Raises ConfigError when a suite gives no task."""
    found = []
    for asked in wanted(config):
        tasks = suites[asked.name].tasks(asked)
        if config.eval.max_steps is not None:
            tasks = [task.model_copy(update={"max_steps": config.eval.max_steps}) for task in tasks]
        if not tasks:
            raise ConfigError(f"suite {asked.name} has no task of split {asked.split} (suite.sites, suite.templates)")
        found.append(Exam(suites[asked.name], tuple(tasks), judges[asked.name]))
    return found


async def run(
    config: Config,
    run: Run,
    models: Mapping[str, "Policy"],
    exams: Sequence[Exam],
    browser: "Browser",
    *,
    controls: Mapping[str, "Policy"] | None = None,
    training: Sequence[Task] = (),
    show: Progress | None = None,
) -> dict[str, Any]:
    """Play what is owed, judge it, write scores.json, return the summary (`heldout` and the other exams).

    `models` name the policies as they are to be called in tables; all read their pictures from `run.images`.
    `controls` are tried with blank and swapped screenshots on the first exam (None: the last of `models`).
    `training`: every task that any of the models was trained on. `browser` is open and stores into `run.images`.
    Raises ConfigError when exam and training share tasks or worlds, RunError when no episode of a model ran.
    """
    shared = {exam.name: assert_disjoint(exam.tasks, training)._asdict() for exam in exams}
    stage = _Stage(config, run, browser, show or Silent())
    for exam in exams:
        async with exam.suite.serving():
            await stage.judge_owed(exam)
            for name, policy in models.items():
                await stage.play(exam, name, policy, exam.tasks)
            if exam is exams[0] and config.eval.controls:
                await stage.play_controls(exam, _controlled(models, controls))
    return stage.finish(exams, shared)


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
        judged = {v.trajectory_id for v in self.run.read("verdict", Verdict)}
        names = {task.id for task in exam.tasks}
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

    def finish(self, exams: Sequence[Exam], shared: Mapping[str, Any]) -> dict[str, Any]:
        """Compute every number from the stored files and write scores.json."""
        rows = scores.results_of(scores.read_judged(self.run))
        numbers: dict[str, Any] = {}
        for exam in exams:
            names = {task.id for task in exam.tasks}
            numbers[exam.name] = scores.exam_numbers(
                [r for r in rows if r.task.id in names],
                exam.tasks,
                resamples=self.config.eval.bootstrap,
                seed=self.config.seed,
                prices=self.config.eval.prices,
            )
            _refuse_empty(exam.name, numbers[exam.name])
        facts = {"exams": numbers, "disjoint": shared, "prices_date": self.config.eval.prices_date}
        self.run.write_json("scores.json", facts)
        return {name: scores.heldout_summary(value) for name, value in numbers.items()}


def _is_control(trajectory: Trajectory) -> bool:
    return scores.is_control(scores.arm_of(trajectory))


def _first_model(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Donors come from one model (the first by name), so that they are the same however the run was cut."""
    arms = sorted({scores.arm_of(t) for t in trajectories})
    return [t for t in trajectories if scores.arm_of(t) == arms[0]] if arms else []


def _refuse_empty(name: str, numbers: Mapping[str, Any]) -> None:
    """A model of which no episode ran has no score, and zero must not stand where none was measured."""
    for model, score in numbers["scores"].items():
        ran = score["n"] - sum(score["outcomes"].get(kind, 0) for kind in ("infra_error", "missing"))
        if ran == 0:
            raise RunError(
                f"exam {name}, model {model}: 0 of {score['n']} episodes ran ({score['outcomes']}); "
                "no score is written. See `detail` in trajectories.jsonl; the same command plays what is owed"
            )
