"""WebVoyager's reference answers, read apart from the tasks: no Task ever carries one.

Fara ships the original's file byte for byte beside its own tasks, 86 of which it reworded: for those the answers are
stale, as they are for every set with other dates; `tasks check` and doctor say which. Of the 643 answers 143 are
`golden` (the only right one), 500 `possible` (one of many, or true when it was written). No judge here is shown one.
"""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from rmsweb.errors import ConfigError, DataError
from rmsweb.tasksets.known import facts_of
from rmsweb.tasksets.reading import decode_json, read_bytes
from rmsweb.tasksets.taskset import TaskSet, goal_hash, named

KINDS = ("golden", "possible")
FILE = "reference_answer.json"
"""Upstream's name."""


class Reference(NamedTuple):
    """An answer that was right when it was written down."""

    kind: str
    """golden or possible."""
    answer: str
    notice: str
    """What the file says of the site's answers."""


def reference_answers(path: Path | str) -> dict[str, Reference]:
    """Task id -> answer, of WebVoyager's reference_answer.json. Raises DataError naming the site and entry."""
    path = Path(path)
    value = decode_json(read_bytes(path), path)
    if not isinstance(value, dict) or not value:
        raise DataError("has to be an object: site -> notice and answers (WebVoyager's reference_answer.json)", path)
    found: dict[str, Reference] = {}
    for site, entry in value.items():
        answers = entry.get("answers") if isinstance(entry, dict) else None
        if not isinstance(answers, list):
            raise DataError(f"{site}: has no list `answers`; is this WebVoyager's reference_answer.json?", path)
        notice = entry.get("notice") or ""
        for number, row in enumerate(answers, start=1):
            ident, reference = _reference(row, site, str(notice).strip(), f"{site}, answer {number}", path)
            if ident in found:
                raise DataError(f"{site}, answer {number}: {ident} has an answer already", path)
            found[ident] = reference
    return found


def stale_references(taskset: TaskSet) -> tuple[str, ...]:
    """Ids whose text is not that of the original WebVoyager file: its answer may be to another question."""
    if taskset.name != "webvoyager":
        raise ConfigError(f"{taskset.label}: reference answers exist for WebVoyager only")
    asked = facts_of("webvoyager").versions["original"]
    return tuple(task.id for task in taskset.tasks if asked.get(task.id) != goal_hash(task.goal)[:8])


def beside(task_file: Path) -> Path | None:
    """The reference answers that lie in the folder of a task file, under upstream's name."""
    path = task_file.parent / FILE
    return path if path.is_file() else None


def described(taskset: TaskSet, path: Path) -> str:
    """How many tasks of a set have a reference answer and whose answer is stale, in words. Raises as the readers do."""
    answers = reference_answers(path)
    stale = set(stale_references(taskset))
    found = [task.id for task in taskset.tasks if task.id in answers]
    kinds = Counter(answers[ident].kind for ident in found)
    said = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS)
    old = [ident for ident in found if ident in stale]
    of = f"; {len(old)} answer another text than the task's (stale): {named(old)}" if old else "; none is stale"
    return f"reference answers in {path.name} for {len(found)} of {len(taskset.tasks)} tasks ({said}){of}"


def _reference(row: Any, site: str, notice: str, where: str, path: Path) -> tuple[str, Reference]:
    if not isinstance(row, dict):
        raise DataError(f"{where}: has to be an object with id, type and ans", path)
    number, kind, answer = row.get("id"), row.get("type"), row.get("ans")
    if not isinstance(number, int) or isinstance(number, bool):
        raise DataError(f"{where}: id has to be the number in the task's id", path)
    if kind not in KINDS:
        raise DataError(f"{where}: type has to be one of {', '.join(KINDS)}, it is {kind!r}", path)
    if not isinstance(answer, str):
        raise DataError(f"{where}: ans has to be a text", path)
    return f"{site}--{number}", Reference(kind, answer, notice)
