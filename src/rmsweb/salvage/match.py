"""Do two actions mean the same? Owns the action-semantic match of method.md 3 and the clusters of a group. Pure.

Promises: `match` between two actions without recorded elements is symmetric, so clusters do not depend on the
order of a group; every comparison returns its sub-scores for the logs. Never runs an action, never calls a model.

Cross-kind equivalences (off with `strict`):

| action | means the same as | when |
| --- | --- | --- |
| `terminate(success, text)` | `answer(text)` | same answer |
| `key Enter` | `left_click` | a field has the focus and the click's element is a button that sends a form |
| `type` into the focus | `type` at a field | the focus is known to be that field ("click + type" is "type at") |

A click on a field alone is half of `type` at that field and is not accepted for it.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rmsweb.actions import (
    POINTING,
    Action,
    Answer,
    CloseTab,
    Drag,
    Goto,
    Key,
    LeftClick,
    Memorize,
    NewTab,
    Point,
    Scroll,
    SelectOption,
    SwitchTab,
    Terminate,
    Type,
    Viewport,
    WebSearch,
)
from rmsweb.answers import canonical_url, same_answer
from rmsweb.config import MatchConfig
from rmsweb.records import Element, ReferenceAction

LONG_TEXT = 4
"""Words from which a text counts as long and is compared by token F1."""
SENDS_FORM = frozenset({"search", "go", "submit", "send", "sign in", "log in", "login", "find", "ok", "apply", "post"})
"""Names of buttons that do what Enter does in the form's field."""
TRACKERS = ("utm_", "gclid", "fbclid", "ref_src")


class Match(NamedTuple):
    """The verdict and what it rests on."""

    equal: bool
    scores: dict[str, float]
    """Sub-scores in 0..1 by name (kind, target, text, ...); all 1 when `equal`."""

    @property
    def score(self) -> float:
        """Mean sub-score, 0..1; below 1 unless equal. Only the `graded` reward uses it."""
        mean = sum(self.scores.values()) / len(self.scores)
        return 1.0 if self.equal else min(mean, 0.99)


class Context(NamedTuple):
    """What is known of the page beside the two actions."""

    viewport: Viewport
    config: MatchConfig
    hit_a: Element | None
    hit_b: Element | None
    focus: Element | None


def match(
    a: Action,
    reference: ReferenceAction,
    viewport: Viewport,
    config: MatchConfig,
    hit: Element | None = None,
    focus: Element | None = None,
) -> Match:
    """Compares an action with a reference (method.md 3).

    `hit` is the element under `a`'s point where it is known, `focus` the field that has the focus at this state.
    Pixels are CSS pixels of `viewport`.
    """
    context = Context(viewport, config, hit, reference.hit, focus)
    b = reference.action
    if a.action == b.action:
        scores = {"kind": 1.0, **_same_kind(a, b, context)}
    elif config.strict:
        scores = {"kind": 0.0}
    else:
        scores = _cross_kind(a, b, context)
    return Match(all(value >= 1.0 for value in scores.values()), scores)


def best(
    a: Action,
    references: Sequence[ReferenceAction],
    viewport: Viewport,
    config: MatchConfig,
    hit: Element | None = None,
    focus: Element | None = None,
) -> Match | None:
    """The best match over a+ and the other acceptable actions; None without any reference."""
    found = [match(a, reference, viewport, config, hit, focus) for reference in references]
    return max(found, key=lambda one: (one.equal, one.score), default=None)


def cluster(
    actions: Sequence[Action | None],
    viewport: Viewport,
    config: MatchConfig,
    elements: Sequence[Element] = (),
    focus: Element | None = None,
) -> list[int]:
    """Cluster number of each action: connected components of `match`, numbered by first appearance.

    None (a reply that is no action) is a cluster of its own. `elements` are those of the page; points in the same
    element belong together. `focus` is the field that has the focus.
    """
    keys = [None if action is None else action.model_dump_json() for action in actions]
    distinct = {key: action for key, action in zip(keys, actions, strict=True)}
    names = list(distinct)
    root = {name: name for name in names}
    for i, first in enumerate(names):
        for second in names[:i]:
            a, b = distinct[first], distinct[second]
            if a is None or b is None or _find(root, first) == _find(root, second):
                continue
            reference = ReferenceAction(action=b, hit=element_at(b, elements))
            if match(a, reference, viewport, config, element_at(a, elements), focus).equal:
                root[_find(root, first)] = _find(root, second)
    numbers: dict[str | None, int] = {}
    return [numbers.setdefault(_find(root, key), len(numbers)) for key in keys]


def element_at(action: Action, elements: Sequence[Element]) -> Element | None:
    """The smallest element that the action's point would hit, if it has one; what lies under a layer is not hit."""
    point = getattr(action, "point", None)
    under = [one for one in elements if point is not None and not one.covered and one.box.contains(point)]
    return min(under, key=lambda element: element.box.width * element.box.height, default=None)


def _find(root: dict[str | None, str | None], key: str | None) -> str | None:
    while root[key] != key:
        key = root[key]
    return key


