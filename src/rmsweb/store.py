"""A run directory: manifest, append-only JSONL, content-addressed images, resume.

    RUN/run.json          verb, schema, version, git revision, resolved config, input hashes, counts, times, status
    RUN/<noun>s.jsonl     one record a line, appended and flushed; a torn last line is dropped and owed again
    RUN/images/ab/<sha>.png   written once, named by SHA-256
    RUN/metrics.jsonl, summary.json, checkpoint/, report.html

Promises: the manifest is written before the first record; a kill at any byte loses at most the record being
written; the same command again goes on; a changed config or input is refused and the difference shown, unless nothing
was recorded yet: such a run is started anew; one writer at a time. It never deletes a record and never pickles.
"""

import fcntl
import hashlib
import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError

import rmsweb
from rmsweb.errors import DataError, RunError
from rmsweb.manifest import changes_between, read_manifest
from rmsweb.records import SCHEMA

R = TypeVar("R", bound=BaseModel)
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def write_atomic(path: Path, data: bytes) -> None:
    """Write beside, flush to disk, rename: readers see the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def dump(record: BaseModel) -> bytes:
    """One JSON line, UTF-8, fields at their default left out."""
    return record.model_dump_json(exclude_defaults=True).encode() + b"\n"


def read_jsonl(path: Path, model: type[R]) -> Iterator[R]:
    """Records of a file in order; a torn last line is skipped. Raises DataError with path and line otherwise."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield model.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                where = "".join(f"{part}." for part in first["loc"])[:-1]
                said = f"{where}: {first['msg']}" if where else first["msg"]
                raise DataError(f"not a {model.__name__}: {said}", path, number) from error


