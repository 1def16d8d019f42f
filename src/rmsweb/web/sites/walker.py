"""A visitor of the compact pages without a browser: what is at a point is found on the grid.

For fast tests of what sites do. Promises the pages, element names and boxes that the compact theme has in Chromium;
draws no picture, and takes the actions that the scripted solution uses (the others do nothing).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from rmsweb.actions import Action, Answer, LeftClick, Point, SelectOption, Terminate, Type, Wait
from rmsweb.records import Box, Element, Observation, Stop, Task, Verdict
from rmsweb.web.compact import CELL
from rmsweb.web.sites import checks, compact_theme
from rmsweb.web.sites.catalogue import world_for
from rmsweb.web.sites.pages import Item, Page, address
from rmsweb.web.sites.scripted import scripted_decision, site_path
from rmsweb.web.sites.world import State, World

HOST = "http://127.0.0.1/s/walker"


class Placed(NamedTuple):
    """An element as an observation has it, and the item behind it (None for what leads nowhere)."""

    element: Element
    item: Item | None


@dataclass
class Walker:
    """One episode: `observe`, `act`, and at the end `verdict`."""

    task: Task
    url: str = "/"
    state: State = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    waited: bool = False
    answer: str | None = None
    ended: bool = False
    stop: Stop = Stop.STEP_LIMIT

    def __post_init__(self) -> None:
        self.world: World = world_for(self.task)
        self.state = self.state or self.world.initial()

    @property
    def page(self) -> Page:
        """The page at the present address."""
        path, query = site_path(HOST + self.url)
        return self.world.view(path, query, self.state)

    def placed(self) -> list[Placed]:
        """What is shown, the cookie layer last."""
        page, look = self.page, self.world.look
        waiting = page.slow and not self.waited
        found = []
        for item, cell in compact_theme.place(page, look):
            if not waiting or item in page.nav:
                covered = page.cookies and cell.row >= compact_theme.LAYER_ROW
                value = self.typed.get(item.name, item.value)
                found.append(Placed(_element(item, cell.column, cell.row, value, covered), item))
        if waiting:
            found.append(Placed(_element(Item("text", "loading", 3), 0, 2), None))
        if page.cookies:
            for item, column in compact_theme.layer_buttons(look):
                found.append(Placed(_element(item, column, compact_theme.LAYER_ROW + 1), item))
        return found

    def observe(self) -> Observation:
        """The elements of the page; `image` names no picture."""
        return Observation(image="", url=HOST + self.url, elements=tuple(shown.element for shown in self.placed()))

    def act(self, action: Action) -> None:
        """Does what the action does in a browser."""
        match action:
            case Answer(text=said) | Terminate(text=said):
                self.answer, self.ended = said or None, True
                failed = isinstance(action, Terminate) and action.status == "failure"
                self.stop = Stop.GAVE_UP if failed else Stop.ANSWERED
            case Wait():
                self.waited = True
            case LeftClick(point=point) | Type(point=point) | SelectOption(point=point):
                item = self._at(point)
                if item is not None:
                    self._use(item, action)

    def _at(self, point: Point | None) -> Item | None:
        hits = [shown.item for shown in self.placed() if point is not None and shown.element.box.contains(point)]
        return hits[-1] if hits else None

    def _use(self, item: Item, action: LeftClick | Type | SelectOption) -> None:
        match action, item.kind:
            case LeftClick(), "link":
                self.go(item.href)
            case LeftClick(), "button":
                self._send(item.form)
            case Type(text=written, press_enter=enter), "input":
                self.typed[item.name] = written
                if enter:
                    self._send(item.form)
            case SelectOption(text=chosen), "select" if chosen in item.options:
                self.typed[item.name] = chosen

    def _send(self, ident: str) -> None:
        if ident.startswith("cookies-"):
            self.post("/cookies", choice=ident.removeprefix("cookies-"))
            return
        form = self.page.find_form(ident)
        data = dict(form.hidden)
        for item in self.page.items():
            if item.form == ident and item.name:
                data[item.name] = self.typed.get(item.name, item.value)
        if form.method == "get":
            self.go(address(form.action, **data))
        else:
            self.post(form.action, **data)

    def post(self, path: str, **data: str) -> None:
        """Sends a form and follows where it leads; nothing happens where there is no such form."""
        result = self.world.submit(path, data, self.state)
        if result is not None:
            self.state, location = result
            self.go(location)

    def go(self, url: str) -> None:
        """Opens an address within the site."""
        self.url, self.typed, self.waited = url, {}, False

    def solve(self) -> int:
        """Plays the scripted solution; returns its steps."""
        for step in range(1, self.task.max_steps + 1):
            action = scripted_decision(self.task, self.observe()).action
            if action is not None:
                self.act(action)
            if self.ended:
                return step
        return self.task.max_steps

    def verdict(self) -> Verdict:
        """What the checks say of the present state and answer."""
        return checks.check(self.world, self.answer, {"state": self.state, "stop": self.stop.value})


def _element(item: Item, column: int, row: int, value: str = "", covered: bool = False) -> Element:
    box = Box(x=column * CELL, y=row * CELL + 2, width=item.width * CELL - 2, height=28)
    return Element(role=item.kind, name=item.label, box=box, value=value, covered=covered)
