"""A task set: tasks of one version of one benchmark, with what identifies them.

Owns the noun and its two hashes. Promises that a set never changes: whatever cuts or rewords it gives a new one whose
version and hashes say so. Reads no files.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rmsweb.records import Task

SHOWN = 5
"""Ids named in a message."""


@dataclass(slots=True, frozen=True)
class TaskSet:
    """Tasks of one version; `tasks` in the order of the file."""

    name: str
    """Benchmark: webvoyager, online_mind2web, webtailbench, webtailbench_refusals, gaia_web, or `file`."""
    version: str
    """`X`, `subset of X (n of N)`, `subset of X and Y (n tasks)` where both have these texts, a name of `known.COMMON`,
    `ids of X; texts not verified`, `X+patch:SHA`, `own`, or `unknown ...`."""
    sha256: str
    """Of the file's bytes."""
    ids_hash: str
    text_hash: str
    tasks: tuple[Task, ...]
    notes: tuple[str, ...] = ()
    """What a reader of a score has to know: assumed start addresses, unknown ids, texts that could not be checked."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Id -> reason, of rows that the file holds and the set does not."""

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


def plain_id(ident: str) -> str:
    """An id without what people and programs change in it: case, Unicode form, blanks."""
    return "".join(unicodedata.normalize("NFKC", ident).casefold().split())


def ids_hash(tasks: Iterable[Task]) -> str:
    """First 16 hex digits of the SHA-256 of the sorted ids, one a line: equal for any order and any file format."""
    return _digest(sorted(task.id for task in tasks))


def text_hash(tasks: Iterable[Task]) -> str:
    """First 16 hex digits of the SHA-256 of the sorted `id, tab, goal` lines: a reworded task changes it."""
    return _digest(sorted(f"{task.id}\t{task.goal}" for task in tasks))


def named(ids: Iterable[str]) -> str:
    """The first few ids, and that there are more."""
    every = list(ids)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")


def counted(n: int) -> str:
    """`1 task`, `2 tasks`."""
    return f"{n} task" + ("" if n == 1 else "s")


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
