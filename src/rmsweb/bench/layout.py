"""What a report is made of: sections of charts, tables and sentences. Plain values between the parts and the template.

Owns the reading of a stage's folder for the report; everything that is not there is simply absent.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rmsweb.bench.examples import Example
from rmsweb.bench.metrics import Result
from rmsweb.bench.modes import Judged
from rmsweb.bench.scores import read_judged, results_of
from rmsweb.store import Run


@dataclass(slots=True, frozen=True)
class Cell:
    """One cell of a table; `shade` (0..1) tints it."""

    text: str
    shade: float | None = None


Row = Sequence[Cell | str]


@dataclass(slots=True, frozen=True)
class Table:
    """The first column is text, the others are numbers unless `words` names them."""

    head: Sequence[str]
    rows: Sequence[Row]
    title: str = ""
    words: frozenset[int] = frozenset()
    notes: Sequence[str] = ()
    """Sentences right under it."""


@dataclass(slots=True, frozen=True)
class Chart:
    title: str
    svg: str
    caption: str = ""


@dataclass(slots=True)
class Section:
    """One part of the page. `lead` are its first sentences: what was found, null results in plain words."""

    id: str
    title: str
    lead: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (self.lead or self.charts or self.tables or self.examples)


class Stage:
    """A run directory as the report reads it."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, Path(path)
        self.run = Run.read_only(self.path)
        self.manifest: Mapping[str, Any] = self.run.manifest

    @property
    def verb(self) -> str:
        return str(self.manifest["verb"])

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The stage's own summary.json, or nothing."""
        path = self.path / "summary.json"
        value = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return value if isinstance(value, dict) else {}

    @cached_property
    def judged(self) -> list[Judged]:
        """Its trajectories with their verdicts."""
        return read_judged(self.run)

    @property
    def with_end(self) -> bool:
        """Whether the final answer or terminate counts as a step (`eval.steps_with_end`)."""
        return bool(self.manifest["config"].get("eval", {}).get("steps_with_end", True))

    @cached_property
    def results(self) -> list[Result]:
        """Their rows."""
        return results_of(self.judged, with_end=self.with_end) if self.judged else []


def stages_in(given: Mapping[str, Path]) -> list[Stage]:
    """The runs named, and those in the folders named (one level down) under the names of their folders, each once, in
    the order in which they began. Runs of one name get that of the folder above in front.

    Raises RunError for a path that is neither.
    """
    found: dict[Path, Stage] = {}
    for name, path in given.items():
        path = Path(path)
        children = [p for p in sorted(path.glob("*/")) if (p / "run.json").exists()]
        if (path / "run.json").exists() or not children:
            found.setdefault(path.resolve(), Stage(name, path))
        for child in children:
            found.setdefault(child.resolve(), Stage(child.name, child))
    taken = Counter(stage.name for stage in found.values())
    for path, stage in found.items():
        if taken[stage.name] > 1 and stage.name == path.name:
            stage.name = f"{path.parent.name}/{path.name}"
    return sorted(found.values(), key=lambda stage: str(stage.manifest.get("started", "")))
