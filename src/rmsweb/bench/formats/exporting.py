"""A run directory written in a foreign layout, or as training data.

Promises: a task id never leaves the folder (unsafe names are cleaned and get a hash); a folder is there whole or not at
all; the same command again goes on, and writes again what is not what the run holds now; nothing that was not written
by an export is touched; what a format could not take as it is stands in the summary, by trajectory. An attempt that the
machine broke is left out, with its reason, where the format cannot say so: it would be judged as a failure.

No verdict is written, in any format: the summary counts them by judge. Fara's score files hold a verifier's whole reply
under the verifier's name, of which a run keeps the label and a part; half of it would pass for the whole.
"""

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rmsweb.bench.formats import chat
from rmsweb.bench.formats.files import json_bytes, safe_name
from rmsweb.bench.formats.importing import STORED
from rmsweb.bench.formats.registry import FORMATS, names
from rmsweb.bench.scores import arm_of
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.records import INFRA_STOPS, Trajectory, Verdict
from rmsweb.store import Images, Run, write_atomic

MARK = "export.json"
"""What an export wrote, beside its folders."""
_PART = re.compile(r"\.(\d+)\.part\Z")


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
    # An export is handed on: the run is named by a digest of where it lies, not by a path that says who made it where.
    where = hashlib.sha256(str(Path(run).resolve()).encode()).hexdigest()[:16]
    origin = {"format": format, "run": f"{Path(run).resolve().name} {where}", "policy": policy}
    if format == "chat":
        summary = chat.export(source, out, style=style, begin=lambda: claim(out, origin))
    else:
        summary = _trajectories(format, source, out, origin)
    write_atomic(out / MARK, json_bytes({**origin, "summary": summary}))
    return summary


def claim(out: Path, origin: Mapping[str, str]) -> None:
    """Make the folder of an export, or go on with it: what a killed export left half written is removed. Raises
    RunError for one that holds anything else."""
    mark = out / MARK
    if mark.exists():
        try:
            before = json.loads(mark.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"not the record of an export: {error}; choose another -o", mark) from None
        same = isinstance(before, dict) and all(before.get(key) == value for key, value in origin.items())
        if not same:
            raise RunError(f"{out} holds another export; choose another -o")
        _remove_leftovers(out)
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} is not empty and not made by an export; choose another -o")
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(mark, json_bytes(dict(origin)))


def _remove_leftovers(out: Path) -> None:
    """Remove what exports that run no more have half written."""
    for path in list(out.rglob(".*.part")):
        found = _PART.search(path.name)
        if found is None or _runs(int(found.group(1))):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    """Whether there is another process of this number."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _trajectories(format: str, source: Run, out: Path, origin: Mapping[str, str]) -> dict[str, Any]:
    kind, policy = FORMATS[format], origin["policy"]
    every = [t for t in source.read("trajectory", Trajectory) if not policy or policy in (t.policy, arm_of(t))]
    if not every:
        raise DataError(f"no trajectory{f' of {policy!r}' if policy else ''} to export", source.file("trajectory"))
    broken = {t.id: f"{t.stop.value}: {t.detail}".rstrip(": ") for t in every if t.stop in INFRA_STOPS}
    left_out = {} if kind.says_broken else broken
    found = [t for t in every if t.id not in left_out]
    if not found:
        why = next(iter(left_out.values()))
        raise DataError(f"every attempt was broken by the machine ({why}); {format} cannot say so", source.path)
    claim(out, origin)
    groups = {(arm_of(t) or t.policy, t.attempt) for t in every}
    seen: Counter[tuple[str, ...]] = Counter()
    roots: Counter[str] = Counter()
    changed: dict[str, list[str]] = {}
    for trajectory in found:
        root: tuple[str, ...] = ()
        if len(groups) > 1:
            root = (safe_name(arm_of(trajectory) or trajectory.policy or "policy"), f"run{trajectory.attempt + 1}")
        assert kind.place is not None and kind.write is not None  # by `names(writable=True)`
        parts = (*root, *(safe_name(part) for part in kind.place(trajectory)))
        seen[parts] += 1
        if seen[parts] > 1:  # two trajectories of one task, policy and attempt
            parts = (*parts[:-1], f"{parts[-1]}-{seen[parts]}")
        notes = _one(trajectory, source.images, out.joinpath(*parts), kind.write)
        roots["/".join(root) or "."] += 1
        if notes:
            changed[trajectory.id] = notes
    return {
        "format": format,
        "trajectories": len(found),
        "roots": dict(roots),
        "changed": changed,
        "broken": len(broken),
        "left_out": left_out,
        "verdicts_not_written": _verdicts(source, {t.id for t in found}),
    }


def _verdicts(source: Run, exported: Collection[str]) -> dict[str, int]:
    """Judge -> attempts that were written and that the run holds a verdict of it on."""
    stored = {(v.judge, v.trajectory_id) for noun in ("verdict", STORED) for v in source.read(noun, Verdict)}
    return dict(Counter(judge for judge, trajectory in sorted(stored) if trajectory in exported))


def _one(trajectory: Trajectory, images: Images, folder: Path, write: Any) -> list[str]:
    """Write one folder beside and move it to its place, unless what is there is the same. Returns its notes."""
    beside = folder.with_name(f".{folder.name[:100]}.{os.getpid()}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        notes: list[str] = write(trajectory, images, beside)
        if folder.exists() and _same(beside, folder):
            shutil.rmtree(beside)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return notes


def _same(written: Path, there: Path) -> bool:
    """Whether a folder holds all that was written, to the byte, and no other picture. What people put beside (a judge's
    scores) may stay."""
    files = [path.relative_to(written) for path in written.rglob("*") if path.is_file()]
    pictures = {path.relative_to(there) for path in there.rglob("*.png")}
    return pictures <= set(files) and all(
        (there / file).is_file() and (there / file).read_bytes() == (written / file).read_bytes() for file in files
    )
