"""Task sets: the exams' task files, which version each is, and what may be done with it.

Owns the way from a file to `TaskSet`. Promises that a set says what it is (version by ids and texts, hashes, what was
left out and assumed), that versions are never mixed, and that no reference answer reaches a Task. Ships no task text:
files are the user's own or are fetched from their public source.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rmsweb.errors import ConfigError, DataError
from rmsweb.records import Task
from rmsweb.tasksets.dates import dated
from rmsweb.tasksets.fetch import get, how_to_get
from rmsweb.tasksets.identity import Identity, identify, odd_groups
from rmsweb.tasksets.known import FACTS, common, ids_of, versions
from rmsweb.tasksets.making import make
from rmsweb.tasksets.overlap import text_host_overlap
from rmsweb.tasksets.patches import apply_patches
from rmsweb.tasksets.reading import read
from rmsweb.tasksets.rubrics import rubric_hash
from rmsweb.tasksets.taskset import TaskSet, counted, goal_hash, ids_hash, named, text_hash

__all__ = [
    "TaskSet",
    "apply_patches",
    "common",
    "dated",
    "get",
    "goal_hash",
    "how_to_get",
    "load",
    "only",
    "save",
    "text_host_overlap",
    "together",
    "versions",
]

REFUSAL_WORDS = re.compile(r"(?<![a-z])(refus(e|al)s?|harm(ful)?)(?![a-z])", re.IGNORECASE)
"""In a file's name, ids or segments: these tasks are to be refused (not `pharmacy`, `harmony`)."""


def load(path: Path | str, *, search_url: str = "", skip: Mapping[str, str] | None = None) -> TaskSet:
    """The task set of a file, its layout and version found by its content.

    `search_url`: where WebTailBench tasks without a start address begin (`browser.search_url`). `skip`: ids to leave
    out, with the reason. Raises DataError with path, line and id for a file or row that is wrong or mixes versions.
    """
    file = read(Path(path))
    tasks, excluded, notes = make(file, search_url, dict(skip or {}))
    name = _name(file.layout, tasks, file.path)
    if name == "webtailbench_refusals":
        tasks = [task.model_copy(update={"suite": name}) for task in tasks]
    identity = _identity(name, file.sha256, tasks, file.path, whole=not excluded)
    return TaskSet(
        name=name,
        version=identity.version,
        sha256=file.sha256,
        ids_hash=ids_hash(tasks),
        text_hash=text_hash(tasks),
        tasks=tuple(tasks),
        notes=(*identity.notes, *notes),
        excluded=excluded,
    )


def together(sets: Sequence[TaskSet]) -> TaskSet:
    """Several sets as one: parts of one version. Raises ConfigError for what cannot make one score.

    That is: two benchmarks, tasks to do with tasks to refuse, two versions, a task that is in two of the sets, and sets
    of which nothing says that they are of one version. `sha256` is empty: it is no file.
    """
    first, *others = sets
    for other in others:
        if other.name != first.name:
            raise ConfigError(f"{first.name} and {other.name} are scored apart: give them to two runs")
    goals: dict[str, str] = {}
    for one in sets:
        both = [task for task in one.tasks if task.id in goals]
        unlike = [task.id for task in both if goals[task.id] != task.goal]
        if unlike:
            said = "; ".join(one.label for one in sets)
            raise ConfigError(f"two versions of {first.name} cannot make one score: {named(unlike)} differ in {said}")
        if both:
            raise ConfigError(f"{counted(len(both))} in more than one of the sets: {named(task.id for task in both)}")
        goals.update((task.id, task.goal) for task in one.tasks)
    tasks = [task for one in sets for task in one.tasks]
    try:
        identity = _identity(first.name, "", tasks, None, whole=True)
    except DataError as error:
        raise ConfigError(f"these sets cannot make one score: {error}") from None
    if others and not identity.of and first.name != "file":
        said = "; ".join(f"{one.version}, {counted(len(one.tasks))}" for one in sets)
        raise ConfigError(f"nothing says that these sets of {first.name} are parts of one version: {said}")
    return TaskSet(
        name=first.name,
        version=identity.version,
        sha256="",
        ids_hash=ids_hash(tasks),
        text_hash=text_hash(tasks),
        tasks=tuple(tasks),
        notes=identity.notes,
        excluded={ident: why for one in sets for ident, why in one.excluded.items()},
    )


def only(taskset: TaskSet, ids: Collection[str], name: str) -> TaskSet:
    """The tasks of a set that a list names; the others are listed as excluded. Raises ConfigError when none is left.

    `name` is what the list is called: it becomes part of the version.
    """
    wanted = set(ids)
    kept = tuple(task for task in taskset.tasks if task.id in wanted)
    if not kept:
        raise ConfigError(f"{taskset.label} has none of the {len(wanted)} tasks of {name}")
    missing = len(wanted) - len(kept)
    notes = (
        (*taskset.notes, f"{missing} of the {len(wanted)} tasks of {name} are not in the set")
        if missing
        else taskset.notes
    )
    left = {task.id: f"not in {name}" for task in taskset.tasks if task.id not in wanted}
    return replace(
        taskset,
        version=f"{name} of {taskset.version}",
        tasks=kept,
        ids_hash=ids_hash(kept),
        text_hash=text_hash(kept),
        notes=notes,
        excluded={**taskset.excluded, **left},
    )


def save(taskset: TaskSet, path: Path) -> None:
    """Write a set as rmsweb's own JSON lines; `load` gives the same tasks. Raises ConfigError where the file exists."""
    if path.exists():
        raise ConfigError(f"{path} exists already; name another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(task.model_dump_json(exclude_defaults=True).encode() + b"\n" for task in taskset.tasks))


def _identity(name: str, sha256: str, tasks: Sequence[Task], path: Path | None, *, whole: bool) -> Identity:
    if name == "file":
        return Identity("own")
    goals = {task.id: task.goal for task in tasks}
    rubrics = {t.id: rubric_hash(rubric) for t in tasks if isinstance(rubric := t.meta.get("rubric"), dict)}
    found = identify(name, sha256, goals, rubrics, path, whole=whole)
    odd = odd_groups(name, found.of, Counter(task.template for task in tasks))
    return replace(found, notes=(*found.notes, odd)) if odd else found


def _name(layout: str, tasks: list[Task], path: Path) -> str:
    """The benchmark. A file of WebTailBench's refusals has its layout, but none of its ids, and says so."""
    if layout == "own":
        suites = {task.suite for task in tasks}
        of = suites.pop() if len(suites) == 1 else "file"
        return of if of in (*FACTS, "gaia_web", "webtailbench_refusals") else "file"
    if layout != "webtailbench":
        return layout
    known = set(ids_of("webtailbench", "v1"))
    ours = [task.id for task in tasks if task.id in known]
    words = f"{path.name} " + " ".join({task.template for task in tasks})
    refusals = [t.id for t in tasks if t.id not in known and _says_refusal(f"{t.id} {t.template}")]
    if ours and refusals:
        raise DataError(
            f"mixes tasks to do ({named(ours)}) with tasks to refuse ({named(refusals)}); they are scored apart", path
        )
    return "webtailbench_refusals" if not ours and _says_refusal(words) else "webtailbench"


def _says_refusal(words: str) -> bool:
    return bool(REFUSAL_WORDS.search(words))
