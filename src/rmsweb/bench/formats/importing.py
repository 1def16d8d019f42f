"""A foreign folder becomes a run directory of the verb `import`.

Owns joining with a task set, attempt numbers, resuming, and what becomes of stored verdicts. Promises: one odd attempt
never ends the rest (it is skipped, with its reason); the same command again goes on; a copy of an attempt in another
folder is named and not counted as another run (`copies`); a task set that is given is what every agent was asked for
(exam.json), unless the attempts are said to be a part of it; verdicts of other judges are named `imported:<file>` and
never mixed: verdicts.jsonl holds those of one file only, all of them lie in imported_verdicts.jsonl.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from rmsweb.bench.formats.asked import asked_for, missing
from rmsweb.bench.formats.attempts import Attempt, join, trajectory_of
from rmsweb.bench.formats.copies import contradicted, fingerprint, has_pages, telling
from rmsweb.bench.formats.files import clean
from rmsweb.bench.formats.pictures import Pictures
from rmsweb.bench.formats.registry import find, reader
from rmsweb.bench.metrics import steps_of
from rmsweb.bench.paper import with_file
from rmsweb.bench.reading import stored_screenshots, without_seed
from rmsweb.bench.setting import store_asked
from rmsweb.bench.wording import counted
from rmsweb.config import Config
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.halves import cleaned
from rmsweb.records import Task, Trajectory, Verdict
from rmsweb.store import Run
from rmsweb.tasksets import TaskSet

ORIGIN = "import.json"
"""What was imported: format, folder, model, and the hash of the task set that it was joined with."""
STORED = "imported_verdict"


def import_runs(
    format: str,
    folder: Path,
    out: Path,
    *,
    tasks: Sequence[Task] = (),
    model: str = "",
    verdicts: str = "",
    part: bool = False,
    file: TaskSet | None = None,
) -> dict[str, Any]:
    """Read every attempt below `folder` into the run directory `out`; returns the summary, also in summary.json.

    `format`: a name of `registry.FORMATS`, or `auto`. `tasks`: task set to join by id. `model`: name of the policy
    (default: the agent that the format names). `verdicts`: which stored verdicts become the run's own
    (`scores/gpt_eval.json`); needed only where there are several. `part`: of the task set each agent was asked for what
    it attempted, and no more (else what it did not attempt is missing). `file`: the task file that holds `tasks`, whose
    version the scores then name. Raises ConfigError (also for one `model` over
    several agents), DataError (nothing could be read), RunError (`out` is something else).
    """
    folder = Path(folder)
    name, units = find(format, folder)
    with Run.open(Path(out), "import", Config(), compare=()) as run:
        at = clean(str(folder.resolve()))
        origin = {"format": name, "folder": at, "model": model, "tasks": _named_by(tasks)}
        _same_origin(run, origin | {"part": "yes" if part else ""})
        work = _Import(run, name, folder, {task.id: task for task in tasks}, model)
        for unit in units:
            work.take(unit)
        named = {t.task.id for t in work.taken.values()}
        if tasks and named and not {task.id for task in tasks} & (named | set(map(without_seed, named))):
            ours, theirs = min(named), tasks[0].id
            raise DataError(
                f"none of {len(work.taken)} attempts is at a task of the given file: theirs are like {ours!r}, the "
                f"file's like {theirs!r}; give the file that they belong to, or none, and another -o", folder
            )  # fmt: skip
        if not work.taken:
            reasons = "; ".join(f"{one['path']}: {one['reason']}" for one in work.skipped[:3])
            raise DataError(f"none of {len(units)} attempts could be read: {reasons}", folder)
        asked = {} if part else asked_for(tasks, list(work.taken.values()))
        if asked:
            store_asked(run, {name: with_file(one, file) if file else one for name, one in asked.items()})
        summary = work.summary(verdicts) | missing(asked, list(work.taken.values()))
        run.write_json("summary.json", summary)
        counts = {"trajectories": summary["trajectories"], "verdicts": len(run.read("verdict", Verdict))}
        counts[f"{STORED}s"] = len(run.read(STORED, Verdict))
        run.finish(**counts, skipped=len(work.skipped))
        return summary


class _Import:
    """One pass over the attempts of a folder."""

    def __init__(self, run: Run, format: str, folder: Path, tasks: dict[str, Task], model: str) -> None:
        self.run, self.format, self.folder, self.tasks, self.model = run, format, folder, tasks, model
        self.taken = {_path(t): t for t in run.read("trajectory", Trajectory)}
        self.numbers = Counter((t.policy, t.task.id) for t in self.taken.values())
        self.agents = {str(agent) for t in self.taken.values() if (agent := _facts(t).get("agent"))}
        self.same: dict[str, list[Trajectory]] = {}
        for trajectory in self.taken.values():
            self._remember(trajectory)
        self.judged: dict[str, list[Verdict]] = {}
        for verdict in run.read(STORED, Verdict):
            self.judged.setdefault(verdict.trajectory_id, []).append(verdict)
        self.skipped: list[dict[str, str]] = []
        self.copies: list[dict[str, Any]] = []
        self.joins: dict[str, list[str]] = {"joined": [], "unknown": [], "other_goal": []}

    def take(self, unit: Path) -> None:
        """Read one attempt unless it is there; an attempt that cannot be read is skipped with its reason, a copy of
        another one is named. Raises ConfigError where `model` would name several agents."""
        where = clean(unit.relative_to(self.folder).as_posix())
        pictures = Pictures(self.run.images)
        try:
            attempt = reader(self.format).read(unit, pictures)
            attempt.task_id, attempt.site = clean(attempt.task_id), clean(attempt.site)
            attempt.notes, attempt.facts = cleaned(attempt.notes), cleaned(attempt.facts)
            if not attempt.task_id.strip():
                raise DataError("has no task id", unit)
            task, joined = join(attempt, self.tasks)
            if not task.goal.strip():
                raise DataError("holds no task text; give the task file it belongs to (its ids must match)", unit)
        except DataError as error:
            self.skipped.append({"path": where, "reason": clean(str(error))})
            return
        attempt.notes += pictures.notes
        trajectory = self.taken.get(where)
        first = trajectory or self._made(attempt, task, where, pictures)
        self._keep(first, attempt.verdicts)
        if trajectory is None and _path(first) != where:
            self.copies.append({"path": where, "of": _path(first), "trajectory": first.id})
        elif joined:
            self.joins[joined].append(task.id)

    def _made(self, attempt: Attempt, task: Task, where: str, pictures: Pictures) -> Trajectory:
        """The attempt's record, stored; where it is a copy of one that is there, that one."""
        self.agents |= {attempt.agent} - {""}
        if self.model and len(self.agents) > 1:
            named = ", ".join(sorted(self.agents))
            raise ConfigError(
                f"{self.folder} holds attempts of {named}; leave --model out, or import one agent's folder"
            )
        policy = self.model or attempt.agent
        number = self.numbers[policy, task.id]
        build = partial(trajectory_of, attempt, task, format=self.format, path=where, model=policy, number=number)
        trajectory = build(converted=pictures.converted)
        alike = self.same.get(fingerprint(trajectory), [])
        agreeing = [t for t in alike if not contradicted(attempt.verdicts, self.judged.get(t.id, ()))]
        if agreeing and telling(trajectory):
            return agreeing[0]
        if note := self._doubt(trajectory, alike, agreeing):
            attempt.notes.append(note)
            trajectory = build(converted=pictures.converted)
        self.numbers[policy, task.id] += 1
        self.run.append("trajectory", trajectory)
        self.taken[where] = trajectory
        self._remember(trajectory)
        return trajectory

    def _doubt(self, trajectory: Trajectory, alike: Sequence[Trajectory], agreeing: Sequence[Trajectory]) -> str:
        """What to say of an attempt that is kept as a run and may be a copy; empty where nothing speaks for one."""
        if agreeing:
            return (
                f"equal to {agreeing[0].id} in the little that is stored of both: a copy cannot be told from another "
                "run, and it counts as a run"
            )
        if alike and telling(trajectory):
            return f"the same acts and pages as {alike[0].id} and another verdict beside them: it counts as a run"
        twins = self.same.get(fingerprint(trajectory, task=False), []) if has_pages(trajectory) and not alike else []
        return f"the same goal, acts and pages as {twins[0].id}: is it a copy under another task id?" if twins else ""

    def _remember(self, trajectory: Trajectory) -> None:
        for task in (True, False):
            self.same.setdefault(fingerprint(trajectory, task=task), []).append(trajectory)

    def _keep(self, trajectory: Trajectory, verdicts: Sequence[Verdict]) -> None:
        """Store verdicts unless one of the same judge is there."""
        there = self.judged.setdefault(trajectory.id, [])
        for verdict in verdicts:
            if verdict.judge not in {one.judge for one in there}:
                there.append(verdict)
                self.run.append(STORED, verdict.model_copy(update={"trajectory_id": trajectory.id}))

    def summary(self, wanted: str) -> dict[str, Any]:
        """What was read; makes the stored verdicts of one file the run's own."""
        stored = self.run.read(STORED, Verdict)
        judges = Counter(v.judge for v in stored)
        chosen = self._choose(judges, wanted)
        known = {v.trajectory_id for v in self.run.read("verdict", Verdict)}
        for verdict in stored:
            if verdict.judge == chosen and verdict.trajectory_id not in known:
                self.run.append("verdict", verdict)
        found = list(self.taken.values())
        facts = [_facts(t) for t in found]
        result: dict[str, Any] = {
            "format": self.format,
            "trajectories": len(found),
            "tasks": len({t.task.id for t in found}),
            **_steps(found),
            "pictures": len(self.run.images),
            "missing_pictures": sum(not sha for t in found for _, sha in stored_screenshots(t)),
            "converted_pictures": sum(len(f.get("converted", ())) for f in facts),
            "stops": dict(Counter(t.stop.value for t in found)),
            "skipped": self.skipped,
            "copies": self.copies,
            "runs_in_folders": "" if self.model else _folders(found),
            "notes": {t.id: f["notes"] for t, f in zip(found, facts, strict=True) if "notes" in f},
            "stored_verdicts": dict(judges),
            "verdicts": chosen,
            "scores_that_differ": sum(bool(v.details.get("rubric_differences")) for v in stored),
        }
        if self.tasks:
            result["task_set"] = {key: sorted(ids) for key, ids in self.joins.items()}
        return result

    def _choose(self, judges: Counter[str], wanted: str) -> str:
        """The stored verdicts that become the run's; empty where there are none, or several and none was named."""
        there = {v.judge for v in self.run.read("verdict", Verdict)}
        names = sorted(name.removeprefix("imported:") for name in judges)
        if wanted:
            if f"imported:{wanted}" not in judges:
                raise ConfigError(f"no verdicts of {wanted!r} are stored; there are: {', '.join(names) or 'none'}")
            if there - {f"imported:{wanted}"}:
                raise RunError(f"{self.run.path} already has verdicts of {', '.join(sorted(there))}; choose another -o")
            return f"imported:{wanted}"
        if there:
            return min(there)
        return next(iter(judges)) if len(judges) == 1 else ""


