"""A run directory written in a foreign layout, or as training data.

Promises: a task id never leaves the folder (unsafe names are cleaned and get a hash); a folder is there whole or not at
all; the same command again goes on; nothing that was not written by an export is touched; what a format could not take
as it is stands in the summary, by trajectory.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmsweb.bench.formats import chat
from rmsweb.bench.formats.files import json_bytes, safe_name
from rmsweb.bench.formats.registry import FORMATS, names
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.records import Trajectory
from rmsweb.store import Images, Run, write_atomic

MARK = "export.json"
"""What an export wrote, beside its folders."""


def export_runs(format: str, run: Path, out: Path, *, policy: str = "", style: str = "openai") -> dict[str, Any]:
    """Write the trajectories of a run as `format` below `out`; returns the summary.

    `policy`: only trajectories of this policy (or arm). Where a run holds several policies or attempts of a task, each
    pair gets a root of its own, `<out>/<policy>/run<attempt + 1>`, since these layouts hold one attempt of a task.
    `chat` writes a run of `samples` as training data (`style`: openai or sharegpt). Raises ConfigError, DataError,
    RunError.
    """
    if format not in names(writable=True):
        raise ConfigError(f"format {format!r} cannot be written; choose {', '.join(names(writable=True))}")
    out = Path(out)
    source = Run.read_only(Path(run))
    claim(out, {"format": format, "run": str(Path(run).resolve()), "policy": policy})
    if format == "chat":
        summary = chat.export(source, out, style=style)
    else:
        summary = _trajectories(format, source, out, policy)
    origin = {"format": format, "run": str(Path(run).resolve()), "policy": policy}
    write_atomic(out / MARK, json_bytes({**origin, "summary": summary}))
    return summary


def claim(out: Path, origin: Mapping[str, str]) -> None:
    """Make the folder of an export, or go on with it. Raises RunError for one that holds anything else."""
    mark = out / MARK
    if mark.exists():
        try:
            before = json.loads(mark.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"not the record of an export: {error}; choose another -o", mark) from None
        same = isinstance(before, dict) and all(before.get(key) == value for key, value in origin.items())
        if not same:
            raise RunError(f"{out} holds another export; choose another -o")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} is not empty and not made by an export; choose another -o")
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(mark, json_bytes(dict(origin)))


def _trajectories(format: str, source: Run, out: Path, policy: str) -> dict[str, Any]:
    kind = FORMATS[format]
    found = [t for t in source.read("trajectory", Trajectory) if not policy or policy in (t.policy, _arm(t))]
    if not found:
        raise DataError(f"no trajectory{f' of {policy!r}' if policy else ''} to export", source.file("trajectory"))
    groups = {(_arm(t), t.attempt) for t in found}
    seen: Counter[tuple[str, ...]] = Counter()
    roots: Counter[str] = Counter()
    changed: dict[str, list[str]] = {}
    for trajectory in found:
        root: tuple[str, ...] = ()
        if len(groups) > 1:
            root = (safe_name(_arm(trajectory) or "policy"), f"run{trajectory.attempt + 1}")
        assert kind.place is not None and kind.write is not None  # by `names(writable=True)`
        parts = (*root, *(safe_name(part) for part in kind.place(trajectory)))
        seen[parts] += 1
        if seen[parts] > 1:  # two trajectories of one task, policy and attempt
            parts = (*parts[:-1], f"{parts[-1]}-{seen[parts]}")
        notes = _one(trajectory, source.images, out.joinpath(*parts), kind.write)
        roots["/".join(root) or "."] += 1
        if notes:
            changed[trajectory.id] = notes
    return {"format": format, "trajectories": len(found), "roots": dict(roots), "changed": changed}


def _one(trajectory: Trajectory, images: Images, folder: Path, write: Any) -> list[str]:
    """Write one folder beside and move it to its place; a folder that is there is whole. Returns its notes."""
    beside = folder.with_name(f".{folder.name[:100]}.{os.getpid()}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        notes: list[str] = write(trajectory, images, beside)
        if folder.exists():
            shutil.rmtree(beside)
        else:
            beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return notes


def _arm(trajectory: Trajectory) -> str:
    """The arm in front of the id, else the policy."""
    prefix = trajectory.id.removesuffix(f"{trajectory.task.id}#{trajectory.attempt}").rstrip("/")
    return prefix or trajectory.policy