def _same_kind(a: Action, b: Action, context: Context) -> dict[str, float]:
    if isinstance(a, POINTING) and isinstance(b, POINTING):
        return {"target": _target(a.point, b.point, context)}
    match a, b:
        case Type(), Type():
            return {
                "target": _field(a, b, context),
                "text": _text(a.text, b.text, context.config),
                "enter": float(a.press_enter == b.press_enter),
                "clear": float(a.clear_first == b.clear_first),
            }
        case SelectOption(), SelectOption():
            return {"target": _target(a.point, b.point, context), "text": _text(a.text, b.text, context.config)}
        case Drag(), Drag():
            bare = context._replace(hit_a=None, hit_b=None)
            start = float(a.start is b.start) if a.start is None or b.start is None else _target(a.start, b.start, bare)
            return {"target": _target(a.point, b.point, context), "start": start}
        case Scroll(), Scroll():
            return _scroll(a, b, context.config)
        case Key(), Key():
            return {"keys": float(Counter(map(str.lower, a.keys)) == Counter(map(str.lower, b.keys)))}
        case Goto() | NewTab(), Goto() | NewTab():
            return {"url": float(same_url(a.url, b.url))}
        case SwitchTab() | CloseTab(), SwitchTab() | CloseTab():
            return {"tab": float(a.tab == b.tab)}
        case WebSearch(), WebSearch():
            return {"text": _text(a.query, b.query, context.config)}
        case Memorize(), Memorize():
            return {"text": _text(a.fact, b.fact, context.config)}
        case Answer(), Answer():
            return {"text": float(same_text_answer(a.text, b.text))}
        case Terminate(), Terminate():
            return {"status": float(a.status == b.status), "text": float(same_text_answer(a.text, b.text))}
    return {}  # wait, go_back: the kind is all there is


def _cross_kind(a: Action, b: Action, context: Context) -> dict[str, float]:
    for first, second, hit in ((a, b, context.hit_b), (b, a, context.hit_a)):
        match first, second:
            case Terminate(status="success"), Answer():
                return {"equivalent": 1.0, "text": float(same_text_answer(first.text, second.text))}
            case Key(keys=("Enter",)), LeftClick():
                in_field = context.focus is not None  # elsewhere Enter presses something else, or nothing
                return {"equivalent": float(in_field and hit is not None and _sends_form(hit))}
    return {"kind": 0.0}


def _sends_form(element: Element) -> bool:
    return element.role == "button" and normal_text(element.name) in SENDS_FORM


def _target(a: Point, b: Point, context: Context) -> float:
    """1 for the same target; below, how near it is."""
    hit_a, hit_b = context.hit_a, context.hit_b
    named = hit_a is not None and hit_b is not None and bool(hit_a.selector and hit_b.selector)
    apart = named and (hit_a.selector, hit_a.frame) != (hit_b.selector, hit_b.frame)  # type: ignore[union-attr]
    # The margin forgives a near miss; a point on a neighbour is no near miss but another control.
    grow = 1.0 if apart else context.config.grow
    if (hit_b is not None and hit_b.box.contains(a, grow)) or (hit_a is not None and hit_a.box.contains(b, grow)):
        return 1.0
    if named:
        return 0.5 * _nearness(a, b, context) if apart else 1.0  # known to differ: being near does not help
    distance = math.hypot((a.x - b.x) / context.viewport.width, (a.y - b.y) / context.viewport.height)
    return 1.0 if distance <= context.config.distance else _nearness(a, b, context)


def _nearness(a: Point, b: Point, context: Context) -> float:
    distance = math.hypot((a.x - b.x) / context.viewport.width, (a.y - b.y) / context.viewport.height)
    return max(0.0, 0.9 * (1 - distance))


def _field(a: Type, b: Type, context: Context) -> float:
    """Whether two `type` actions go into the same field; without a point they go into the focus."""
    if a.point is not None and b.point is not None:
        return _target(a.point, b.point, context)
    if a.point is None and b.point is None:
        return 1.0
    if context.config.strict:
        return 0.0
    point = a.point if a.point is not None else b.point
    recorded = context.hit_b if b.point is None else context.hit_a
    field = recorded if recorded is not None else context.focus
    return float(field is not None and point is not None and field.box.contains(point, context.config.grow))


def _scroll(a: Scroll, b: Scroll, config: MatchConfig) -> dict[str, float]:
    vertical_a, vertical_b = abs(a.dy) >= abs(a.dx), abs(b.dy) >= abs(b.dx)
    amount_a, amount_b = (a.dy if vertical_a else a.dx), (b.dy if vertical_b else b.dx)
    if vertical_a != vertical_b or amount_a * amount_b <= 0:
        return {"direction": float(amount_a == amount_b == 0), "amount": float(amount_a == amount_b == 0)}
    factor = max(abs(amount_a), abs(amount_b)) / min(abs(amount_a), abs(amount_b))
    return {"direction": 1.0, "amount": 1.0 if factor <= config.scroll_factor else config.scroll_factor / factor}


def normal_text(text: str) -> str:
    """Case, width and white space do not matter."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def token_f1(a: str, b: str) -> float:
    """F1 over the words of two texts, 0..1."""
    first, second = Counter(re.findall(r"\w+", a)), Counter(re.findall(r"\w+", b))
    shared = sum((first & second).values())
    return 2 * shared / (sum(first.values()) + sum(second.values())) if shared else 0.0


def _text(a: str, b: str, config: MatchConfig) -> float:
    a, b = normal_text(a), normal_text(b)
    if a == b:
        return 1.0
    score = token_f1(a, b)
    # A long text may be worded otherwise, but another number in it is another meaning.
    numbers_agree = Counter(re.findall(r"\d+", a)) == Counter(re.findall(r"\d+", b))
    long = max(len(a.split()), len(b.split())) >= LONG_TEXT
    return 1.0 if long and numbers_agree and score >= config.token_f1 else min(score, 0.99)


def same_text_answer(a: str, b: str) -> bool:
    """Equal answers; two empty ones (a bare `terminate`) are equal too."""
    return not (a.strip() or b.strip()) or same_answer(a, b)


def same_url(a: str, b: str) -> bool:
    """Equal addresses; `www.` and trackers do not matter either."""
    return _bare_url(a) == _bare_url(b)


def _bare_url(url: str) -> str:
    address, _, query = canonical_url(url).removeprefix("www.").partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith(TRACKERS)]
    return address + (f"?{'&'.join(kept)}" if kept else "")
