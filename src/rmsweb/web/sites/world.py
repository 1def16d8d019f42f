"""What the built-in sites have in common: a world drawn from a seed, its quest, its pages as pure functions of state.

Owns `World` and the small records around it. Promises that a world depends on (site, template, seed) alone and that
`view`, `submit` and `advise` change nothing but their results, so that replaying the same actions gives the same
pages. Knows neither HTTP nor looks; `judged` and `Quest` are what the checks read, `advise` is for tests and the
ceiling only and never supplies training data.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from rmsweb.web.compact import ACCENTS, BACKGROUNDS
from rmsweb.web.sites.pages import Builder, Item, Page, link, text

State = dict[str, Any]
"""JSON: everything that a visitor of a site can change."""
Query = Mapping[str, str]
PER_PAGE = 4
"""Rows of a listing before it goes on on a second page."""


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of task on one site."""

    name: str
    steps: int
    """Most steps of the scripted solution without cookie layer and slow page, the final answer included."""
    split: Literal["train", "heldout_template", "typed"] = "train"


@dataclass(frozen=True, slots=True)
class Quest:
    """A goal and what fulfils it."""

    goal: str
    answer: str | None = None
    among: tuple[str, ...] = ()
    """Words that an answer to such a question can be; empty: numbers."""
    effect: Mapping[str, Any] = field(default_factory=dict)
    """Entries of the judged state that have to differ from the initial one, with their values."""
    typed: Literal["", "blocked", "impossible"] = ""
    target: Mapping[str, str] = field(default_factory=dict)
    """What the goal is about; the scripted solution reads it."""


@dataclass(frozen=True, slots=True)
class Move:
    """What the scripted solution does next, by the label on the page."""

    verb: Literal["click", "type", "select", "answer", "wait", "give_up"]
    label: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What a seed decides about the looks; each theme reads its own part."""

    background: str
    accent: str
    nav_bottom: bool
    flip: bool
    """Compact: everything is mirrored on the grid."""
    indent: int
    """Compact: columns free on the side where lines start, where there is room."""
    drop: int
    """Compact: rows free above the content, where there is room."""
    palette: int
    side: Literal["top", "left", "right"]
    """Regular: where the navigation stands."""
    listing: Literal["table", "cards"]
    density: Literal["airy", "tight"]

    @classmethod
    def draw(cls, rng: random.Random) -> "Look":
        return cls(
            background=rng.choice(BACKGROUNDS),
            accent=rng.choice(ACCENTS),
            nav_bottom=rng.random() < 0.5,
            flip=rng.random() < 0.5,
            indent=rng.randrange(2),
            drop=rng.randrange(2),
            palette=rng.randrange(6),
            side=rng.choice(("top", "left", "right")),
            listing=rng.choice(("table", "cards")),
            density=rng.choice(("airy", "tight")),
        )


class World(ABC):
    """One site with the content of one seed."""

    site: ClassVar[str]
    templates: ClassVar[tuple[Template, ...]]
    slow_path: ClassVar[str]
    """The page whose content comes late in some worlds."""

    def __init__(self, template: str, seed: int) -> None:
        rng = random.Random(f"{self.site}.{template}/{seed}")
        self.template, self.seed = template, seed
        self.look = Look.draw(rng)
        self.asks_cookies = rng.random() < 0.25
        self.is_slow = rng.random() < 0.25
        self.build(rng)
        self.quest = self.draw_quest(template, rng)

    @abstractmethod
    def build(self, rng: random.Random) -> None:
        """Draws the content."""

    @abstractmethod
    def draw_quest(self, template: str, rng: random.Random) -> Quest:
        """Draws the task. Raises KeyError for a template that the site lacks."""

    @abstractmethod
    def content(self) -> State:
        """What a visitor can change, before anything was."""

    @abstractmethod
    def nav(self, page: Builder) -> tuple[Item, ...]:
        """The navigation row; may add a search form to the page."""

    @abstractmethod
    def fill(self, page: Builder, path: str, query: Query, state: State) -> bool:
        """Writes the lines of the page at `path`; False when there is no such page."""

    @abstractmethod
    def write(self, path: str, form: Query, state: State) -> str | None:
        """Carries out a POST on `state` and says where to go on; None when there is no such form."""

    @abstractmethod
    def advise(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        """The scripted solution's next move on a page that shows `labels`."""

    def initial(self) -> State:
        """The state that an episode starts with."""
        return {"cookies": None, **deepcopy(self.content())}

    def judged(self, state: State) -> State:
        """The part of the state that checks compare, in an order that does not depend on the way there."""
        return {
            key: sorted(value) if isinstance(value, list) else value for key, value in state.items() if key != "cookies"
        }

    def goal_state(self) -> State:
        """The judged state that fulfils the quest."""
        return {**self.judged(self.initial()), **deepcopy(dict(self.quest.effect))}

    def view(self, path: str, query: Query, state: State) -> Page:
        """The page at `path`. A blocked world shows a robot check everywhere but on its first page."""
        page = Builder(self.site)
        page.nav = self.nav(page)
        if self.quest.typed == "blocked" and path != "/":
            page.title = "robot check"
            page.line("heading", text("robot check", 4))
            page.line("notice", text("blocked", 3))
            return page.done(status=403)
        if not self.fill(page, path, query, state):
            page.title = "missing"
            page.line("heading", text("missing", 3))
            return page.done(status=404)
        asks = self.asks_cookies and path == "/" and state["cookies"] is None
        return page.done(slow=self.is_slow and path == self.slow_path, cookies=asks)

    def submit(self, path: str, form: Query, state: State) -> tuple[State, str] | None:
        """A POST: the state after it and the path to go on at; None when the site has no such form."""
        after = deepcopy(state)
        if path == "/cookies":
            after["cookies"] = "accept" if form.get("choice") == "accept" else "reject"
            return after, "/"
        if self.quest.typed == "blocked":
            return after, path
        location = self.write(path, form, after)
        return None if location is None else (after, location)

    def move(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        """The scripted solution: what every site needs first, then the site's own advice."""
        if "loading" in labels:
            return Move("wait")
        if "accept" in labels:
            return Move("click", "accept")
        if "robot check" in labels:
            return Move("give_up")
        return self.advise(path, query, labels)


def page_number(query: Query) -> int:
    """The zero-based page of a listing; nonsense is the first."""
    given = query.get("page", "0")
    return int(given) if given.isdecimal() and len(given) < 3 else 0


def home(label: str = "home") -> Item:
    return link(label, 2, "/")
