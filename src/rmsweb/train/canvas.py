"""Random pages on the compact grid, written with the closed vocabulary: what the tiny base model learns to read.

Owns the pool of labels, the placing of elements and the truth about each (what names it, what can be read at it). No
page, goal or world of a built-in site stands here: words, order and places are random; only the elements' looks are the
theme's. Every page is a function of the random generator that is passed in.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import rmsweb.web.lexicon as lexicon
from rmsweb.train.draw import Drawn, Glyphs, Style
from rmsweb.web.compact import ACCENTS, BACKGROUNDS, COLUMNS, ROWS, Cell, Kind

NAVIGATION = ("home", "search", "next", "prev", "help", "cart", "sort", "filter", "contact", "more", "members", "rules")
FALLBACKS = ("next", "search", "home", "prev")
"""Links that lead on when what is wanted does not stand on the page, best first."""
SUBMITS = ("send", "post", "save", "confirm", "add", "reply", "go", "done", "continue")
FIELDS = (
    *("search", "comment", "contact", "guests", "order", "topic", "priority", "reply", "code", "coupon", "password"),
    *("account", "login", "filter", "post", "status", "details", "price"),
)
"""Words that name inputs and selects."""
NUMBERED = ("code", "wait", "stars", "likes", "replies", "seats", "on", "at", "guests", "bookings", "cases", "order")
"""`code 45`: a text that carries its own value."""
CONFIRMED = ("added", "booked", "sent", "posted", "cancelled", "moved", "liked", "closed", "joined", "following")
PAGE_WORDS = tuple(
    dict.fromkeys(word for group in (*lexicon.THINGS, lexicon.CONTROLS, lexicon.NOTES) for word in group)
)
THING_WORDS = tuple(dict.fromkeys(word for group in lexicon.THINGS for word in group))


def _mixed(count: int, length: int, seed: str) -> tuple[str, ...]:
    rng = random.Random(seed)
    words = [*PAGE_WORDS, *lexicon.NUMBERS[1:32]]
    return tuple(" ".join(rng.sample(words, length)) for _ in range(count))


PRODUCTS = tuple(f"{colour} {noun}" for colour in lexicon.COLORS for noun in lexicon.NOUNS)
STAYS = tuple(f"{city} {room}" for city in lexicon.CITIES for room in lexicon.ROOMS)
PAIRS = _mixed(1400, 2, "pairs")
TRIPLES = _mixed(500, 3, "triples")
MARKED = tuple(f"{word} *" for word in (*THING_WORDS, *NAVIGATION))
PRICES = tuple(f"${number}" for number in range(1, 100))


@cache
def label_pool() -> tuple[tuple[Style, str], ...]:
    """Every (style, label) that a synthetic page may show, about 8,700."""
    numbered = [f"{word} {n}" for word in NUMBERED for n in range(1, 100)]
    numbered += [f"price {price}" for price in PRICES]
    values = [*PRICES, *lexicon.NUMBERS, *(f"by {person}" for person in lexicon.PEOPLE)]
    confirmed = [f"{word} {what}" for word in CONFIRMED for what in (*PRODUCTS[::5], *THING_WORDS[::3])]
    plain = [*PAGE_WORDS, *PRODUCTS, *STAYS, *PAIRS, *TRIPLES, *MARKED, *values]
    texts = [*plain, *FIELDS, *numbered, *confirmed, "no results", "robot check", "no cookies"]
    buttons = [*PAGE_WORDS, *(label for label in PAIRS[:300]), *lexicon.NUMBERS[1:32]]
    pool: list[tuple[Style, str]] = [("text", label) for label in texts]
    pool += [("link", label) for label in plain]
    pool += [("button", label) for label in buttons]
    pool += [("hint", label) for label in (*PAGE_WORDS, *FIELDS, *PAIRS[:200])]
    return tuple(dict.fromkeys(pool))


@cache
def standard_glyphs(executable: str = "") -> Glyphs:
    """Masks of the whole pool from this machine's Chromium; taken once a process, about 10 s."""
    return Glyphs.render(label_pool(), executable)