def _steps(found: Sequence[Trajectory]) -> dict[str, int]:
    """Steps as far as they are known, and of how many attempts they are not."""
    known = [steps for t in found if (steps := steps_of(t)) is not None]
    return {"steps": sum(known), "steps_unknown": len(found) - len(known)}


def _folders(found: Sequence[Trajectory]) -> str:
    """That attempts of one task in several folders count as runs of one policy, where the format names no agent."""
    places: dict[str, list[str]] = {}
    for t in found:
        if not t.policy:
            places.setdefault(t.task.id, []).append(PurePosixPath(_path(t)).parent.as_posix())
    several = [folders for folders in places.values() if len(set(folders)) > 1]
    if not several:
        return ""
    names = list(dict.fromkeys(name for folders in several for name in folders))
    shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    return (
        f"{counted(len(several), 'task')} with attempts in several folders ({shown}): counted as runs of one policy, "
        "since the format names no agent; --model gives it a name. Import folder by folder what others did"
    )


def _path(trajectory: Trajectory) -> str:
    return str(_facts(trajectory).get("path", ""))


def _facts(trajectory: Trajectory) -> dict[str, Any]:
    facts = trajectory.evidence.get("imported")
    return facts if isinstance(facts, dict) else {}


def _named_by(tasks: Sequence[Task]) -> str:
    """Names a task set by what its tasks are; empty without one."""
    if not tasks:
        return ""
    return hashlib.sha256("\n".join(sorted(task.model_dump_json() for task in tasks)).encode()).hexdigest()[:16]


def _same_origin(run: Run, origin: dict[str, str]) -> None:
    """Refuse to import something else into the same run, or the same joined with other tasks: what is stored already
    would stay as it was."""
    path = run.path / ORIGIN
    if not path.exists():
        run.write_json(ORIGIN, origin)
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"not a record of an import: {error}; choose another -o", path) from None
    if not isinstance(before, dict):
        raise DataError("not a record of an import: no object; choose another -o", path)
    said = {key: before.get(key, "") for key in origin}
    if said | {"tasks": ""} != origin | {"tasks": ""}:
        raise RunError(f"{run.path} holds another import ({said}); choose another -o")
    if "tasks" in before and said != origin:
        how = f"joined with other tasks ({said['tasks']})" if said["tasks"] else "made without --tasks"
        raise RunError(f"{run.path} holds an import {how}; choose another -o, or give the same --tasks")
