"""The compact theme of the built-in sites: pages on the 10 x 7 grid of `rmsweb.web.compact`.

Promises that each element starts at a cell's left edge and fits the grid, that navigation takes one row and a value
stands in the row of its label. Draws through `compact.page_html`, so that looks come from one place.
"""

from rmsweb.web.compact import CELL, COLUMNS, ROWS, WIDTH, Cell, element_html, page_html
from rmsweb.web.sites import markup
from rmsweb.web.sites.pages import CONTENT_ROWS, Item, Line, Page
from rmsweb.web.sites.world import Look

LAYER_ROW = 4
"""First of the rows that the cookie layer covers; it reaches to the lower edge."""


def place(page: Page, look: Look) -> list[tuple[Item, Cell]]:
    """Every item with its place on the grid, in reading order of the document."""
    spare = CONTENT_ROWS - len(page.lines)
    first = (0 if look.nav_bottom else 1) + (look.drop if spare else 0)
    placed = _row(Line("tools", page.nav), ROWS - 1 if look.nav_bottom else 0, look.flip, 0)
    for index, line in enumerate(page.lines):
        placed += _row(line, first + index, look.flip, look.indent if line.width < COLUMNS else 0)
    return placed


def _row(line: Line, row: int, flip: bool, indent: int) -> list[tuple[Item, Cell]]:
    placed, column = [], indent
    for item in line.items:
        left = COLUMNS - column - item.width if flip else column
        placed.append((item, Cell(item.kind, item.label, left, row, item.width)))
        column += item.width
    return placed


def _html(item: Item, cell: Cell, prefix: str) -> str:
    if item.kind == "text":
        return element_html(cell)
    return markup.control(item, prefix, f'class="cell {cell.kind}" style="{cell.style()}"')


def layer_buttons(look: Look) -> list[tuple[Item, int]]:
    """The buttons of the cookie layer with their columns; they stand in the layer's second row."""
    items = [Item("button", choice, 3, form=f"cookies-{choice}") for choice in ("accept", "reject")]
    return list(zip(items, (4, 1) if look.flip else (3, 6), strict=True))


def _layer(look: Look, prefix: str) -> str:
    """The cookie layer: a word and two buttons, on the same grid."""
    content = element_html(Cell("text", "cookies", 7 if look.flip else 0, 0, 3))
    for item, column in layer_buttons(look):
        content += _html(item, Cell("button", item.label, column, 1, item.width), prefix)
    height = (ROWS - LAYER_ROW) * CELL
    style = f"top:{LAYER_ROW * CELL}px;height:{height}px;width:{WIDTH}px"
    return f'<div class="layer" style="{style}">{content}</div>{markup.cookie_forms(prefix)}'


def render(page: Page, look: Look, prefix: str) -> str:
    """The document of a page."""
    placed = place(page, look)
    cells = [cell._replace(html=_html(item, cell, prefix)) for item, cell in placed]
    extra = "".join(markup.form(item, prefix) for item in page.forms)
    if page.slow:
        cells, content = cells[: len(page.nav)], "".join(cell.html for cell in cells[len(page.nav) :])
        loading = Cell("text", "loading", 0, 2, 3)
        waiting = element_html(loading).replace("<span ", '<span id="loading" ', 1)
        cells.append(loading._replace(html=waiting))
        extra += markup.late(content)
    if page.cookies:
        extra += _layer(look, prefix)
    return page_html(cells, look.background, look.accent, page.title, extra)
