"""Runs many stages, two at a time: what the demo and the studies are made of.

Each stage is the same verb that a user can type, in a process of its own, so that a kill costs no more than the stage
at hand. The processes are forked from one that has imported torch, transformers and TRL (on Linux; elsewhere each
imports them itself): importing takes longer than many a small stage. Knows no stage by name.
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
from rmsweb.progress import Progress

SLOTS = 2
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


def run_pieces(plan: Sequence[Piece], out: Path, recipe: Path, sets: Sequence[str], show: Progress) -> None:
    """Run the pieces, `SLOTS` at a time, each when what it needs is there. Raises RmswebError when one fails."""
    if missing := {name for piece in plan for name in piece.after} - {piece.name for piece in plan}:
        raise ValueError(f"the plan waits for {', '.join(sorted(missing))}, which is not in it")
    waiting, done, running = list(plan), set[str](), dict[str, multiprocessing.process.BaseProcess]()
    lock = threading.Lock()
    readers: list[threading.Thread] = []
    context = _context()
    try:
        while waiting or running:
            for piece in [p for p in waiting if set(p.after) <= done][: SLOTS - len(running)]:
                waiting.remove(piece)
                running[piece.name], lines = _start(context, piece, out, recipe, sets)
                reader = threading.Thread(target=_relay, args=(lines, piece.name, show, lock), daemon=True)
                reader.start()
                readers.append(reader)
            connection.wait([child.sentinel for child in running.values()], timeout=1.0)
            for name, child in list(running.items()):
                if child.exitcode is not None:
                    del running[name]
                    if child.exitcode != 0:
                        raise RmswebError(f"stage {name} failed (exit {child.exitcode}); see {out / name}.log")
                    done.add(name)
    finally:
        for child in running.values():
            child.terminate()
        for child in running.values():
            child.join(timeout=30)
        for reader in readers:
            reader.join(timeout=5)


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
    command = [piece.verb, "-c", str(recipe), "-o", str(out / piece.name)]
    for item in (*sets, *piece.sets(out)):
        command += ["--set", item]
    for source in piece.sources:
        name, equals, value = source.partition("=")
        value = value if equals else name
        where = value if value == "tiny" else str(out / value)
        command += ["--from", f"{name}={where}"]
    reading, writing = context.Pipe(duplex=False)
    child = context.Process(
        target=_child, args=(command, writing, out / f"{piece.name}.log", Path.cwd(), dict(os.environ)), name=piece.name
    )
    child.start()
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
