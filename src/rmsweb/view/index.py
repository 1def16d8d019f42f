"""What there is to look at in one run directory, or in a folder of run directories.

Owns the rows of the list and the way back from a row to its whole trajectory. Keeps rows, verdicts and reflections in
memory and trajectories on disk (read again by their place in the file). A run that is still being written can be
looked at: `refresh` reads what was added. A redone episode is shown as its last try.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from rmsweb.bench.metrics import mode_by_stop, steps_of
from rmsweb.bench.reading import imported
from rmsweb.bench.scores import arm_of, is_control
from rmsweb.errors import DataError, RunError
from rmsweb.judge import outcome
from rmsweb.records import Reflection, Trajectory, Verdict
from rmsweb.store import Images, Run, read_jsonl


@dataclass(slots=True, frozen=True)
class Row:
    """One line of the list."""

    key: str
    """Short name in addresses, equal in every call and export."""
    run: str
    id: str
    arm: str
    """Model of an exam or arm of a collection; otherwise the policy's name."""
    policy: str
    goal: str
    site: str
    template: str
    split: str
    attempt: int
    steps: int | None
    """None: not recorded."""
    stop: str
    outcome: str
    verdict: str
    """`solved`, `not solved` or `no verdict`."""
    reason: str

    @property
    def group(self) -> str:
        """What is counted together: an arm of a run. Continuations (`fix-0-3`) are counted whatever step they are from,
        a checkpoint is named without its folders."""
        arm = re.sub(r"^(fix|flip)-\d+-\d+$", r"\1", self.arm)
        arm = arm.removesuffix("/checkpoint").rpartition("/")[2] or arm
        return f"{self.run}/{arm}" if self.run else arm

    @property
    def control(self) -> bool:
        """The policy saw other pictures than the page's."""
        return is_control(self.arm)


def headline(rows: Sequence[Row]) -> list[str]:
    """How many there are, and what the verdicts say of every model or arm by itself, controls apart (view.js says the
    same of the rows that its filters leave)."""
    groups: dict[bool, dict[str, list[int]]] = {False: {}, True: {}}
    for row in rows:
        counts = groups[row.control].setdefault(row.group, [0, 0])
        counts[0] += row.verdict == "solved"
        counts[1] += row.verdict != "no verdict"
    judged = {kind: {name: one for name, one in of.items() if one[1]} for kind, of in groups.items()}
    lines = [f"{len(rows)} trajectories"]
    if len(groups[False]) == 1 and not judged[True]:
        return [lines[0] + "".join(f", {won} of {n} judged ones solved" for won, n in judged[False].values())]
    for kind, what in ((False, "solved of judged ones"), (True, "controls")):
        said = ", ".join(f"{name} {won} of {n}" for name, (won, n) in judged[kind].items())
        lines += [f"{what}: {said}"] if said else []
    return lines


@dataclass(slots=True, frozen=True)
class Story:
    """Everything about one trajectory."""

    row: Row
    trajectory: Trajectory
    verdict: Verdict | None
    reflection: Reflection | None
    mode: str
    """Failure mode (how it ended), empty for successes."""