class Images(Mapping[str, bytes]):
    """Content-addressed PNG files of one run; the same picture is stored once."""

    def __init__(self, folder: Path, fallbacks: tuple["Images", ...] = ()) -> None:
        self.folder, self.fallbacks = folder, fallbacks

    def path(self, sha: str) -> Path:
        """Where a picture lies; it need not exist."""
        return self.folder / sha[:2] / f"{sha}.png"

    def put(self, png: bytes) -> str:
        """Store a picture, return its SHA-256. Raises DataError when the bytes are no PNG."""
        if not png.startswith(PNG_MAGIC):
            raise DataError("a screenshot is no PNG; pictures are stored as the browser gave them")
        sha = hashlib.sha256(png).hexdigest()
        path = self.path(sha)
        if not path.exists() or path.stat().st_size != len(png):  # a torn copy is replaced
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{sha}.{os.getpid()}.part")
            beside.write_bytes(png)
            beside.replace(path)
        return sha

    def __contains__(self, sha: object) -> bool:
        return isinstance(sha, str) and (self.path(sha).exists() or any(sha in other for other in self.fallbacks))

    def __getitem__(self, sha: str) -> bytes:
        path = self.path(sha)
        if path.exists():
            png = path.read_bytes()
            if hashlib.sha256(png).hexdigest() != sha:
                raise DataError("the picture is not the one that was stored; copy it again or remove the run", path)
            return png
        for other in self.fallbacks:
            if sha in other:
                return other[sha]
        raise DataError(f"picture {sha} is missing; was the run copied without its images folder?", path)

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in self.folder.glob("??/*.png"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def file_hash(path: Path) -> str:
    """SHA-256 of a file, or of a folder's record files and weights."""
    digest = hashlib.sha256()
    files = sorted([*path.glob("*.jsonl"), *path.glob("*.safetensors")]) if path.is_dir() else [path]
    for file in files:
        digest.update(file.name.encode())
        with file.open("rb") as handle:
            while chunk := handle.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


NO_RUN = "none"


def run_of(path: Path) -> Path | None:
    """The run that a path is, or lies in (its checkpoint, its weights)."""
    return next((f for f in (path, *path.parents[:2]) if (f / "run.json").exists()), None)


def identity(run: Path) -> str:
    """What stays the same while a run goes on and its records grow; empty for runs from before it was recorded."""
    return str(read_manifest(run / "run.json").get("id", ""))


def _input(path: Path) -> dict[str, str]:
    """What a manifest says of an input. `run`: identity of the run that it lies in, `none` where it lies in none."""
    folder = run_of(path)
    return {"path": str(path.resolve()), "sha256": file_hash(path), "run": identity(folder) if folder else NO_RUN}


@lru_cache(maxsize=1)
def git_revision() -> str:
    """Commit of the source tree, `+` behind it when it has changes; empty when it is no checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


class Run:
    """One run directory, open for one writer (see the module docstring)."""

    def __init__(self, path: Path, manifest: dict[str, Any], lock: IO[str] | None) -> None:
        self.path, self.manifest, self._lock = path, manifest, lock
        self._files: dict[str, IO[bytes]] = {}
        self._started = time.monotonic()
        self.images = Images(path / "images")
        self.finished_before = False
        """It owed nothing any more when it was opened."""

    @classmethod
    def open(
        cls,
        path: Path,
        verb: str,
        config: BaseModel,
        inputs: Mapping[str, Path] | None = None,
        compare: Sequence[str] | None = None,
    ) -> "Run":
        """Make a run directory, or go on with it. Raises RunError for another verb, schema, config or input, and for a
        path that is a file or a folder of runs. A run without a record is no obstacle: it is started anew.

        `compare` names the config's sections that may not change (None: all): those the verb does not read may.
        """
        path = Path(path)
        _refuse_folder_of_runs(path)
        lock = take(path)
        try:
            run = cls(path, cls._manifest(path, verb, config, inputs or {}, compare), lock)
            run.finished_before = run.finished
            for torn in (*path.glob(".*.part"), *path.glob("images/??/.*.part")):  # of a writer that was killed
                if torn.is_file():
                    torn.unlink()
            if not run.finished_before:  # a kill here must not turn a finished run into one that owes everything
                run.manifest["status"] = "running"
                run._write_manifest()
            return run
        except BaseException:
            lock.close()
            raise

    @staticmethod
    def _manifest(
        path: Path, verb: str, config: BaseModel, inputs: Mapping[str, Path], compare: Sequence[str] | None
    ) -> dict[str, Any]:
        wanted = {
            "verb": verb,
            "schema": SCHEMA,
            "config": json.loads(config.model_dump_json()),
            "inputs": {name: _input(p) for name, p in inputs.items()},
        }
        manifest_path = path / "run.json"
        if manifest_path.exists():
            manifest = read_manifest(manifest_path)
            changes = changes_between(manifest, wanted, compare)
            if not changes:
                return manifest
            if not _bare(path):
                raise RunError(f"{path} {changes}")
        elif found := sorted(p.name for p in path.glob("*.jsonl") if b"\n" in p.read_bytes()):
            raise RunError(
                f"{path} holds records ({', '.join(found)}) and no run.json that says what they are; put it back, or "
                "choose another -o"
            )
        return {**wanted, **_origin(), "status": "running", "counts": {}, "wall_s": 0.0}

    @classmethod
    def read_only(cls, path: Path) -> "Run":
        """A finished or running directory, for reading. Raises RunError when it is none."""
        manifest_path = Path(path) / "run.json"
        if not manifest_path.exists():
            why = "it has no run.json" if Path(path).exists() else "it does not exist"
            raise RunError(f"{path} is no run directory: {why}")
        return cls(Path(path), read_manifest(manifest_path), None)

    def file(self, noun: str) -> Path:
        """Path of a noun's record file, `<noun>s.jsonl`."""
        return self.path / ("trajectories.jsonl" if noun == "trajectory" else f"{noun}s.jsonl")

    def append(self, noun: str, record: BaseModel) -> None:
        """Append one record and flush it to the operating system."""
        if self._lock is None:
            raise RunError(f"{self.path} is open for reading only")
        if noun not in self._files:
            _drop_torn_line(self.file(noun))
            self._files[noun] = self.file(noun).open("ab")
        self._files[noun].write(dump(record))
        self._files[noun].flush()

    def read(self, noun: str, model: type[R]) -> list[R]:
        """All whole records of a noun, in the order they were appended. Of a trajectory the last line counts: an
        episode that the machine broke is played again under its id. Raises DataError when a finished run lacks any."""
        records = list(read_jsonl(self.file(noun), model))
        if noun == "trajectory":
            records = list({record.id: record for record in records}.values())  # type: ignore[attr-defined]
        # Its own verb, which holds the lock, may make up what is lost; who reads it cannot.
        checked = self.finished and self._lock is None
        counted = self.manifest.get("counts", {}).get(self.file(noun).stem) if checked else None
        if isinstance(counted, int) and len(records) < counted:
            raise DataError(
                f"holds {len(records)} of the {counted} records that run.json counts; put them back", self.file(noun)
            )
        return records

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl."""
        if "metrics" not in self._files:
            _drop_torn_line(self.path / "metrics.jsonl")
            self._files["metrics"] = (self.path / "metrics.jsonl").open("ab")
        self._files["metrics"].write(json.dumps(metrics).encode() + b"\n")
        self._files["metrics"].flush()

    def metrics(self) -> list[dict[str, Any]]:
        """All whole lines of metrics.jsonl."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines = []
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise DataError(f"not a line of metrics: {error}", path, number) from error
            if not isinstance(lines[-1], dict):
                raise DataError("not a line of metrics: no object", path, number)
        return lines

    def write_json(self, name: str, value: Any) -> Path:
        """Write a small machine-made JSON file (summary.json, scores.json) in one piece."""
        path = self.path / name
        write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, default=str).encode() + b"\n")
        return path

    @property
    def finished(self) -> bool:
        """Whether the stage has said that nothing is owed any more."""
        return bool(self.manifest.get("status") == "finished")

    def finish(self, **counts: Any) -> None:
        """Mark the run as whole, with its counts, and let go of it."""
        self.manifest["status"] = "finished"
        self.manifest["counts"] = {**self.manifest.get("counts", {}), **counts}
        self.close()

    def close(self) -> None:
        """Let go of the directory; what is owed stays owed."""
        if self._lock is not None:
            self.manifest["wall_s"] = round(self.manifest.get("wall_s", 0.0) + time.monotonic() - self._started, 3)
            self._write_manifest()
        self.leave()

    def leave(self) -> None:
        """Let go of a directory in which nothing was done: its manifest, wall time included, stays as it is."""
        for file in self._files.values():
            file.close()
        self._files = {}
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_manifest(self) -> None:
        write_atomic(self.path / "run.json", json.dumps(self.manifest, indent=2, ensure_ascii=False).encode() + b"\n")


