"""A task set: tasks of one version of one benchmark, with what identifies them.

Owns the noun and its two hashes. Promises that a set never changes: whatever cuts or rewords it gives a new one whose
version and hashes say so. Reads no files.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rmsweb.errors import ConfigError
from rmsweb.records import Task

SHOWN = 5
"""Ids named in a message."""
NEVER_MIXED = {"webtailbench_refusals": "webtailbench"}
"""Sets that belong to another benchmark's family and have no common score with it."""


@dataclass(slots=True, frozen=True)
class TaskSet:
    """Tasks of one version; `tasks` in the order of the file."""

    name: str
    """Benchmark: webvoyager, online_mind2web, webtailbench, webtailbench_refusals, gaia_web, or `file`."""
    version: str
    """A known version, `subset of X (n of N)`, `X+patch:SHA`, `own`, or `unknown ...`."""
    sha256: str
    """Of the file's bytes."""
    ids_hash: str
    text_hash: str
    tasks: tuple[Task, ...]
    notes: tuple[str, ...] = ()
    """What a reader of a score has to know: assumed start addresses, unknown ids, texts that could not be checked."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Id -> reason, of rows that the file holds and the set does not."""
    candidates: tuple[str, ...] = ()
    """Known versions that hold all of these tasks with these texts; more than one for small subsets."""

    @property
    def label(self) -> str:
        """One line that says what it is."""
        return f"{self.name} {self.version}: {counted(len(self.tasks))}, ids {self.ids_hash}, texts {self.text_hash}"


def goal_hash(text: str) -> str:
    """SHA-256 (64 hex digits) of a task text, after `clean`: what date patches and the stored facts compare."""
    return hashlib.sha256(clean(text).encode()).hexdigest()


def clean(text: str) -> str:
    """Line ends as `\\n`, carriage returns and outer blanks gone."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def ids_hash(tasks: Iterable[Task]) -> str:
    """First 16 hex digits of the SHA-256 of the sorted ids, one a line: equal for any order and any file format."""
    return _digest(sorted(task.id for task in tasks))


def text_hash(tasks: Iterable[Task]) -> str:
    """First 16 hex digits of the SHA-256 of the sorted `id, tab, goal` lines: a reworded task changes it."""
    return _digest(sorted(f"{task.id}\t{task.goal}" for task in tasks))


def together(sets: Sequence[TaskSet]) -> tuple[Task, ...]:
    """All tasks of several sets. Raises ConfigError where versions of one benchmark differ or a task comes twice.

    Parts of one version go together; a refusal set never goes with the tasks that are to be done.
    """
    families: dict[str, list[TaskSet]] = {}
    for one in sets:
        families.setdefault(NEVER_MIXED.get(one.name, one.name), []).append(one)
    for members in families.values():
        first = members[0]
        for other in members[1:]:
            if first.name != other.name:
                raise ConfigError(f"{first.name} and {other.name} are scored apart: give them to two runs")
            if first.name != "file" and not _same_version(members, other):
                raise ConfigError(
                    f"two versions of {first.name} cannot make one score: {first.label}; {other.label}. "
                    "Use files of one version ('rmsweb tasks check FILE' names it)"
                )
    every = [task for one in sets for task in one.tasks]
    twice = [key for key, n in Counter((task.suite, task.id) for task in every).items() if n > 1]
    if twice:
        raise ConfigError(f"{len(twice)} tasks are in more than one of the sets: {named(ident for _, ident in twice)}")
    return tuple(every)


def named(ids: Iterable[str]) -> str:
    """The first few ids, and that there are more."""
    every = list(ids)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")


def counted(n: int) -> str:
    """`1 task`, `2 tasks`."""
    return f"{n} task" + ("" if n == 1 else "s")


def _same_version(members: Sequence[TaskSet], other: TaskSet) -> bool:
    """A known version in common to all, or the very same unknown or patched set."""
    if all(one.candidates for one in members):
        return bool(set[str].intersection(*(set(one.candidates) for one in members)))
    first = members[0]
    return (first.version, first.candidates) == (other.version, other.candidates) and (
        first.version.partition("+patch:")[1] != "" or first.text_hash == other.text_hash
    )


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