@dataclass(slots=True)
class _Source:
    """One run directory and how far its files were read."""

    path: Path
    name: str
    read: int = 0
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Trajectory id -> (offset, length) in trajectories.jsonl."""
    rows: dict[str, Row] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    reflections: dict[str, Reflection] = field(default_factory=dict)


class Index:
    """The rows of one or more runs, and their stories."""

    def __init__(self, title: str, paths: list[tuple[str, Path]]) -> None:
        self.title = title
        self._sources = [_Source(path, name) for name, path in paths]
        self._owners: dict[str, tuple[_Source, str]] = {}
        self.refresh()

    @classmethod
    def open(cls, path: Path) -> "Index":
        """A run directory, or a folder whose subfolders are runs. Raises RunError when there is no trajectory."""
        path = Path(path)
        runs = [("", path)] if (path / "run.json").exists() else []
        runs += [(p.name, p) for p in sorted(path.glob("*/")) if (p / "run.json").exists()]
        if not runs:
            raise RunError(f"{path} is no run directory and holds none (no run.json)")
        shown = [(name, p) for name, p in runs if (p / "trajectories.jsonl").exists()]
        if not shown:
            verbs = ", ".join(sorted({str(Run.read_only(p).manifest["verb"]) for _, p in runs}))
            raise RunError(f"{path} holds no trajectories yet (verb: {verbs}); collect, mine and eval runs have them")
        return cls(path.resolve().name, shown)

    def refresh(self) -> None:
        """Read what was appended since the last look."""
        for source in self._sources:
            self._read(source)

    def rows(self) -> list[Row]:
        """All rows, in the order in which the episodes were stored."""
        return [row for source in self._sources for row in source.rows.values()]

    def story(self, key: str) -> Story | None:
        """The trajectory behind a row's key; None when there is no such key."""
        if key not in self._owners:
            return None
        source, ident = self._owners[key]
        offset, length = source.places[ident]
        with (source.path / "trajectories.jsonl").open("rb") as file:
            file.seek(offset)
            trajectory = Trajectory.model_validate_json(file.read(length))
        verdict = source.verdicts.get(ident)
        mode = "" if verdict and verdict.success else mode_by_stop(trajectory)
        return Story(source.rows[ident], trajectory, verdict, source.reflections.get(ident), mode)

    def image(self, sha: str) -> bytes | None:
        """A picture of any of the runs, by its SHA-256; None when no run has it."""
        if len(sha) != 64 or not set(sha) <= set("0123456789abcdef"):
            return None
        for source in self._sources:
            images = Images(source.path / "images")
            if sha in images:
                return images[sha]
        return None

    def _read(self, source: _Source) -> None:
        for verdict in read_jsonl(source.path / "verdicts.jsonl", Verdict):
            source.verdicts[verdict.trajectory_id] = verdict
        for reflection in read_jsonl(source.path / "reflections.jsonl", Reflection):
            source.reflections[reflection.trajectory_id] = reflection
        for offset, length, trajectory in _added(source.path / "trajectories.jsonl", source.read):
            source.places[trajectory.id] = (offset, length)
            source.read = offset + length
            self._add(source, trajectory)
        for ident, row in source.rows.items():
            if row.verdict == "no verdict" and ident in source.verdicts:
                offset, length = source.places[ident]
                with (source.path / "trajectories.jsonl").open("rb") as file:
                    file.seek(offset)
                    self._add(source, Trajectory.model_validate_json(file.read(length)))

    def _add(self, source: _Source, trajectory: Trajectory) -> None:
        verdict = source.verdicts.get(trajectory.id)
        said = "no verdict" if verdict is None or verdict.success is None else ("not solved", "solved")[verdict.success]
        key = hashlib.sha256(f"{source.name}\n{trajectory.id}".encode()).hexdigest()[:12]
        task = trajectory.task
        self._owners[key] = (source, trajectory.id)
        source.rows[trajectory.id] = Row(
            key=key,
            run=source.name,
            id=trajectory.id,
            arm=arm_of(trajectory) or trajectory.policy,
            policy=trajectory.policy,
            goal=task.goal,
            site=task.site,
            template=task.template,
            split=task.split,
            attempt=trajectory.attempt,
            steps=steps_of(trajectory) if imported(trajectory) else len(trajectory.steps),
            stop=trajectory.stop.value,
            outcome=outcome(trajectory, verdict).value,
            verdict=said,
            reason=verdict.reason if verdict else "",
        )


def _added(path: Path, start: int) -> Iterator[tuple[int, int, Trajectory]]:
    """(offset, length, trajectory) of the whole lines behind `start`."""
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(start)
        offset = start
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                yield offset, len(line), Trajectory.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise DataError(f"not a Trajectory at byte {offset}: {where}: {first['msg']}", path) from error
            offset += len(line)
