"""Synthetic tasks on random pages: a goal in random words, the right next reply, and what each cell is to the goal.

Owns the wording and the rule `decide` that stands for "find the words of the goal on the page": read what is asked for,
fill in what is named, click what carries the goal's words, else go by a value, else search, else move on. Goals are
random mixes of goal words round the target's words; no sentence of a built-in site is among them, so what a site's goal
*means* is left for supervised training.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import rmsweb.web.lexicon as lexicon
from rmsweb.actions import PROFILES, Point, Viewport, from_pixels
from rmsweb.train.canvas import CONFIRMED, FALLBACKS, FIELDS, NAVIGATION, SUBMITS, THING_WORDS, Item, Page
from rmsweb.train.tokenizer import END, OPENERS
from rmsweb.web.compact import CELL, HEIGHT, WIDTH, Cell

ASKING = {  # kind -> words
    "any": ("what", "answer", "tell", "question"),
    "person": ("who",),
    "price": ("cost", "price"),
    "number": ("many", "long", "time"),
}
"""Words that ask for a value, by the kind of value they ask for."""
_ASK_WORDS = frozenset(word for words in ASKING.values() for word in words)
FILLERS = tuple(word for word in lexicon.GOAL_WORDS if word not in _ASK_WORDS)
_JOINS = ("in", "to", "for", "on")


@dataclass(slots=True)
class Goal:
    """What a synthetic task wants, as data beside its words."""

    target: str = ""
    """The label that is wanted."""
    asks: str = ""
    """Kind of value that is asked for: a key of ASKING, or empty."""
    entries: tuple[tuple[str, str], ...] = ()
    """(field, what to fill in)."""
    literal: str = ""
    """An action asked for by its own name: scroll, key, stop, wait."""
    words: tuple[str, ...] = ()

    def covers(self, key: tuple[str, ...]) -> bool:
        return bool(key) and set(key) <= set(self.words)


class Move(NamedTuple):
    """The right reply: naming line and call, and the element that it is about (-1: none)."""

    intent: str
    call: str
    element: int = -1
    kind: str = "click"

    def text(self) -> str:
        return f"Action: {self.intent}{self.call}"


class Sample(NamedTuple):
    """One pretraining example."""

    page: Page
    goal: Goal
    done: tuple[str, ...]
    """Own last actions, oldest first, as the prompt shows them."""
    move: Move

    def prompt(self) -> str:
        return f"Task: {' '.join(self.goal.words)}\nDone: {'; '.join(self.done)}"


def place_text(cell: Cell) -> str:
    """The call's coordinates for the middle of the label's first cell."""
    left, top = cell.column * CELL, cell.row * CELL + 2
    point = Point(x=left + min((cell.width * CELL - 2) // 2, 16), y=top + 14)
    x, y = from_pixels(point, Viewport(WIDTH, HEIGHT), 1000, PROFILES["compact"].step)
    return f"[{x}, {y}]"


def click(items: tuple[Item, ...], index: int, kind: str = "click") -> Move:
    item = items[index]
    return Move(item.label, OPENERS["left_click"] + place_text(item.drawn.cell) + END, index, kind)


def fill_in(items: tuple[Item, ...], index: int, text: str, enter: bool, kind: str) -> Move:
    """Types into an input, or chooses in a select."""
    item = items[index]
    tail = '", "press_enter": true' + END if enter else '"' + END
    opener = OPENERS["select_option" if item.kind == "select" else "type"]
    return Move(field_name(items, index), f'{opener}{place_text(item.drawn.cell)}, "text": "{text}{tail}', index, kind)


def field_name(items: tuple[Item, ...], index: int) -> str:
    """A field is called by the text beside it, else by what it shows."""
    item = items[index]
    return items[item.partner].label if item.partner >= 0 else item.label


def answer(text: str, about: str, index: int, kind: str) -> Move:
    return Move(about, OPENERS["answer"] + text + '"' + END, index, kind)


def suits(asks: str, value: str) -> bool:
    """Whether a value is of the kind that is asked for."""
    match asks:
        case "person":
            return value.replace("by ", "") in lexicon.PEOPLE
        case "price":
            return value.startswith("$")
        case "number":
            return value.isdigit()
        case _:
            return bool(value)


def decide(page: Page, goal: Goal, done: tuple[str, ...]) -> Move:
    """The right reply on this page. Total: every page and goal has one."""
    items = page.items
    clicked = {entry.split(" ", 1)[1].removesuffix(" *") for entry in done if entry.startswith("click ")}
    for rule in (_page_state, _literal, _reading, _filling, _wanted, _moving_on):
        if (move := rule(items, goal, clicked)) is not None:
            return move
    label = next((item.label for item in items if item.label in ("no results", "empty")), "stop")
    return Move(label, OPENERS["terminate"] + 'failure"' + END, -1, "terminate")


def _page_state(items: tuple[Item, ...], goal: Goal, clicked: set[str]) -> Move | None:
    for index, item in enumerate(items):
        if item.kind == "text" and item.label == "loading":
            return Move("loading", OPENERS["wait"] + "1" + END, index, "wait")
        if item.kind == "text" and item.label in ("blocked", "robot check"):
            return Move(item.label, OPENERS["terminate"] + 'failure"' + END, index, "terminate")
        if item.kind == "text" and item.label == "cookies":
            layer = [i for i, other in enumerate(items) if other.label in ("accept", "reject")]
            return click(items, layer[0], "cookies") if layer else None
    return None


def _literal(items: tuple[Item, ...], goal: Goal, clicked: set[str]) -> Move | None:
    match goal.literal:
        case "scroll":
            down = "more" in goal.words
            return Move("scroll", OPENERS["scroll"] + ("-200" if down else "200") + END, -1, "literal")
        case "key":
            return Move("key", OPENERS["key"] + 'Enter"]' + END, -1, "literal")
        case "stop":
            return Move("stop", OPENERS["go_back"] + END, -1, "literal")
        case "wait":
            return Move("wait", OPENERS["wait"] + "1" + END, -1, "literal")
    return None


def _reading(items: tuple[Item, ...], goal: Goal, clicked: set[str]) -> Move | None:
    if not goal.asks:
        for index, item in enumerate(items):
            first, _, rest = item.label.partition(" ")
            if item.kind == "text" and first in CONFIRMED and goal.covers(tuple(rest.split()) or (first,)):
                return answer("done", "done", index, "done")
        return None
    found = [i for i, item in enumerate(items) if item.value and goal.covers(item.key) and suits(goal.asks, item.value)]
    if not found:
        return None
    index = max(found, key=lambda i: (len(items[i].key), -i))
    item = items[index]
    about = item.label if item.partner >= 0 else " ".join(item.key)
    return answer(item.value.removeprefix("by "), about, index, "read")


def _filling(items: tuple[Item, ...], goal: Goal, clicked: set[str]) -> Move | None:
    seen = False
    for name, text in goal.entries:
        for index, item in enumerate(items):
            if item.kind not in ("input", "select") or field_name(items, index) != name:
                continue
            seen = True
            shown = item.drawn.typed if item.kind == "input" else item.label
            if shown != text:
                return fill_in(items, index, text, False, "select" if item.kind == "select" else "type")
    if seen:
        for index, item in enumerate(items):
            if item.kind == "button" and item.label in SUBMITS:
                return click(items, index, "submit")
    return None


def _wanted(items: tuple[Item, ...], goal: Goal, clicked: set[str]) -> Move | None:
    pressable = [i for i, item in enumerate(items) if item.kind in ("link", "button") and goal.covers(item.key)]
    pressable = [i for i in pressable if items[i].label.removesuffix(" *") not in clicked]
    if pressable:
        best = min(pressable, key=lambda i: (-len(items[i].key), _first_mention(items[i], goal), items[i].place))
        return click(items, best, "click")
    for item in items:
        if item.kind == "text" and item.partner >= 0 and goal.covers(item.key):
            owner = items[item.partner]
            if owner.kind in ("link", "button") and owner.label not in clicked:
                return click(items, item.partner, "by value")
    return None


def _first_mention(item: Item, goal: Goal) -> int:
    return min(goal.words.index(word) for word in item.key)


def _moving_on(items: tuple[Item, ...], goal: Goal, clicked: set[str]) -> Move | None:
    if goal.target:
        for index, item in enumerate(items):
            if item.kind == "input" and item.label == "search" and item.drawn.typed != goal.target:
                return fill_in(items, index, goal.target, True, "search")
    for word in FALLBACKS:
        for index, item in enumerate(items):
            if item.kind == "link" and item.label == word and word not in clicked:
                return click(items, index, "fallback")
    return None


@dataclass(slots=True)
class Wording:
    """Puts a goal into words; `avoid` are words that would name something else on the page."""

    rng: random.Random
    avoid: set[str] = field(default_factory=set)
    plain: bool = False
    """Only the target's own words, as the curriculum starts."""

    def _fillers(self, most: int) -> list[str]:
        if self.plain:
            return []
        return [word for word in self.rng.choices(FILLERS, k=self.rng.randint(0, most)) if word not in self.avoid]

    def _strangers(self) -> list[str]:
        """Words of things that do not stand on the page."""
        if self.plain or self.rng.random() < 0.5:
            return []
        words = (*THING_WORDS, *lexicon.CONTROLS)
        return [word for word in self.rng.choices(words, k=self.rng.randint(1, 2)) if word not in self.avoid]

    def words(self, target: str, asks: str = "") -> tuple[str, ...]:
        """The target's words in order, round them fillers, strangers and the asking words."""
        rng = self.rng
        front, back = self._fillers(3), self._fillers(2)
        (front if rng.random() < 0.4 else back).extend(self._strangers())
        if asks:
            (front if rng.random() < 0.7 else back).append(rng.choice(ASKING[asks]))
            if rng.random() < 0.5:
                back.append("?")
        return (*front, *(word for word in target.split() if word != "*"), *back)

    def entries(self, entries: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
        """`field text` or `text in field`, one after the other."""
        rng, words = self.rng, self._fillers(2)
        for name, text in entries:
            if rng.random() < 0.5:
                words += [*name.split(), *text.split()]
            else:
                words += [*text.split(), rng.choice(_JOINS), *name.split()]
            words += self._fillers(1)
        return tuple(words)


def random_history(rng: random.Random) -> tuple[str, ...]:
    """Up to two earlier actions that have nothing to do with what is wanted."""
    entries = []
    for _ in range(rng.choice((0, 0, 1, 2, 2))):
        label = rng.choice((*NAVIGATION, *THING_WORDS, *FIELDS))
        entry = (
            f"click {label}"
            if rng.random() < 0.7
            else f"{rng.choice(('type', 'select'))} {label} {rng.choice(THING_WORDS)}"
        )
        if rng.random() < 0.08:
            entry = rng.choice(("wait loading", "scroll more", "click " + label, "key search"))
        entries.append(entry + (" *" if rng.random() < 0.15 else ""))
    return tuple(entries)
