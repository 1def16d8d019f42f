"""What a goal and a page say, in words: the explorer's and the rule reflector's common eyes. Pure.

Owns generic English only: function words, superlatives, verbs of web controls. It knows no site, no page and no task
template; whatever is particular to a site reaches it through the goal and the element list.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from urllib.parse import urlsplit

from rmsweb.actions import Answer, LeftClick, Scroll, SelectOption, Terminate, Type, Wait
from rmsweb.records import Element, Observation, Step


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = _set(
    "a an the to of in for on at about with by from and or is are was has have had does do did be it its this that "
    "who what which how many much when where why whose me my you your i please then into as one "
    "find tell show give get there"
)
"""Words that name nothing on a page."""

LEAST = _set("cheapest least fewest lowest smallest shortest earliest")
MOST = _set("most highest largest biggest longest latest best dearest")
"""Superlatives: the goal asks for an extreme, so the lists have to be ordered or read to their end."""

ASKING = _set("who what which how when where whose")
"""First words of questions."""

CONTROLS: dict[str, tuple[str, ...]] = {
    "add": ("add",),
    "put": ("add", "put"),
    "buy": ("buy", "add", "order"),
    "order": ("order", "add", "buy"),
    "book": ("book", "reserve", "confirm"),
    "reserve": ("reserve", "book", "confirm"),
    "post": ("post", "comment", "reply"),
    "write": ("write", "post", "comment", "reply"),
    "leave": ("post", "comment", "reply"),
    "reply": ("reply", "comment", "post"),
    "send": ("send", "submit", "contact"),
    "ask": ("send", "submit", "contact"),
    "move": ("move", "change", "save"),
    "change": ("change", "move", "save"),
    "set": ("set", "save", "change"),
    "cancel": ("cancel", "delete", "remove"),
    "remove": ("remove", "delete", "cancel"),
    "like": ("like",),
    "follow": ("follow",),
    "join": ("join",),
    "close": ("close",),
}
"""Verb of a goal -> labels of controls that commonly carry it out, nearest meaning first."""

WRITING = _set("post write leave reply comment send ask report tell fill enter type put")
"""Verbs that call for a text in a field."""

FIELD_OF = {"about": ("topic", "subject", "title"), "by": ("name", "author"), "from": ("name",), "on": ("date", "day")}
"""Preposition of a goal -> names of fields that commonly hold what follows it."""

MONEY = _set("price cost costs")
"""Asked for, these stand behind a currency sign and not behind their name."""

SUBMITS = ("confirm", "submit", "send", "save", "ok", "done", "continue")
"""Labels that end a form or a question whatever its subject: each stands on the last button of most web forms."""

CLOSERS = ("accept", "agree", "ok", "close", "dismiss", "reject", "continue")
"""Labels of the buttons that take a layer off a page."""

ONWARD = ("next", "more", "show")
"""Labels that lead on in a list."""

HOMEWARD = ("home", "back", "prev", "previous", "help")
"""Labels that lead away from where the work is."""

IRREGULAR = {"send": "sent", "buy": "bought", "write": "wrote", "leave": "left", "put": "put", "set": "set"}
"""Past forms that no rule gives."""

_WORD = re.compile(r"[a-z0-9]+(?:[.'-][a-z0-9]+)*")


def words(text: str) -> tuple[str, ...]:
    """Lower-case words and numbers of a text; signs and marks fall away."""
    return tuple(_WORD.findall(text.lower()))


def past_forms(verb: str) -> frozenset[str]:
    """How a page may say that the verb has been done."""
    if verb in IRREGULAR:
        return frozenset({IRREGULAR[verb]})
    stem = verb.removesuffix("e")
    return frozenset({stem + "ed", verb + verb[-1:] + "ed"})


@dataclass(frozen=True, slots=True)
class Goal:
    """What the goal asks, as far as words tell."""

    said: tuple[str, ...]
    """All its words."""
    verb: str
    keys: tuple[str, ...]
    """Words that name things: what has to be found, in the goal's order."""
    asked: tuple[str, ...]
    """Of a question: words that name what is asked for ("price of X": price), not where it is found."""
    fields: dict[str, tuple[str, ...]]
    """Key -> names of the fields it belongs in, by the preposition before it."""
    question: bool
    person: bool
    """A question for a name, not for a number."""
    extreme: int
    """-1: the least of something, 1: the most, 0: neither."""

    @property
    def controls(self) -> tuple[str, ...]:
        """Labels of controls that may carry out the goal's verb."""
        return () if self.question else CONTROLS.get(self.verb, (self.verb,))

    @property
    def done_words(self) -> frozenset[str]:
        """Words by which a page says that it has been done."""
        return frozenset().union(*(past_forms(verb) for verb in (self.verb, *self.controls, *SUBMITS)))


def read_goal(text: str) -> Goal:
    """Goal text to verb, keys and kind of question."""
    said = words(text)
    question = text.rstrip().endswith("?") or (bool(said) and said[0] in ASKING)
    extreme = -1 if LEAST.intersection(said) else 1 if MOST.intersection(said) else 0
    verb = "" if question or not said else next((w for w in said if w not in FUNCTION_WORDS), said[0])
    rest, asked = _split_question(said) if question else (_without_destination(said, verb), ())
    superlatives = LEAST | MOST
    keys = [w for w in rest if w not in FUNCTION_WORDS and w != verb and w not in superlatives]
    fields = {after: FIELD_OF[before] for before, after in pairwise(said) if before in FIELD_OF}
    return Goal(
        said=said,
        verb=verb,
        keys=tuple(dict.fromkeys(keys)),
        asked=tuple(w for w in asked if w not in FUNCTION_WORDS),
        fields=fields,
        question=question,
        person=bool(said) and said[0] in ("who", "whose"),
        extreme=extreme,
    )


