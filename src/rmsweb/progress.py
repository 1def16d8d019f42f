"""Progress of long work: bars in a terminal, plain lines elsewhere, JSON lines for a parent process, or nothing.

A stage gets a `Progress` and calls it; it never knows who looks. The form is chosen once by the command line
(`--quiet`) or by RMSWEB_PROGRESS (bars, lines, json, none).
"""

import json
import os
import sys
import time
from types import TracebackType
from typing import IO, Any, Protocol


class Progress(Protocol):
    """Told about one piece of work at a time: `name`, how much is done of how much, and a short remark."""

    def __call__(self, name: str, done: int, total: int, remark: str = "") -> None: ...

    def __enter__(self) -> "Progress": ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Silent:
    """Says nothing."""

    def __call__(self, name: str, done: int, total: int, remark: str = "") -> None:
        return None

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Lines(Silent):
    """A line when a piece starts, at most one every ten seconds, and one when it ends."""

    def __init__(self, stream: IO[str] | None = None, every_s: float = 10.0) -> None:
        self.stream, self.every_s = stream or sys.stderr, every_s
        self._last: dict[str, float] = {}

    def __call__(self, name: str, done: int, total: int, remark: str = "") -> None:
        now = time.monotonic()
        if name in self._last and now - self._last[name] < self.every_s and done < total:
            return
        if done >= total and self._last.get(name) == float("inf"):
            return
        self._last[name] = float("inf") if done >= total else now
        self.stream.write(f"{name}: {done}/{total}{'  ' + remark if remark else ''}\n")
        self.stream.flush()


class JsonLines(Silent):
    """One JSON object a line, for a process that draws the bars itself."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stdout

    def __call__(self, name: str, done: int, total: int, remark: str = "") -> None:
        self.stream.write(json.dumps({"progress": name, "done": done, "total": total, "remark": remark}) + "\n")
        self.stream.flush()


class Bars:
    """Bars of rich, one for each piece of work."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Rich

        columns: list[Any] = [
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[remark]}"),
        ]
        self._rich = Rich(*columns, console=Console(stderr=True))
        self._tasks: dict[str, Any] = {}

    def __call__(self, name: str, done: int, total: int, remark: str = "") -> None:
        if name not in self._tasks:
            self._tasks[name] = self._rich.add_task(name, total=total, remark=remark)
        self._rich.update(self._tasks[name], completed=done, total=total, remark=remark)

    def __enter__(self) -> "Bars":
        self._rich.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rich.stop()


def progress(quiet: bool = False) -> Progress:
    """The form that fits: none when quiet, what RMSWEB_PROGRESS names, bars in a terminal, else lines."""
    form = os.environ.get("RMSWEB_PROGRESS", "")
    if quiet or form == "none":
        return Silent()
    if form == "json":
        return JsonLines()
    if form == "bars" or (not form and sys.stderr.isatty()):
        return Bars()
    return Lines()
