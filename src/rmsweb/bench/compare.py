"""Which runs may stand in one table: those with the same tasks, texts, step limits, judge and viewport.

Owns the sorting of exam runs into groups of like ones. Promises that unlike runs are never compared silently: they
come in separate groups, and a sentence names what differs. The same model in two like runs is shown twice, under the
names of its runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rmsweb.bench import protocols, setting
from rmsweb.bench.examples import Attempt
from rmsweb.bench.layout import Stage
from rmsweb.bench.metrics import Result
from rmsweb.bench.scores import exam_numbers, exam_of, is_control
from rmsweb.bench.setting import Asked, Setting
from rmsweb.errors import DataError
from rmsweb.records import Task, Trajectory

IMPORT = "import"
EXAMS = ("eval", IMPORT)
"""Verbs of runs that hold an exam's attempts."""


@dataclass(slots=True, eq=False)
class Paper:
    """What one run holds of one exam, or those of its agents that were asked for the same tasks."""

    stage: Stage
    exam: str
    tasks: list[Task]
    rows: list[Result]
    asked: Asked | None
    setting: Setting
    names: dict[str, str] = field(default_factory=dict)
    """Model in the run -> model in the tables, where they differ."""

    def trajectories(self) -> list[Trajectory]:
        """The attempts of this exam."""
        ids, mine = {task.id for task in self.tasks}, {row.trajectory_id for row in self.rows}
        return [t for t, _ in self.stage.judged if t.task.id in ids and t.id in mine]

    def attempts(self) -> list[Attempt]:
        """Its episodes with their verdicts, under the names of the tables."""
        names, judged = {row.trajectory_id: row.model for row in self.rows}, self.stage.judged
        return [Attempt(self.stage.path, names[t.id], (t, v)) for t, v in judged if t.id in names]

    def named(self, rows: Sequence[Result]) -> list[Result]:
        """Rows under the names of the tables."""
        return [replace(row, model=self.names.get(row.model, row.model)) for row in rows]


