"""Runs many stages, two at a time: what the demo and the studies are made of.

Each stage is the same verb that a user can type, in a process of its own, so that a kill costs no more than the stage
at hand. The processes are forked from one that has imported torch, transformers and TRL (on Linux; elsewhere each
imports them itself): importing takes longer than many a small stage. A stage that is finished is only asked whether
that is so, without a process. Knows no stage by name.
"""

import json
import multiprocessing
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import IO

from rmsweb.errors import RmswebError
from rmsweb.progress import Progress, Silent
from rmsweb.store import Run, take

SLOTS = 2
MOST_LINES, LONGEST = 12, 300
"""Of a failed stage's log that is shown with the error: lines, and characters of a line."""
PRELOAD = (
    # Our own stages too: all of a run's processes then run the code of its start, whatever is edited meanwhile.
    *("rmsweb.cli", "rmsweb.stages", "rmsweb.reflect.collect", "rmsweb.reflect.samples", "rmsweb.train.sft"),
    *("rmsweb.mine.stage", "rmsweb.salvage.stage", "rmsweb.salvage.trainer", "rmsweb.bench.exam", "rmsweb.web.page"),
    *("rmsweb.train.local", "rmsweb.train.optimizer", "rmsweb.web.sites.suite", "playwright.async_api"),
    *("transformers.models.qwen3_vl.modeling_qwen3_vl", "transformers.models.qwen3_vl.processing_qwen3_vl"),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One stage of the demo: its folder name, its verb and arguments, and what has to be there before."""

    name: str
    verb: str
    sources: tuple[str, ...] = ()
    sets: Callable[[Path], tuple[str, ...]] = lambda out: ()
    after: tuple[str, ...] = ()

    def arguments(self, out: Path, sets: Sequence[str]) -> tuple[list[str], list[str]]:
        """Values of `--set` and of `--from`, once what it needs is there."""
        given = []
        for source in self.sources:
            name, equals, value = source.partition("=")
            value = value if equals else name
            given.append(f"{name}={value if value == 'tiny' else out / value}")
        return [*sets, *self.sets(out)], given


def finished(folder: Path) -> bool:
    """Whether a stage has said that it owes nothing more."""
    return all((folder / name).exists() for name in ("run.json", "summary.json")) and Run.read_only(folder).finished


def run_pieces(plan: Sequence[Piece], out: Path, recipe: Path, sets: Sequence[str], show: Progress) -> None:
    """Run the pieces, `SLOTS` at a time, each when what it needs is there; those that are finished are kept.

    Raises RmswebError when one fails or was finished with other settings or inputs, or when another process runs
    pieces in the same folder.
    """
    with take(out):
        _run_pieces(plan, out, recipe, sets, show)


def _run_pieces(plan: Sequence[Piece], out: Path, recipe: Path, sets: Sequence[str], show: Progress) -> None:
    if missing := {name for piece in plan for name in piece.after} - {piece.name for piece in plan}:
        raise ValueError(f"the plan waits for {', '.join(sorted(missing))}, which is not in it")
    waiting, done, running = list(plan), set[str](), dict[str, multiprocessing.process.BaseProcess]()
    lock = threading.Lock()
    readers: list[threading.Thread] = []
    logs: dict[str, _Log] = {}
    context: ForkServerContext | SpawnContext | None = None
    try:
        while waiting or running:
            ready = [p for p in waiting if set(p.after) <= done]
            for piece in [p for p in ready if finished(out / p.name) or _built_on(p, plan, out)]:
                waiting.remove(piece)
                if finished(out / piece.name):
                    _keep(piece, out, recipe, sets)
                show(piece.name, 1, 1, "finished before, kept")
                done.add(piece.name)
                _Log(out, piece.name).drop_if_empty()
            for piece in [p for p in ready if p in waiting][: SLOTS - len(running)]:
                waiting.remove(piece)
                context = context or _context()
                logs[piece.name] = _Log(out, piece.name)
                running[piece.name], lines = _start(context, piece, out, recipe, sets)
                reader = threading.Thread(target=_relay, args=(lines, piece.name, show, lock), daemon=True)
                reader.start()
                readers.append(reader)
            if running:
                connection.wait([child.sentinel for child in running.values()], timeout=1.0)
            for name, child in list(running.items()):
                if child.exitcode is not None:
                    del running[name]
                    if child.exitcode != 0:
                        raise RmswebError(f"stage {name} failed (exit {child.exitcode}){logs[name].said()}")
                    done.add(name)
                    logs[name].drop_if_empty()
    finally:
        for child in running.values():
            child.terminate()
        for child in running.values():
            child.join(timeout=30)
        for reader in readers:
            reader.join(timeout=5)


def _built_on(piece: Piece, plan: Sequence[Piece], out: Path) -> bool:
    """Whether a stage ended owing broken episodes and others were made from it: played again, it would be another."""
    ended = all((out / piece.name / name).exists() for name in ("run.json", "summary.json"))
    return ended and any((out / other.name / "run.json").exists() for other in plan if piece.name in other.after)


def _keep(piece: Piece, out: Path, recipe: Path, sets: Sequence[str]) -> None:
    """Ask a finished stage, here, whether it was made with these settings and inputs. Raises RunError if not."""
    from rmsweb import stages
    from rmsweb.config import load

    settings, given = piece.arguments(out, sets)
    stages.STAGES[piece.verb](load(recipe, settings), out / piece.name, stages.inputs(given), Silent())


class _Log:
    """Standard error of a stage, as a file beside its folder; earlier calls' lines stand before what is said now."""

    def __init__(self, out: Path, name: str) -> None:
        self.path = out / f"{name}.log"
        self.start = self.path.stat().st_size if self.path.exists() else 0

    def said(self) -> str:
        """Where it is, and how this call ended: the stage's own message, else its last lines."""
        text = self.path.read_bytes()[self.start :].decode(errors="replace") if self.path.exists() else ""
        lines = [line if len(line) <= LONGEST else line[:LONGEST] + " ..." for line in text.splitlines()]
        own = [i for i, line in enumerate(lines) if line.startswith("rmsweb: ")]
        lines = lines[own[-1] :][:MOST_LINES] if own else lines[-MOST_LINES:]
        return f"; see {self.path}" + (":" if lines else "") + "".join(f"\n  {line}" for line in lines)

    def drop_if_empty(self) -> None:
        if self.path.exists() and self.path.stat().st_size == 0:
            self.path.unlink()


def _context() -> ForkServerContext | SpawnContext:
    """Where new processes come from. The environment of a fork server is the one it was started in."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    from multiprocessing.forkserver import ensure_running

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOAD))
    with _environment(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false"):
        ensure_running()
    return context


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _start(
    context: ForkServerContext | SpawnContext, piece: Piece, out: Path, recipe: Path, sets: Sequence[str]
) -> tuple[multiprocessing.process.BaseProcess, IO[str]]:
    settings, given = piece.arguments(out, sets)
    command = [piece.verb, "-c", str(recipe), "-o", str(out / piece.name)]
    for flag, items in (("--set", settings), ("--from", given)):
        command += [part for item in items for part in (flag, item)]
    reading, writing = context.Pipe(duplex=False)
    child = context.Process(
        target=_child, args=(command, writing, out / f"{piece.name}.log", Path.cwd(), dict(os.environ)), name=piece.name
    )
    try:
        child.start()
    except (EOFError, ConnectionError) as error:  # click takes an EOFError for the user's own wish to stop
        raise RmswebError(
            f"stage {piece.name} could not be started: the process that starts the stages is gone ({error!r}; was it "
            "killed, or out of memory?); nothing is lost, the same command goes on"
        ) from None
    writing.close()
    lines = os.fdopen(os.dup(reading.fileno()), encoding="utf-8", errors="replace")
    reading.close()
    return child, lines


def _child(
    command: Sequence[str], out: connection.Connection, log: Path, folder: Path, environment: dict[str, str]
) -> None:
    """In the new process: standard output to the parent, standard error to the log, then the verb."""
    os.chdir(folder)
    os.environ.update(environment)
    os.environ.update(
        {"RMSWEB_PROGRESS": "json", "RMSWEB_PARENT": str(os.getppid()), "OMP_NUM_THREADS": "1"}
    )  # fmt: skip
    for target, source in ((1, out.fileno()), (2, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))):
        os.dup2(source, target)
    # The streams of the fork server were made for other files: one may think that it can seek in a pipe.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, encoding="utf-8", closefd=False) for number in (1, 2))
    sys.argv = ["rmsweb", *command]
    runpy.run_module("rmsweb", run_name="__main__", alter_sys=True)


def _relay(stream: "IO[str] | None", name: str, show: Progress, lock: threading.Lock) -> None:
    """Hand a child's progress lines to the parent's bars; the child's summary is read from its folder instead."""
    for line in stream or ():
        if not line.startswith('{"progress"'):
            continue
        item = json.loads(line)
        with lock:
            part = item["progress"]
            show(name if part == name else f"{name}: {part}", item["done"], item["total"], item["remark"])
