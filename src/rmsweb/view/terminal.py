"""The list of trajectories as a table in the terminal (rich)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmsweb.bench.wording import NONE
from rmsweb.view.index import Row, headline

if TYPE_CHECKING:
    from rich.table import Table

MARKS = {"solved": "[blue]✓[/]", "not solved": "[red]✕[/]", "no verdict": "?"}


def listing(rows: Sequence[Row], most: int | None = None) -> "Table":
    """One line a trajectory; of more than `most` only the last so many, controls left out."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    title = headline(rows)
    told = [row for row in rows if not row.control] or rows
    shown = rows if most is None or len(rows) <= most else told[-most:]
    if len(shown) < len(rows):
        title[0] += f" (the last {len(shown)}" + (", without controls)" if len(told) < len(rows) else ")")
    table = Table(
        title=escape("\n".join(map(_printable, title))),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("")
    table.add_column("goal", ratio=1, no_wrap=True, overflow="ellipsis")
    for heading in ("template", "arm"):
        table.add_column(heading, no_wrap=True)
    for heading in ("attempt", "steps"):
        table.add_column(heading, justify="right")
    table.add_column("outcome", no_wrap=True)
    for row in shown:
        said = [_printable(text) for text in (row.goal, row.template, row.arm)]
        cells = [escape(text) for text in said]
        steps = NONE if row.steps is None else str(row.steps)
        table.add_row(MARKS[row.verdict], *cells, str(row.attempt), steps, row.outcome)
    return table


def _printable(text: str) -> str:
    """Page-derived text without control characters: it must not drive the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
