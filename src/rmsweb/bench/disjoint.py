"""No task of the exam was trained on: found out from the run directories, asserted before the first episode.

Owns the comparison of exam tasks with training tasks and the walk from a checkpoint's run back to the tasks it was
trained on. Compared are ids, worlds (suite, site and seed), templates of the held-out-template split, and the text on
its host (`tasksets.overlap`). A site that is served here is another host in every world, so equal goal texts in
different worlds are counted and not refused: a small vocabulary makes them unavoidable. Equal texts on other hosts of
the real web are counted too.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import rmsweb
from rmsweb.errors import ConfigError, DataError
from rmsweb.manifest import read_manifest
from rmsweb.records import Task
from rmsweb.store import NO_RUN, file_hash, identity, run_of
from rmsweb.tasksets.overlap import text_host_overlap

PACKAGE = Path(rmsweb.__file__).parent
"""Where the shipped base lies: it was trained on drawn pages, never on a task."""
SOURCES = ("trajectories.jsonl", "samples.jsonl", "states.jsonl")
"""Record files whose lines carry a task."""
LEVELS = 3
"""Folders above a run below which an input is looked for that was moved with it."""


class Overlap(NamedTuple):
    """What an exam shares with training tasks."""

    tasks: tuple[str, ...]
    """Ids of exam tasks that were trained on."""
    worlds: tuple[str, ...]
    """`suite/site/seed` that both use."""
    templates: tuple[str, ...]
    """Templates of the held-out-template split that were trained on."""
    goals: int
    """Exam tasks whose text also occurs in training, in another world or on another host."""
    training: int
    """Training tasks compared with."""
    texts: tuple[str, ...] = ()
    """Ids of exam tasks of the real web whose text also occurs in training on the same host."""
    unrecorded: tuple[str, ...] = ()
    """Models whose training data is recorded nowhere, so that it was not compared."""

    def counts(self) -> dict[str, int]:
        """How many of each, as every score states it."""
        return {
            "training": self.training,
            "tasks": len(self.tasks),
            "worlds": len(self.worlds),
            "templates": len(self.templates),
            "texts": len(self.texts),
            "goals": self.goals,
            "unrecorded": len(self.unrecorded),
        }


def overlap(exam: Sequence[Task], training: Iterable[Task], unrecorded: Sequence[str] = ()) -> Overlap:
    """Compare by id, by world (site and seed), for held-out templates by template, and by text and host."""
    trained = list(training)
    ids, worlds = {t.id for t in trained}, {_world(t) for t in trained} - {""}
    templates = {(t.suite, t.template) for t in trained}
    texts = text_host_overlap(exam, trained)
    served = {t.id for t in exam if not t.start_url}
    return Overlap(
        tasks=tuple(sorted({t.id for t in exam if t.id in ids})),
        worlds=tuple(sorted({_world(t) for t in exam if _world(t) in worlds})),
        templates=tuple(
            sorted({t.template for t in exam if t.split == "heldout_template" and (t.suite, t.template) in templates})
        ),
        goals=len(texts.elsewhere) + sum(ident in served for ident in texts.same),
        training=len(trained),
        texts=tuple(sorted(ident for ident in texts.same if ident not in served)),
        unrecorded=tuple(unrecorded),
    )


def assert_disjoint(
    exam: Sequence[Task], training: Iterable[Task], *, unrecorded: Sequence[str] = (), allowed: bool = False
) -> Overlap:
    """The overlap, when it is none but goal texts elsewhere. Raises ConfigError and names what is shared otherwise,
    unless it is `allowed` (eval.allow_overlap): then every score states the counts."""
    found = overlap(exam, training, unrecorded)
    for what, shared in (
        ("tasks", found.tasks),
        ("worlds", found.worlds),
        ("held-out templates", found.templates),
        ("task texts on the same host", found.texts),
    ):
        if shared and not allowed:
            some = ", ".join(shared[:3]) + (" ..." if len(shared) > 3 else "")
            raise ConfigError(
                f"the exam shares {len(shared)} {what} with the training data ({some}); its numbers would mean "
                "nothing: choose another split or offset (suite.split, suite.offset), leave the tasks out "
                "(eval.exclude), or set eval.allow_overlap=true with another -o: every score then says how many"
            )
    return found


class Trained(NamedTuple):
    """What the examined models were trained on, as far as it is known."""

    tasks: list[Task]
    unrecorded: tuple[str, ...] = ()
    """Served models, and checkpoints that are no runs of ours (a downloaded base, a copy): what they were trained on
    stands nowhere."""


def training_tasks(runs: Iterable[Path], *, gone_ok: bool = False) -> Trained:
    """Every task in the given run directories and in those that they were made from (their manifests' inputs).

    An input that was moved together with its run is found beside it, by its hash. Raises ConfigError when one lies
    nowhere any more or holds other records than it did (unless `gone_ok`): what was trained on is not known then.
    """
    waiting, seen, tasks = [Path(r) for r in runs], set[Path](), dict[str, Task]()
    unrecorded = set[str]()
    while waiting:
        given = waiting.pop()
        folder = run_of(given)
        if folder is None and _trained_elsewhere(given):
            unrecorded.add(str(given))
        if folder is None or folder.resolve() in seen:
            continue
        seen.add(folder.resolve())
        for made_from in read_manifest(folder / "run.json").get("inputs", {}).values():
            found, fault = _found(folder, made_from)
            if fault and not gone_ok:
                raise ConfigError(
                    f"{folder} was made from {made_from['path']}, which {fault}: whether the exam's tasks were trained "
                    "on cannot be known. Put it back, or set eval.allow_overlap=true to be examined without knowing"
                )
            waiting += [found] if found else []
        for name in SOURCES:
            for task in _tasks_in(folder / name):
                tasks.setdefault(task.id, task)
    return Trained(list(tasks.values()), tuple(sorted(unrecorded)))


def _trained_elsewhere(path: Path) -> bool:
    """Whether it is a model whose training is not recorded: a served one, or a checkpoint that is (or was, before it
    went) no run of ours."""
    if str(path) in ("tiny", "explorer"):  # shipped: drawn pages, a script
        return False
    weights = (path / "config.json").exists() or not path.exists()
    return weights and not path.resolve().is_relative_to(PACKAGE)


def _found(folder: Path, made_from: Mapping[str, str]) -> tuple[Path | None, str]:
    """(where an input of the run `folder` lies, what is wrong with it; empty where nothing is).

    Records of a run that went on have grown: what they were made from is still among them.
    """
    path = Path(made_from["path"])
    if path.suffix == ".py":  # the scripted explorer and the served policy stand in code of ours
        return None, ""
    there = [p for p in (path, *_moved(folder, path)) if p.exists()]
    same = next((p for p in there if file_hash(p) == made_from["sha256"]), None)
    grown = next((p for p in there if made_from.get("run") and _identity(p) == made_from["run"]), None)
    at = same or grown
    if at is not None:
        records = at.is_dir() and any((at / name).exists() for name in SOURCES)
        return at, "has no run.json any more" if records and run_of(at) is None else ""
    if made_from.get("run") == NO_RUN:
        return path, ""  # weights that were no run: what they were trained on was never recorded
    changed = "is not what it was: its records or weights have changed since"
    return (path, changed) if path.exists() else (None, "is not there")


def _identity(path: Path) -> str:
    folder = run_of(path)
    return identity(folder) if folder else ""


def _moved(folder: Path, path: Path) -> list[Path]:
    """Where an input lies when its run was moved together with it: the end of its path below a folder above the run."""
    above = folder.resolve().parents[:LEVELS]
    return [up.joinpath(*path.parts[-depth:]) for up in above for depth in range(1, LEVELS + 2)]


def _world(task: Task) -> str:
    """Site and seed of pages that are served here; empty for tasks on the real web, where a site is no world."""
    return "" if task.start_url else f"{task.suite}/{task.site}/{task.seed}"


def _tasks_in(path: Path) -> Iterable[Task]:
    """Only the `task` of each line: the rest is not parsed. A torn last line is skipped."""
    if not path.exists():
        return
    last = ""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                raw = json.loads(line)["task"]
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise DataError(f"no record with a task: {error}", path, number) from error
            if raw["id"] != last:
                last = raw["id"]
                yield Task.model_validate(raw)
