"""The compact theme: what every page looks like at 320x224, for the tiny model.

One grid of 10 x 7 cells of 32 px. An element starts at a cell's left edge, is 28 px high (2 px free above and
below) and its label is written in one bold 14 px face. The built-in sites and the synthetic pages of pretraining
both render through `page_html`, so that the two cannot drift apart. It knows no site and no task.
"""

from html import escape
from pathlib import Path
from typing import Literal, NamedTuple

WIDTH, HEIGHT, CELL = 320, 224, 32
COLUMNS, ROWS = WIDTH // CELL, HEIGHT // CELL
BACKGROUNDS = ("#ffffff", "#f4f7ff", "#fff8ec")
ACCENTS = ("#223344", "#117744", "#552288", "#774411")
CSS = (Path(__file__).parent / "compact.css").read_text()

Kind = Literal["link", "button", "text", "input", "select"]


class Cell(NamedTuple):
    """One element on the grid. `width` in cells; `html` replaces the plain element where a site needs a real one."""

    kind: Kind
    label: str
    column: int
    row: int
    width: int
    html: str = ""

    def style(self) -> str:
        """Position in CSS pixels; a site's own element must carry class `cell <kind>` and this style."""
        left, top = self.column * CELL, self.row * CELL + 2
        return f"left:{left}px;top:{top}px;width:{self.width * CELL - 2}px"


def element_html(cell: Cell) -> str:
    """The element of a cell that leads nowhere (synthetic pages); a site passes its own in `cell.html`."""
    if cell.html:
        return cell.html
    label, attributes = escape(cell.label), f'class="cell {cell.kind}" style="{cell.style()}"'
    match cell.kind:
        case "link":
            return f'<a href="#" {attributes}>{label}</a>'
        case "button":
            return f"<button {attributes}>{label}</button>"
        case "text":
            return f"<span {attributes}>{label}</span>"
        case "input":
            return f'<input {attributes} placeholder="{label}" aria-label="{label}" autocomplete="off">'
        case "select":
            return f"<select {attributes}><option>{label}</option></select>"


def page_html(cells: list[Cell], background: str, accent: str, title: str = "", extra: str = "") -> str:
    """A whole document; `extra` is trusted markup put after the cells (a cookie layer, a script)."""
    body = "".join(element_html(cell) for cell in cells)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{CSS}</style></head>"
        f'<body style="--background:{background};--accent:{accent}">{body}{extra}</body></html>'
    )