@dataclass(slots=True)
class Item:
    """An element and the truth about it."""

    drawn: Drawn
    key: tuple[str, ...]
    """The words that name it, without marks and values."""
    value: str = ""
    """What can be read at it: its own number, or what stands beside it."""
    partner: int = -1
    """The element beside it, for a label its value and for a value its label; -1: none."""

    @property
    def label(self) -> str:
        return self.drawn.cell.label

    @property
    def kind(self) -> Kind:
        return self.drawn.cell.kind

    @property
    def place(self) -> int:
        """Index of its first cell in reading order, which is the index of its visual token."""
        return self.drawn.cell.row * COLUMNS + self.drawn.cell.column


class Page(NamedTuple):
    items: tuple[Item, ...]
    background: str
    accent: str

    def drawn(self) -> list[Drawn]:
        return [item.drawn for item in self.items]


def key_of(label: str) -> tuple[str, ...]:
    """Words that name an element: no mark; of `code 45` the word, of `by ann` the name."""
    words = tuple(word for word in label.split() if word != "*")
    if len(words) == 2 and words[0] == "by":
        return words[1:]
    if len(words) == 2 and words[0] in (*NUMBERED, "price") and (words[1].isdigit() or words[1][0] == "$"):
        return words[:1]
    return words


@dataclass(slots=True)
class Canvas:
    """A page that is being filled; places are taken once."""

    rng: random.Random
    glyphs: Glyphs
    items: list[Item] = field(default_factory=list)
    free: list[list[bool]] = field(default_factory=lambda: [[True] * COLUMNS for _ in range(ROWS)])
    labels: set[str] = field(default_factory=set)
    simple: bool = False
    """One-word labels only, as the curriculum starts."""

    def thing(self) -> str:
        """A label of something that can be wanted."""
        return self.rng.choice(PAGE_WORDS) if self.simple and self.rng.random() < 0.9 else thing(self.rng)

    def page(self) -> Page:
        return Page(tuple(self.items), self.rng.choice(BACKGROUNDS), self.rng.choice(ACCENTS))

    def span(self, kind: Kind, label: str, typed: str = "") -> int:
        """Cells that the element gets: what its label needs, sometimes one more; fields are longer."""
        style: Style = "hint" if kind == "input" else "text" if kind == "select" else kind
        needed = self.glyphs.cells(style, label)
        if kind in ("input", "select"):
            shown = self.glyphs.cells("text", typed) if typed and ("text", typed) in self.glyphs else 1
            return min(COLUMNS, max(needed, shown, self.rng.randint(2, 5)))
        return min(COLUMNS, needed + (self.rng.random() < 0.35))

    def room(self, row: int, column: int, width: int) -> bool:
        return column >= 0 and column + width <= COLUMNS and all(self.free[row][column : column + width])

    def put(self, kind: Kind, label: str, row: int, column: int, width: int, typed: str = "") -> int:
        """Adds the element at a place known to be free; returns its index."""
        self.free[row][column : column + width] = [False] * width
        self.labels.add(label)
        item = Item(Drawn(Cell(kind, label, column, row, width), typed), key_of(label))
        words = label.split()
        if kind == "text" and len(item.key) < len(words) and words[-1] != "*":
            item.value = words[-1]
        self.items.append(item)
        return len(self.items) - 1

    def add(self, kind: Kind, label: str, typed: str = "", row: int = -1, column: int = -1) -> int:
        """Adds the element somewhere (or in that row, at that column); -1: no room, or it stands there already."""
        if label in self.labels and kind != "text":
            return -1
        width = self.span(kind, label, typed)
        rows = [row] if row >= 0 else self.rng.sample(range(ROWS), ROWS)
        for candidate in rows:
            columns = [c for c in range(COLUMNS - width + 1) if self.room(candidate, c, width)]
            if column >= 0:
                columns = [column] if column in columns else []
            if columns:
                # left-aligned more often than not, as pages are
                at = columns[0] if self.rng.random() < 0.35 else self.rng.choice(columns)
                return self.put(kind, label, candidate, at, width, typed)
        return -1

    def add_row(self, kind: Kind, label: str, value: str, row: int = -1, column: int = -1) -> int:
        """A label with a value beside it (mostly to its right); index of the label or -1."""
        if label in self.labels or value in self.labels:
            return -1
        wide, narrow = self.span(kind, label), self.span("text", value)
        gap = self.rng.choice((0, 0, 0, 1, 2))
        total = wide + gap + narrow
        for candidate in [row] if row >= 0 else self.rng.sample(range(ROWS), ROWS):
            columns = [c for c in range(COLUMNS - total + 1) if self.room(candidate, c, total)]
            if column >= 0:
                columns = [column] if column in columns else []
            if not columns:
                continue
            at = self.rng.choice(columns)
            left, right = (at, at + wide + gap) if self.rng.random() < 0.88 else (at + narrow + gap, at)
            self.free[candidate][at : at + total] = [False] * total
            label_at = self.put(kind, label, candidate, left, wide)
            value_at = self.put("text", value, candidate, right, narrow)
            self.pair(label_at, value_at)
            return label_at
        return -1

    def pair(self, label_at: int, value_at: int) -> None:
        """Makes the second element the value of the first."""
        label, value = self.items[label_at], self.items[value_at]
        label.partner, value.partner = value_at, label_at
        label.value = value.value or value.label
        value.value = ""
        value.key = tuple(value.label.replace("by ", "").split())


