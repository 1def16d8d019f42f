"""Which tasks an exam asks for: selection, tasks left out with a reason, and what is known of the task file.

Promises that nothing is left out silently: a task is left out by `eval.exclude` or by its file's own rules, each with
a reason, and a score says of how many tasks a selection was made. Tasks of two benchmarks are never mixed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmsweb.bench.setting import Asked
from rmsweb.config import Config, SuiteConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Task
from rmsweb.tasksets import TaskSet, load

if TYPE_CHECKING:
    from rmsweb.web.suite import Suite


def selected(config: Config, wanted: Sequence[tuple["Suite", SuiteConfig]]) -> list[Asked]:
    """What each of the wanted exams asks for. Raises ConfigError where one has no task or an excluded id is unknown."""
    exclude, met = config.eval.exclude, set[str]()
    found = []
    for suite, asked in wanted:
        more = asked.model_copy(update={"count": asked.count + len(exclude)})
        tasks = suite.tasks(more)
        if config.eval.max_steps is not None:
            tasks = [task.model_copy(update={"max_steps": config.eval.max_steps}) for task in tasks]
        left_out = {task.id: exclude[task.id] for task in tasks if task.id in exclude}
        tasks = [task for task in tasks if task.id not in exclude][: asked.count]
        met |= left_out.keys()
        if not tasks:
            raise ConfigError(f"suite {asked.name} has no task of split {asked.split} (suite.sites, suite.templates)")
        _one_benchmark(tasks)
        found.append(_known(config, asked, Asked(tasks=tuple(tasks), excluded=left_out)))
    if unknown := sorted(exclude.keys() - met):
        some = ", ".join(unknown[:3]) + (" ..." if len(unknown) > 3 else "")
        raise ConfigError(f"eval.exclude names {len(unknown)} tasks that are not in the exam ({some}); take them out")
    return found


def _one_benchmark(tasks: Sequence[Task]) -> None:
    names = sorted({task.suite for task in tasks})
    if len(names) > 1:
        raise ConfigError(f"tasks of {' and '.join(names)} are in one file (suite.path); examine each by itself")


def _known(config: Config, asked: SuiteConfig, paper: Asked) -> Asked:
    """The paper with what is known of the file that its tasks come from; built-in suites make theirs."""
    if asked.name != "file":
        return paper
    return with_file(paper, load(Path(asked.path), search_url=config.browser.search_url))


def with_file(paper: Asked, whole: TaskSet) -> Asked:
    """The paper with what is known of the file that holds its tasks."""
    return paper.model_copy(
        update={
            "version": whole.version,
            "task_file": whole.sha256[:16],
            "tasks_of": len(whole.tasks),
            "excluded": {**whole.excluded, **paper.excluded},
            "notes": whole.notes,
        }
    )