@dataclass(slots=True, eq=False)
class Group:
    """Like papers of one exam."""

    exam: str
    papers: list[Paper]
    _numbers: dict[str, Any] | None = None

    @property
    def setting(self) -> Setting:
        return self.papers[0].setting

    @property
    def tasks(self) -> list[Task]:
        return self.papers[0].tasks

    @property
    def rows(self) -> list[Result]:
        """Rows of all papers, models under the names of the tables."""
        return [row for paper in self.papers for row in paper.rows]

    @property
    def runs(self) -> int:
        """Runs of each task that were asked for: the same in every paper of a group."""
        return max((paper.asked.runs if paper.asked else 1 for paper in self.papers), default=1)

    @property
    def found(self) -> bool:
        """Nobody knows what was asked for: imported attempts are what is there."""
        return all(paper.stage.verb == IMPORT for paper in self.papers)

    def numbers(self, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """`scores.exam_numbers` of the group, computed once. `config`: bootstrap, seed and prices are taken from it
        (None: from the first run's manifest, prices from all)."""
        if self._numbers is None:
            self._numbers = self._computed(config or self._config())
        return self._numbers

    def _config(self) -> dict[str, Any]:
        configs = [paper.stage.manifest["config"] for paper in self.papers]
        prices: dict[str, Any] = {}
        for config in reversed(configs):
            prices |= config.get("eval", {}).get("prices") or {}
        first = configs[0]
        return {"seed": first.get("seed", 0), "eval": {**first.get("eval", {}), "prices": prices}}

    def _computed(self, config: Mapping[str, Any]) -> dict[str, Any]:
        asked = config.get("eval", {})
        facts: dict[str, dict[str, Any]] = {}
        for paper in self.papers:
            acted = paper.stage.manifest if paper.stage.verb == "eval" else {}
            own = {name: model for model, name in paper.names.items()}
            for model in dict.fromkeys(row.model for row in paper.rows):
                judge = next((r.judge for r in paper.rows if r.model == model and r.judge), "")
                facts[model] = setting.facts_of(self.tasks, paper.asked, acted, judge, own.get(model, model))
                if paper.asked is None:
                    facts[model]["contamination"] = setting.recorded_overlap(paper.stage.run, self.exam)
        try:
            return exam_numbers(
                self.rows, self.tasks, runs=self.runs, found=self.found, resamples=asked.get("bootstrap", 2000),
                seed=config.get("seed", 0), prices=asked.get("prices"), facts=facts,
            )  # fmt: skip
        except DataError as error:
            names = ", ".join(str(paper.stage.run.path) for paper in self.papers)
            raise DataError(f"{names}: {error}") from error


class Examined(NamedTuple):
    """Everything that the given runs hold of exams."""

    stages: list[Stage]
    """The given runs, and runs that were judged but not given."""
    judged: dict[Stage, list[Stage]]
    """Run of `judge` -> the runs it judged."""
    groups: list[Group]

    def beside(self, group: Group) -> list[Group]:
        """The groups of the same exam, itself included."""
        return [other for other in self.groups if other.exam == group.exam]


def examined(stages: Sequence[Stage]) -> Examined:
    """Sort runs into groups of like ones. Raises RunError for a judged run that is nowhere to be found."""
    every, judged = protocols.with_judged(stages)
    return Examined(every, judged, groups_of([stage for stage in every if stage.verb in EXAMS]))


def papers_of(stage: Stage) -> list[Paper]:
    """What a run holds, exam by exam, in the order in which they were begun."""
    asked, own = setting.read_asked(stage.run), stage.verb != IMPORT
    rows = [row if row.model else replace(row, model=stage.name) for row in stage.results]
    found = []
    for name in dict.fromkeys([*asked, *(exam_of(row.task) for row in rows)]):
        one = asked.get(name)
        for tasks, here in _shares([row for row in rows if exam_of(row.task) == name], one, own):
            acted = [row.run for row in here if not is_control(row.model)]
            runs = (one.runs if one else 1 + max(acted, default=0)) if own else None
            key = setting.setting_of(tasks, here, capped=own, runs=runs, with_end=stage.with_end)
            found.append(Paper(stage, name, tasks, here, one, key, {} if own else {"": stage.name}))
    return found


def _shares(rows: list[Result], asked: Asked | None, own: bool) -> list[tuple[list[Task], list[Result]]]:
    """(tasks, rows) of those that were asked for the same tasks: all of a run that says what it asked for, or is `own`.

    Of an import that does not say it each agent was asked for what it attempted: another's tasks are not its own.
    """
    played = {row.task.id: row.task for row in rows if not is_control(row.model)}
    if asked or own:
        tasks = list(asked.tasks) if asked else list(played.values())
        return [(tasks, rows)] if tasks else []
    attempted: dict[str, set[str]] = {}
    for row in rows:
        attempted.setdefault(row.model, set()).add(row.task.id)
    sets = dict.fromkeys(frozenset(ids) for ids in attempted.values())
    return [
        ([task for ident, task in played.items() if ident in ids], [row for row in rows if attempted[row.model] == ids])
        for ids in sets
    ]


def groups_of(stages: Sequence[Stage]) -> list[Group]:
    """Groups of like papers; exams in order of appearance, within one exam the group with most rows first."""
    papers = [paper for stage in stages for paper in papers_of(stage)]
    found: list[Group] = []
    for exam in dict.fromkeys(paper.exam for paper in papers):
        here: dict[Setting, Group] = {}
        for paper in papers:
            if paper.exam == exam:
                here.setdefault(paper.setting, Group(exam, [])).papers.append(paper)
        found += sorted(here.values(), key=lambda group: -len(group.rows))
    for group in found:
        _tell_apart(group)
    return found


def _tell_apart(group: Group) -> None:
    """Give a model that several runs of the group hold the name of its run."""
    holders: dict[str, list[Paper]] = {}
    for paper in group.papers:
        for model in dict.fromkeys(row.model for row in paper.rows):
            holders.setdefault(model, []).append(paper)
    for model, papers in holders.items():
        if len(papers) < 2:
            continue
        alike = len({paper.stage.name for paper in papers}) < len(papers)
        for paper in papers:
            if paper.names.get("") == model:  # an unnamed model has its run's name already
                paper.names[""] = _renamed(model, str(paper.stage.path))
            paper.names[model] = _renamed(model, str(paper.stage.path) if alike else paper.stage.name)
    for paper in group.papers:
        paper.rows = paper.named(paper.rows)


def _renamed(model: str, run: str) -> str:
    """`rl (run)`; a control keeps its ending, by which it is known."""
    name, plus, kind = model.rpartition("+")
    return f"{name} ({run})+{kind}" if plus and is_control(model) else f"{model} ({run})"


def warnings(groups: Sequence[Group]) -> list[str]:
    """What has to be known before comparing the models of a group, with the exam's name where there are several."""
    several = len(groups) > 1
    return [f"{group.exam}: {line}" if several else line for group in groups for line in group.numbers()["warnings"]]


def apart(groups: Sequence[Group]) -> list[str]:
    """One sentence for each exam whose runs are not all alike: what differs, and that they are shown apart."""
    said = []
    for exam in dict.fromkeys(group.exam for group in groups):
        here = [group for group in groups if group.exam == exam]
        if len(here) > 1:
            fields = ", ".join(setting.differing([group.setting for group in here]))
            said.append(
                f"The runs of {exam} are not alike and are not compared: they differ in {fields}. "
                f"They stand in {len(here)} separate sections."
            )
    return said
