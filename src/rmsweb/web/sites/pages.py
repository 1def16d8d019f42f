"""What a page of a built-in site is, before it has a look: lines of controls and texts, forms, a title.

Owns the vocabulary that the sites write in and both themes read. Promises that a page says everything a theme
needs; knows no theme, no site and no task. A line is one row of the compact grid (`Item.width` in its 32 px cells)
and one row, tile group, toolbar or form field of the regular theme, by its `kind`.
"""

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlencode

from rmsweb.web.compact import COLUMNS, Kind

LineKind = Literal["heading", "row", "tiles", "facts", "tools", "form", "notice"]
CONTENT_ROWS = 6
"""Rows that a page has beside the one for navigation."""


@dataclass(frozen=True, slots=True)
class Item:
    """One control or text. Its `label` is what stands on the page."""

    kind: Kind
    label: str
    width: int
    """Cells of the compact grid."""
    href: str = ""
    """A link's target: path and query within the site."""
    new_tab: bool = False
    form: str = ""
    """Id of the form that a button, input or select belongs to."""
    name: str = ""
    """Name under which an input or select is sent."""
    value: str = ""
    options: tuple[str, ...] = ()
    """What a select offers; the first shown entry is its own label with an empty value."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form that the page's controls point at by id."""

    id: str
    action: str
    method: Literal["get", "post"] = "post"
    hidden: tuple[tuple[str, str], ...] = ()
    confirm: str = ""
    """Question of a JavaScript `confirm()` that stands before the request; empty: none."""


@dataclass(frozen=True, slots=True)
class Line:
    kind: LineKind
    items: tuple[Item, ...]

    @property
    def width(self) -> int:
        """Cells that the line takes."""
        return sum(item.width for item in self.items)


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    nav: tuple[Item, ...]
    lines: tuple[Line, ...]
    forms: tuple[Form, ...] = ()
    status: int = 200
    slow: bool = False
    """The content comes by script, when a request of `SLOW_MS` has come back."""
    cookies: bool = False
    """A layer about cookies lies over the lower part until it is answered."""

    def __post_init__(self) -> None:
        rows = [Line("tools", self.nav), *self.lines]
        if len(self.lines) > CONTENT_ROWS or any(line.width > COLUMNS for line in rows):
            raise ValueError(f"page {self.title!r} does not fit the grid: {[line.width for line in rows]}")

    def items(self) -> tuple[Item, ...]:
        """Everything on the page, navigation first."""
        return (*self.nav, *(item for line in self.lines for item in line.items))

    def find_form(self, ident: str) -> Form:
        """The form with this id. Raises KeyError."""
        return {form.id: form for form in self.forms}[ident]


SLOW_MS, SLOW_PATH = 400, "/slow"
"""A slow page's content waits for a request that takes this long."""


@dataclass(slots=True)
class Builder:
    """Collects the lines and forms of one page in the order in which they are read."""

    title: str
    nav: tuple[Item, ...] = ()
    lines: list[Line] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)

    def line(self, kind: LineKind, *items: Item) -> None:
        if items:
            self.lines.append(Line(kind, items))

    def form(self, action: str, *, confirm: str = "", **hidden: str) -> str:
        """Adds a form that posts and returns its id."""
        return self._add(Form(f"form{len(self.forms)}", action, "post", tuple(hidden.items()), confirm))

    def search(self, action: str) -> str:
        """Adds a form that only asks for a page and returns its id."""
        return self._add(Form(f"form{len(self.forms)}", action, "get"))

    def _add(self, form: Form) -> str:
        self.forms.append(form)
        return form.id

    def button(self, label: str, width: int, action: str, *, confirm: str = "", **hidden: str) -> Item:
        """A button with a form of its own."""
        return Item("button", label, width, form=self.form(action, confirm=confirm, **hidden))

    def pager(self, path: str, query: dict[str, str], page: int, more: bool, *extra: Item) -> None:
        """`prev` and `next` where there is such a page, then `extra`."""
        items = []
        if page > 0:
            items.append(link("prev", 2, path, **{**query, "page": str(page - 1)}))
        if more:
            items.append(link("next", 2, path, **{**query, "page": str(page + 1)}))
        self.line("tools", *items, *extra)

    def done(self, *, status: int = 200, slow: bool = False, cookies: bool = False) -> Page:
        return Page(self.title, self.nav, tuple(self.lines), tuple(self.forms), status, slow, cookies)


def link(label: str, width: int, path: str, **query: str) -> Item:
    return Item("link", label, width, href=address(path, **query))


def text(label: str, width: int) -> Item:
    return Item("text", label, width)


def address(path: str, **query: str) -> str:
    """Path and query within a site; empty values are left out."""
    given = {key: value for key, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path