def _without_destination(said: tuple[str, ...], verb: str) -> tuple[str, ...]:
    """ "add X to Y", "put X in Y": Y is where it goes, not what has to be found."""
    ways = [i for i, w in enumerate(said) if w in ("to", "in", "into")]
    return said[: ways[-1]] if verb in ("add", "put") and ways else said


def _split_question(said: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A question as (what it is about, what is asked for), by word order alone."""
    for index, word in enumerate(said):
        if word in ("of", "for", "on", "about") and index > 0:
            return said[index + 1 :], said[:index]
    if said[:1] == ("who",):
        return said[2:], said[1:2]
    if "does" in said or "do" in said:
        return said[:-1], said[-1:]
    for index, word in enumerate(said[:-1]):
        if word in ("has", "have", "is", "are") and index > 1:
            return said[index + 1 :], said[:index]
    return said, ()


def page_key(url: str, start: str) -> str:
    """The URL as seen from the episode's start page: equal in another attempt, where the start has another prefix."""
    here, root = urlsplit(url), urlsplit(start)
    if here.netloc != root.netloc:
        return url
    folder = root.path.rsplit("/", 1)[0] + "/"
    path = here.path.removeprefix(folder) if here.path.startswith(folder) else here.path
    return path + (f"?{here.query}" if here.query else "")


def start_of(history: Sequence[Step], now: Observation) -> str:
    """URL of the first page of the episode."""
    return history[0].before.url if history else now.url


@dataclass(frozen=True, slots=True)
class Move:
    """An action as the explorer thinks of it: on which page, what kind, which label, which text."""

    page: str
    kind: str
    label: str
    text: str = ""


def move_of(step: Step, start: str) -> Move | None:
    """The move of a recorded step; None for a reply that is no action."""
    action = step.decision.action
    if action is None:
        return None
    page = page_key(step.before.url, start)
    hit = step.effect.hit.name if step.effect.hit else ""
    named = step.decision.intent if step.decision.intent and step.decision.intent != "replay" else hit
    label = " ".join(words(named))
    match action:
        case Type() | SelectOption():
            return Move(page, "type" if isinstance(action, Type) else "select", label, action.text)
        case Answer():
            return Move(page, "answer", "", action.text)
        case Terminate():
            return Move(page, "answer", "", action.text or action.status)
        case Scroll() | Wait():
            return Move(page, action.action, "")
        case _:
            return Move(page, "click" if action.action == "left_click" else action.action, label)


class View:
    """One observation's elements with their words and their neighbours."""

    def __init__(self, now: Observation, key: str) -> None:
        self.now, self.key = now, key
        self.elements: tuple[Element, ...] = now.elements or ()

    @cached_property
    def said(self) -> frozenset[str]:
        """All words that can be read on the page, current values of fields included."""
        return frozenset(w for e in self.elements for w in (*words(e.name), *words(e.value)))

    @cached_property
    def layered(self) -> bool:
        """Something lies over elements that can be acted on."""
        return any(e.covered for e in self.elements if e.role in ("link", "button", "input", "select"))

    def near(self, element: Element) -> list[Element]:
        """Other elements in the same row, or close below or above with the same left edge (a card)."""
        return [other for other in self.elements if other is not element and _beside(element, other)]

    def near_words(self, element: Element) -> frozenset[str]:
        """Words of the element and of its neighbours."""
        return frozenset(w for e in (element, *self.near(element)) for w in (*words(e.name), *words(e.value)))


def _beside(one: Element, other: Element) -> bool:
    a, b = one.box, other.box
    dy = abs((a.y + a.height / 2) - (b.y + b.height / 2))
    return dy < min(a.height, b.height) * 0.6


def searches(element: Element) -> bool:
    """Whether a field is there to search with."""
    return not {"search", "find", "query"}.isdisjoint(words(element.name))


def unfilled(element: Element) -> bool:
    """A field that a form still waits for: empty, or a drop-down that shows its own name."""
    if element.role == "input":
        return not element.value and not searches(element)
    return element.role == "select" and words(element.value) in ((), words(element.name))


def half_filled(view: View, goal: Goal, entered: Collection[str]) -> bool:
    """Whether a form here lacks something that the goal gives: by the field's name, or words that stand nowhere yet."""
    missing = goal.verb in WRITING and not set(goal.keys) <= {*view.said, *entered}
    return any(unfilled(e) and (missing or set(words(e.name)) & set(goal.said)) for e in view.elements)


def acts(step: Step, goal: Goal) -> bool:
    """Whether the step used a button that carries out the goal's verb or ends a form, or sent a field by Enter."""
    hit, action = step.effect.hit, step.decision.action
    if isinstance(action, Type):
        return action.press_enter and not (hit is not None and searches(hit))
    if hit is None or hit.role != "button" or not isinstance(action, LeftClick):
        return False
    return not set(words(hit.name)).isdisjoint((*goal.controls, *SUBMITS))


def names_key(word: str, keys: Collection[str]) -> bool:
    """Whether a word is one of the keys or its plural: lists are named in the plural."""
    return word in keys or any(word in (key + "s", key + "es") for key in keys)


def share(found: Iterable[str], wanted: Sequence[str]) -> float:
    """Share of the wanted words that were found; 0 when nothing is wanted."""
    have = set(found)
    return sum(w in have for w in wanted) / len(wanted) if wanted else 0.0
