"""The sites' own solution: knows each world and does the task by the shortest way, with real coordinates.

For tests and for the ceiling in reports only: what it does is never training data and never a reference.
Needs the element list in the observation; a policy under test does not.
"""

from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

from rmsweb.actions import Action, Answer, LeftClick, Point, SelectOption, Terminate, Type, Wait
from rmsweb.records import Decision, Element, Observation, Reflection, Step, Task
from rmsweb.web.sites.catalogue import world_for
from rmsweb.web.sites.world import Move

ROLES = {"click": ("link", "button"), "type": ("input",), "select": ("select",)}
WAIT_S = 0.6
FIRST_CELL = 16
"""A click goes to the middle of the label's first cell of the compact grid, or of a narrower element."""


class Scripted:
    """A policy: `decide` gives the one right decision at the page that is shown, whatever led there."""

    name = "scripted"

    async def decide(
        self,
        task: Task,
        history: Sequence[Step],
        now: Observation,
        *,
        reflections: Sequence[Reflection] = (),
        n: int = 1,
        seed: int = 0,
    ) -> list[Decision]:
        """`n` equal decisions. Raises ValueError when the element it wants is not in the observation."""
        return [scripted_decision(task, now)] * n


def site_path(url: str) -> tuple[str, dict[str, str]]:
    """Path and query within an episode's site: what names a page whatever the episode and the port."""
    parts = urlsplit(url)
    inner = parts.path.split("/", 3)
    return "/" + (inner[3] if len(inner) > 3 else ""), dict(parse_qsl(parts.query))


def scripted_decision(task: Task, now: Observation) -> Decision:
    """The decision of the scripted solution. Raises ValueError without an element list, or without its target."""
    if now.elements is None:
        raise ValueError("the scripted solution needs the element list (browser.elements = true)")
    path, query = site_path(now.url)
    labels = {element.name.casefold() for element in now.elements}
    labels |= {f"={element.value.casefold()}" for element in now.elements if element.value}
    move = world_for(task).move(path, query, frozenset(labels))
    return Decision(intent=move.label or move.verb, action=_action(move, now.elements))


def _action(move: Move, elements: Sequence[Element]) -> Action:
    match move.verb:
        case "answer":
            return Answer(text=move.text)
        case "give_up":
            return Terminate(status="failure")
        case "wait":
            return Wait(seconds=WAIT_S)
    wanted = [
        element
        for element in elements
        if element.role in ROLES[move.verb] and element.name.casefold() == move.label and not element.covered
    ]
    if not wanted:
        raise ValueError(f"no {move.label!r} to {move.verb} among {[element.name for element in elements]}")
    point = target_point(wanted[0])
    if move.verb == "type":
        return Type(text=move.text, point=point, press_enter=move.label != "topic")
    return SelectOption(point=point, text=move.text) if move.verb == "select" else LeftClick(point=point)


def target_point(element: Element) -> Point:
    """Where to click an element: the middle of its first 32 px, half its height."""
    box = element.box
    return Point(x=round(box.x + min(box.width / 2, FIRST_CELL)), y=round(box.y + box.height / 2))
