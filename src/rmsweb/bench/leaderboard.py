"""Published figures with their protocol, grouped so that nobody compares unlike things. Data in leaderboard.toml.

Promises that every figure names its source and whether that was read or is second-hand, that figures under one heading
share benchmark, version, protocol, judge, step limit and denominator as far as those are stated, that a heading of
which one is not stated says that not even its figures may be compared, and that a source which states no protocol gets
a heading of its own. It judges nothing and repeats no text.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field, ValidationError

from rmsweb.errors import DataError
from rmsweb.records import Record

if TYPE_CHECKING:
    from rich.console import Console

FILE = "leaderboard.toml"
TAGS = {"R": "source read", "S": "SECOND-HAND", "M": "recounted"}
UNSTATED = "not stated"


_DRAWS = re.compile(r"pass@(?!1\b)\d+")
"""Best of several runs is another measure than one run."""


class Heading(NamedTuple):
    """What figures must share to stand together."""

    benchmark: str
    version: str
    protocol: str
    judge: str
    step_cap: str
    denominator: str

    @property
    def said(self) -> str:
        """Everything but benchmark and version, in one line."""
        names = {"judged by": self.protocol, "judge model": self.judge, "step limit": self.step_cap}
        parts = [f"{name} {value}" for name, value in names.items()]
        return "; ".join([*parts, f"denominator: {self.denominator}"])

    @property
    def warning(self) -> str:
        """That not even figures under this heading may be compared, and why; empty where everything is stated."""
        names = ("benchmark", "version", "protocol", "judge model", "step limit", "denominator")
        missing = [name for name, value in zip(names, self, strict=True) if UNSTATED in value]
        if not missing:
            return ""
        return f"Not even the figures under this heading may be compared: {', '.join(missing)} {UNSTATED}."


class Row(Record):
    """One published figure."""

    benchmark: str
    model: str
    value: float | None
    """Percent; None where only `said` is known."""
    said: str = ""
    """What is stated instead of a figure."""
    protocol: str = ""
    judge: str = ""
    version: str = ""
    step_cap: str = ""
    denominator: str = ""
    tag: Literal["R", "S", "M"]
    source: str
    note: str = ""
    """What is special about this row."""
    about: str = ""
    """What is special about its whole source."""

    @property
    def heading(self) -> Heading:
        """Rows with the same one may stand together."""
        protocol = self.protocol or f"{UNSTATED} ({self.source})"
        draws = _DRAWS.search(self.model)
        counted = "; ".join(part for part in (self.denominator or UNSTATED, draws[0] if draws else "") if part)
        version, judge = self.version or f"version {UNSTATED}", self.judge or UNSTATED
        return Heading(self.benchmark, version, protocol, judge, self.step_cap or UNSTATED, counted)


class _Table(Record):
    benchmark: str
    version: str = ""
    protocol: str = ""
    judge: str = ""
    denominator: str = ""
    step_cap: str = ""
    tag: Literal["R", "S", "M"]
    source: str = Field(min_length=1)
    note: str = ""
    values: dict[str, float | str | tuple[float, str]]


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """Every figure, in the order of the file. Raises DataError when the file was changed into something else."""
    text = (resources.files("rmsweb.bench") / FILE).read_text(encoding="utf-8")
    return tuple(row for table in read(text) for row in _rows(table))


def read(text: str) -> list[_Table]:
    """The tables of the file. Raises DataError."""
    try:
        return [_Table.model_validate(one) for one in tomllib.loads(text).get("table", [])]
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"is not TOML: {error}", FILE) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", FILE) from error


def _rows(table: _Table) -> list[Row]:
    shared = table.model_dump(exclude={"values", "note"})
    found = []
    for model, value in table.values.items():
        own = value[1] if isinstance(value, tuple) else ""
        figure = value[0] if isinstance(value, tuple) else value
        said = figure if isinstance(figure, str) else ""
        number = None if isinstance(figure, str) else figure
        found.append(Row(model=model, value=number, said=said, note=own, about=table.note, **shared))
    return found


def grouped(given: Sequence[Row] | None = None) -> dict[Heading, list[Row]]:
    """heading -> its rows, best first; headings of one benchmark stand together."""
    found: dict[Heading, list[Row]] = {}
    for row in rows() if given is None else given:
        found.setdefault(row.heading, []).append(row)
    order = list(dict.fromkeys(heading.benchmark for heading in found))
    return {
        heading: sorted(found[heading], key=lambda row: -(row.value or 0.0))
        for heading in sorted(found, key=lambda heading: order.index(heading.benchmark))
    }


def table(console: "Console | None" = None) -> None:
    """Print all figures, one table a heading."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()

    def say(line: str, style: str = "") -> None:
        console.print(Text(line, style=style))

    say(
        "Published figures, in percent. Only figures under one heading may be compared, and only where the heading "
        "states everything; there too the notes count."
    )
    for heading, here in grouped().items():
        say(f"\n{heading.benchmark}, {heading.version}", "bold")
        say(heading.said)
        if heading.warning:
            say(heading.warning, "red")
        for source, tag in dict.fromkeys((row.source, row.tag) for row in here):
            say(f"source: {source} [{TAGS[tag]}]", "yellow" if tag == "S" else "")
        for about in dict.fromkeys(row.about for row in here if row.about):
            say(about)
        printed = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        printed.add_column("model")
        printed.add_column("percent", justify="right", no_wrap=True)
        printed.add_column("known how", no_wrap=True)
        printed.add_column("note")
        for row in here:
            style = "yellow" if row.tag == "S" else ""
            printed.add_row(row.model, figure(row), Text(TAGS[row.tag], style=style), row.note)
        console.print(printed)
    say(
        "\nNumbers of rmsweb stand beside these only under the same task version, protocol, judge model, step limit "
        "and denominator; see docs/exams.md."
    )


def figure(row: Row) -> str:
    """`73.5`, or what is stated instead."""
    return row.said if row.value is None else f"{row.value:.2f}".removesuffix("0")