def thing(rng: random.Random) -> str:
    """A label of something that can be wanted."""
    draw = rng.random()
    if draw < 0.27:
        return rng.choice(PRODUCTS)
    if draw < 0.35:
        return rng.choice(STAYS)
    if draw < 0.60:
        return rng.choice(THING_WORDS)
    if draw < 0.68:
        return rng.choice(PAGE_WORDS)
    if draw < 0.87:
        return rng.choice(PAIRS)
    if draw < 0.91:
        return rng.choice(TRIPLES)
    if draw < 0.97:
        return rng.choice(MARKED)
    return rng.choice(lexicon.NUMBERS[1:])


def reading(rng: random.Random) -> str:
    """A value that can stand beside a label."""
    draw = rng.random()
    if draw < 0.35:
        return rng.choice(PRICES)
    if draw < 0.50:
        return rng.choice(lexicon.NUMBERS[1:])
    if draw < 0.62:
        return "by " + rng.choice(lexicon.PEOPLE)
    if draw < 0.76:
        return rng.choice(lexicon.PEOPLE)
    if draw < 0.88:
        return f"{rng.choice(NUMBERED)} {rng.randint(1, 99)}"
    return rng.choice((*lexicon.STATES, *lexicon.PRIORITIES, *lexicon.ROOMS, *lexicon.CITIES))


def fill(canvas: Canvas, count: int) -> None:
    """Adds random elements until about `count` stand on the page: scattered, or as a list with aligned columns."""
    rng = canvas.rng
    listed = rng.random() < 0.45
    column = rng.choice((0, 0, 0, 1, 2)) if listed else -1
    for _ in range(3 * count):
        if len(canvas.items) >= count:
            return
        draw = rng.random()
        if draw < 0.45:
            kind: Kind = "link" if rng.random() < 0.8 else "text"
            canvas.add_row(kind, canvas.thing(), reading(rng), column=column)
        elif draw < 0.66:
            canvas.add("link", canvas.thing(), column=column)
        elif draw < 0.76:
            canvas.add("text", canvas.thing())
        elif draw < 0.82:
            canvas.add("text", f"{rng.choice(NUMBERED)} {rng.randint(1, 99)}")
        elif draw < 0.90:
            canvas.add("button", rng.choice(lexicon.CONTROLS))
        elif draw < 0.96:
            word = rng.choice(FIELDS)
            if word != "search":
                canvas.add("input", word, thing(rng) if rng.random() < 0.4 else "")
        else:
            canvas.add("select", rng.choice((*FIELDS, *lexicon.PRIORITIES, *lexicon.ROOMS, *lexicon.SUBJECTS)))


def navigation(canvas: Canvas, among: tuple[str, ...], count: int) -> None:
    """A row of links at the top or the bottom."""
    rng = canvas.rng
    row = rng.choice((0, ROWS - 1))
    for word in rng.sample(among, min(count, len(among))):
        canvas.add("link", word, row=row)