def _origin() -> dict[str, Any]:
    from importlib import metadata

    versions = {}
    for package in ("torch", "transformers", "trl", "playwright", "pydantic"):
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "id": secrets.token_hex(8),
        "version": rmsweb.__version__,
        "git": git_revision(),
        "versions": versions,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def take(path: Path) -> IO[str]:
    """Make a folder and be its only writer until what is returned is closed. Raises RunError when another one is."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / ".lock").open("w")
    except OSError as error:
        raise RunError(f"{path} cannot be a run directory ({error.strerror}); choose another -o") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RunError(f"{path} is being written by another process; wait for it, or choose another -o") from None
    return lock


def _refuse_folder_of_runs(path: Path) -> None:
    """A folder that is no run but holds some, up to two levels down, is not made one by a slip of `-o`."""
    if (path / "run.json").exists():
        return
    found = sorted(str(p.parent.relative_to(path)) for level in ("*", "*/*") for p in path.glob(f"{level}/run.json"))
    if found:
        some = ", ".join(found[:4]) + (", ..." if len(found) > 4 else "")
        raise RunError(f"{path} holds runs ({some}) and is none itself; choose another -o, for instance {path}/NAME")


def _bare(path: Path) -> bool:
    """Whether nothing was recorded: no whole line, no weights. Pictures and what is written before the first record may
    be there."""
    before = {path / name for name in ("run.json", ".lock", "exam.json")}
    files = [p for p in path.rglob("*") if p.is_file() and p not in before and not p.is_relative_to(path / "images")]
    return all(p.suffix == ".part" or (p.suffix == ".jsonl" and b"\n" not in p.read_bytes()) for p in files)


def _drop_torn_line(path: Path) -> None:
    """Cut what a kill left behind the last newline, so that the next record starts on a line of its own."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return
        position = size
        while position > 0:
            start = max(0, position - (1 << 16))
            file.seek(start)
            found = file.read(position - start).rfind(b"\n")
            if found >= 0:
                file.truncate(start + found + 1)
                return
            position = start
        file.truncate(0)
