"""No task of the exam was trained on: found out from the run directories, asserted before the first episode.

Owns the comparison of exam tasks with training tasks and the walk from a checkpoint's run back to the tasks it was
trained on. Equal goal texts in different worlds are counted, not refused: a small vocabulary makes them unavoidable.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rmsweb.errors import ConfigError, DataError
from rmsweb.records import Task

SOURCES = ("trajectories.jsonl", "samples.jsonl", "states.jsonl")
"""Record files whose lines carry a task."""


class Overlap(NamedTuple):
    """What an exam shares with training tasks."""

    tasks: tuple[str, ...]
    """Ids of exam tasks that were trained on."""
    worlds: tuple[str, ...]
    """`suite/site/seed` that both use."""
    templates: tuple[str, ...]
    """Templates of the held-out-template split that were trained on."""
    goals: int
    """Exam tasks whose goal text also occurs in training (in another world)."""
    training: int
    """Training tasks compared with."""


def overlap(exam: Sequence[Task], training: Iterable[Task]) -> Overlap:
    """Compare by id, by world (site and seed) and, for held-out templates, by template."""
    trained = list(training)
    ids, worlds = {t.id for t in trained}, {_world(t) for t in trained}
    templates = {(t.suite, t.template) for t in trained}
    goals = {" ".join(t.goal.lower().split()) for t in trained}
    return Overlap(
        tasks=tuple(sorted({t.id for t in exam if t.id in ids})),
        worlds=tuple(sorted({_world(t) for t in exam if _world(t) in worlds})),
        templates=tuple(
            sorted({t.template for t in exam if t.split == "heldout_template" and (t.suite, t.template) in templates})
        ),
        goals=sum(" ".join(t.goal.lower().split()) in goals for t in exam),
        training=len(trained),
    )


def assert_disjoint(exam: Sequence[Task], training: Iterable[Task]) -> Overlap:
    """The overlap, when it is none but goal texts. Raises ConfigError and names what is shared otherwise."""
    found = overlap(exam, training)
    for what, shared in (("tasks", found.tasks), ("worlds", found.worlds), ("held-out templates", found.templates)):
        if shared:
            some = ", ".join(shared[:3]) + (" ..." if len(shared) > 3 else "")
            raise ConfigError(
                f"the exam shares {len(shared)} {what} with the training data ({some}); "
                "its numbers would mean nothing: choose another split or offset (suite.split, suite.offset)"
            )
    return found


def training_tasks(runs: Iterable[Path]) -> list[Task]:
    """Every task in the given run directories and in those that they were made from (their manifests' inputs)."""
    waiting, seen, tasks = [Path(r) for r in runs], set[Path](), dict[str, Task]()
    while waiting:
        given = waiting.pop()
        # An input may be a file in a run, such as its checkpoint's weights.
        folder = next((f for f in (given, *given.parents[:2]) if (f / "run.json").exists()), None)
        if folder is None or folder.resolve() in seen:
            continue
        seen.add(folder.resolve())
        inputs = json.loads((folder / "run.json").read_text(encoding="utf-8")).get("inputs", {})
        waiting += [Path(item["path"]) for item in inputs.values()]
        for name in SOURCES:
            for task in _tasks_in(folder / name):
                tasks.setdefault(task.id, task)
    return list(tasks.values())


def _world(task: Task) -> str:
    return f"{task.suite}/{task.site}/{task.seed}"


def _tasks_in(path: Path) -> Iterable[Task]:
    """Only the `task` of each line: the rest is not parsed. A torn last line is skipped."""
    if not path.exists():
        return
    last = ""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                raw = json.loads(line)["task"]
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise DataError(f"no record with a task: {error}", path, number) from error
            if raw["id"] != last:
                last = raw["id"]
                yield Task.model_validate(raw)
