"""Date patches: rewordings and removals of tasks, with their provenance, applied on purpose and never in silence.

A patch file is JSON, a list of entries or an object with `patches` (and `name`, `for`: free text):

    {"id": "Booking--5", "prev_sha": "<goal hash, 8 to 64 hex digits>", "new": "<text>",
     "reason": "...", "source": "who says so, or where it is from", "date": "2026-04-01"}
    {"id": "Apple--1", "prev_sha": "...", "remove": true, "reason": "...", "source": "...", "date": "..."}

`prev_sha` is the SHA-256 of the text as `goal_hash` takes it: a patch for another version's text is refused. The
patched set's version names the patch file's hash, so that its scores are never taken for the unpatched set's.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from rmsweb.errors import DataError
from rmsweb.records import Task
from rmsweb.tasksets.identity import PUBLISHED
from rmsweb.tasksets.reading import decode_json, read_bytes
from rmsweb.tasksets.taskset import TaskSet, clean, counted, goal_hash, ids_hash, text_hash


class Patch(NamedTuple):
    """One entry; `new` empty: the task is taken out."""

    id: str
    prev_sha: str
    new: str
    reason: str
    source: str
    date: str


def apply_patches(taskset: TaskSet, path: Path | str) -> TaskSet:
    """The set with a patch file's rewordings and removals. Raises DataError for an entry that is wrong or unfit."""
    path = Path(path)
    raw = read_bytes(path)
    patches = _read(raw, path)
    by_id = {task.id: task for task in taskset.tasks}
    for number, patch in enumerate(patches.values(), start=1):
        where = f"entry {number}, {patch.id}"
        if patch.id in taskset.excluded:
            raise DataError(f"{where}: the task is left out of the set already", path)
        if patch.id not in by_id:
            raise DataError(f"{where}: no such task in {taskset.label}", path)
        found = goal_hash(by_id[patch.id].goal)
        if not found.startswith(patch.prev_sha):
            raise DataError(
                f"{where}: the patch is for a text with hash {patch.prev_sha}, the task's has {found[:16]}; "
                f"it was made for another version than {taskset.name} {taskset.version}",
                path,
            )
    tasks = tuple(_patched(task, patches.get(task.id)) for task in taskset.tasks if not _removed(patches, task.id))
    if not tasks:
        raise DataError("removes every task of the set", path)
    removed = {p.id: f"{p.reason} ({p.source}, {p.date})" for p in patches.values() if not p.new}
    sha = hashlib.sha256(raw).hexdigest()
    note = (
        f"{counted(len(patches) - len(removed))} reworded and {len(removed)} removed by {path.name} (sha256 {sha[:16]})"
    )
    return replace(
        taskset,
        version=f"{taskset.version}+patch:{sha[:8]}",
        ids_hash=ids_hash(tasks),
        text_hash=text_hash(tasks),
        tasks=tasks,
        notes=(*(said for said in taskset.notes if said != PUBLISHED), note),
        excluded={**taskset.excluded, **removed},
    )


def _removed(patches: Mapping[str, Patch], ident: str) -> bool:
    return ident in patches and not patches[ident].new


def _patched(task: Task, patch: Patch | None) -> Task:
    if patch is None:
        return task
    said = {"prev_sha": patch.prev_sha, "reason": patch.reason, "source": patch.source, "date": patch.date}
    return task.model_copy(update={"goal": patch.new, "meta": {**task.meta, "patched": said}})


def _read(raw: bytes, path: Path) -> dict[str, Patch]:
    value = decode_json(raw, path)
    entries = value.get("patches") if isinstance(value, dict) else value
    if not isinstance(entries, list) or not entries:
        raise DataError("is no patch file: a list of entries, or an object with the list `patches`", path)
    patches: dict[str, Patch] = {}
    for number, entry in enumerate(entries, start=1):
        patch = _entry(entry, f"entry {number}", path)
        if patch.id in patches:
            raise DataError(f"entry {number}: {patch.id} is patched twice", path)
        patches[patch.id] = patch
    return patches


def _entry(entry: Any, where: str, path: Path) -> Patch:
    if not isinstance(entry, dict):
        raise DataError(f"{where}: has to be an object with id, prev_sha, new, reason, source, date", path)
    ident = _text(entry, "id", where, path)
    where = f"{where}, {ident}"
    prev = _text(entry, "prev_sha", where, path).lower()
    if not re.fullmatch(r"[0-9a-f]{8,64}", prev):
        raise DataError(f"{where}: prev_sha has to be 8 to 64 hex digits", path)
    remove = entry.get("remove", False)
    if not isinstance(remove, bool) or remove == ("new" in entry):
        raise DataError(f"{where}: give either `new` or `remove`: true", path)
    new = "" if remove else clean(_text(entry, "new", where, path))
    if new and goal_hash(new).startswith(prev):
        raise DataError(f"{where}: `new` is the text that it replaces", path)
    day = _text(entry, "date", where, path)
    try:
        plain = date.fromisoformat(day).isoformat() == day  # the function takes weeks and days without dashes, too
    except ValueError:
        plain = False
    if not plain:
        raise DataError(f"{where}: date has to be YYYY-MM-DD, it is {day!r}", path)
    return Patch(ident, prev, new, _text(entry, "reason", where, path), _text(entry, "source", where, path), day)


def _text(entry: dict[str, Any], field: str, where: str, path: Path) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: {field} has to be a text that says something", path)
    return value.strip()
