"""The embedded explorer: a heuristic collection policy that knows no site.

It reads the goal and the observation's element list, scores what could be done (word overlap with the goal, verbs of
common web controls, a little curiosity, dislike of repeats) and draws one option by softmax, now and then any option at
all. Its mistakes are honest ones: near misses, early answers, detours, unread second pages. Hints of reflections
change the scores and nothing else. The draw depends on `seed` only; there is no memory but the history.

It never imports the sites or their words, and never sees a check, a world or a reference. It was tuned on train seeds
50000..59999 and then frozen.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rmsweb.actions import (
    PROFILES,
    Action,
    Answer,
    LeftClick,
    Point,
    Scroll,
    SelectOption,
    Type,
    Viewport,
    Wait,
    from_pixels,
    to_pixels,
)
from rmsweb.config import ProfileConfig
from rmsweb.errors import ConfigError
from rmsweb.policy import render_reply
from rmsweb.records import Decision, Element, Observation, Reflection, Step, Task
from rmsweb.reflect.hints import Hints, merge
from rmsweb.reflect.reading import (
    CLOSERS,
    FUNCTION_WORDS,
    HOMEWARD,
    MONEY,
    ONWARD,
    SUBMITS,
    WRITING,
    Goal,
    Move,
    View,
    acts,
    half_filled,
    move_of,
    names_key,
    page_key,
    read_goal,
    searches,
    share,
    start_of,
    words,
)

SHARPNESS = 0.14
"""Score difference that makes one option e times as likely as another at temperature 1."""
PROSE = 6
"""Words; a longer text is prose and holds no value to answer with."""
NOISE = 0.12
"""Share of decisions that take any option at temperature 1."""


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that could be done now."""

    score: float
    move: Move
    intent: str
    action: Action


@dataclass(frozen=True, slots=True)
class Memory:
    """What the history says."""

    moves: Counter[Move]
    idle: frozenset[Move]
    """Moves that changed nothing."""
    refused: frozenset[Move]
    """Moves that the browser reported as impossible, such as an option that a drop-down lacks."""
    acted: bool
    """A control that carries out the goal's verb, or a form's last button, has been used."""
    entered: frozenset[str]
    """Words that were typed or chosen."""
    labels: Counter[str]
    """How often each label was clicked, on whatever page."""
    keys: tuple[str, ...]
    """The goal's words that were seen on some page so far: what can be looked for on this one."""


class Explorer:
    """Policy without a model (see the module docstring)."""

    def __init__(self, profile: ProfileConfig, temperature: float = 1.0) -> None:
        self.profile, self.temperature = profile, temperature
        self.viewport = Viewport(*profile.viewport)
        self.name = f"explorer@{temperature:g}"

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
        """`n` independent draws; temperature 0 takes the best option. Raises ConfigError without an element list."""
        if now.elements is None:
            raise ConfigError("the explorer reads element lists; set browser.elements=true")
        goal, start = read_goal(task.goal), start_of(history, now)
        view, hints = View(now, page_key(now.url, start)), merge(reflections)
        memory = remember(history, view, goal, start)
        options = [self._placed(option) for option in propose(goal, view, memory, hints, self.viewport)]
        draw = random.Random(seed)
        return [self._decision(self._pick(options, draw)) for _ in range(n)]

    def _pick(self, options: Sequence[Option], draw: random.Random) -> Option:
        if self.temperature == 0:
            return max(options, key=lambda option: option.score)
        if draw.random() < NOISE * self.temperature:
            return draw.choice(options)
        best = max(option.score for option in options)
        weights = [math.exp((option.score - best) / (SHARPNESS * self.temperature)) for option in options]
        return draw.choices(options, weights)[0]

    def _placed(self, option: Option) -> Option:
        """The option with its point on the profile's own grid, so that writing and reading it changes nothing."""
        scheme = PROFILES[self.profile.coordinates]
        point = getattr(option.action, "point", None)
        if point is None or scheme.scale is None:
            return option
        snapped = to_pixels(*from_pixels(point, self.viewport, scheme.scale, scheme.step), self.viewport, scheme.scale)
        return Option(option.score, option.move, option.intent, option.action.model_copy(update={"point": snapped}))

    def _decision(self, option: Option) -> Decision:
        bare = Decision(intent=option.intent, action=option.action)
        return bare.model_copy(update={"raw": render_reply(self.profile, bare, self.viewport)})


def remember(history: Sequence[Step], view: View, goal: Goal, start: str) -> Memory:
    """The history as moves."""
    moves: Counter[Move] = Counter()
    idle, refused = set[Move](), set[Move]()
    entered = set[str]()
    acted = False
    for step in history:
        move = move_of(step, start)
        if move is None:
            continue
        moves[move] += 1
        if step.effect.error:
            refused.add(move)
        elif not step.effect.changed:
            idle.add(move)
        if move.kind in ("type", "select") and not step.effect.error:
            entered.update(words(move.text))
        acted |= acts(step, goal)
    labels = Counter(move.label for move in moves.elements() if move.kind == "click")
    seen = view.said.union(*(View(step.before, "").said for step in history))
    keys = tuple(key for key in goal.keys if key in seen)
    return Memory(moves, frozenset(idle), frozenset(refused), acted, frozenset(entered), labels, keys)


def propose(goal: Goal, view: View, memory: Memory, hints: Hints, viewport: Viewport) -> list[Option]:
    """Everything that could be done on this page, scored; at least one option."""
    options = [*_clicks(goal, view, memory, hints), *_fields(goal, view, memory, hints)]
    options += [*_choices(goal, view, memory, hints), *_waits(view, memory), *_scrolls(view, memory, viewport)]
    options += _answers(goal, view, memory, hints) if goal.question else _finish(goal, view, memory, hints)
    if not options:
        options.append(Option(0.0, Move(view.key, "wait", ""), "wait", Wait()))
    return [Option(o.score + _experience(o.move, memory, hints), o.move, o.intent, o.action) for o in options]


def _experience(move: Move, memory: Memory, hints: Hints) -> float:
    """What earlier steps and earlier attempts say of a move."""
    score = -0.5 * memory.moves[move] - 0.4 * (move in memory.idle) - 1.5 * (move in memory.refused)
    anywhere = Move("", move.kind, move.label, move.text)
    score -= 2.0 * (move in hints.avoid or anywhere in hints.avoid)
    if move.kind != "answer":
        score += 0.9 * hints.prefer[move.label]
    return score


def _clicks(goal: Goal, view: View, memory: Memory, hints: Hints) -> Iterator[Option]:
    on_page = share(view.said | memory.entered, memory.keys)
    extremes = _extremes(goal, view)
    waiting = half_filled(view, goal, memory.entered)
    for element in view.elements:
        label = words(element.name)
        if element.role not in ("link", "button", "checkbox") or element.covered or not label:
            continue
        name = " ".join(label)
        part = sum(names_key(word, goal.keys) for word in label) / len(label)
        fit = 0.3 * part if hints.strict and part < 1 else part
        score = 1.5 * fit + 0.4 * share(label, goal.keys)
        if part == 0:
            score += 0.5 * share(view.near_words(element), memory.keys)
        score += 0.45 * (element in extremes) - 0.25 * memory.labels[name]
        rank = next((i for i, control in enumerate(goal.controls) if control in label), None)
        if rank is not None or (not goal.question and set(label) & set(SUBMITS)):
            score += 0.9 - 0.15 * rank if rank is not None else 0.5
            if element.role == "button":
                score += 0.3 * on_page + 0.4 * (on_page == 1)
                score -= 2.0 if hints.strict and on_page < 1 and not goal.extreme else 0.0
                score -= (2.0 if hints.fill else 0.4) if waiting else 0.0
        elif element.role == "button" and not part:
            score -= 0.4  # links look, buttons change things
        score += _manners(element, name, view, goal)
        yield Option(score, Move(view.key, "click", name), element.name, LeftClick(point=aim(element)))


def _manners(element: Element, name: str, view: View, goal: Goal) -> float:
    """Common sense about controls that have nothing to do with the goal's words."""
    score = 0.25 * (name in ONWARD) - 0.25 * (name in HOMEWARD) - 0.8 * element.name.endswith("*")
    score -= 0.5 * (name in words(view.now.title))  # a control with the page's own name leads nowhere
    score += 0.2 * (name == "sort") * abs(goal.extreme)
    if view.layered:
        score += 1.6 if name.split()[0] in CLOSERS else 0.0
    return score


def _extremes(goal: Goal, view: View) -> list[Element]:
    """Links in the row with the least or the most, as far as this page goes, among rows that fit the goal."""
    if not goal.extreme:
        return []
    rows = []
    for element in view.elements:
        if element.role == "link" and set(words(element.name)) & set(goal.keys):
            values = [float(word) for e in view.near(element) for word in words(e.name) if word.isdigit()]
            rows += [(value, element) for value in values[:1]]
    best = (min if goal.extreme < 0 else max)((value for value, _ in rows), default=0.0)
    return [element for value, element in rows if value == best]


def _fields(goal: Goal, view: View, memory: Memory, hints: Hints) -> Iterator[Option]:
    for element in view.elements:
        if element.role != "input" or element.covered:
            continue
        label = " ".join(words(element.name))
        if searches(element):
            texts = {" ".join(goal.keys), *goal.keys[:1], *goal.keys[-1:]}
            wanted = {hints.query: 1.3} if hints.query else {text: 0.95 for text in sorted(texts)}
            later = any(m.kind == "type" and m.label == label for m in memory.moves)
            base, enter = (-0.5 if later else 0.0), True
        else:
            named = set(words(element.name))
            unsaid = [key for key in goal.keys if key not in view.said | named]
            wanted = {key: 1.5 - 0.25 * i for i, key in enumerate(unsaid)}
            wanted = wanted or {key: 0.1 + 1.2 * hints.fill for key in goal.keys if key not in named}
            wanted |= {key: 2.0 for key in unsaid if set(goal.fields.get(key, ())) & named}
            if len(unsaid) > 1 and not hints.strict:
                wanted[" ".join(unsaid)] = 0.7
            base, enter = (-1.6 if element.value or goal.verb not in WRITING else 0.0), _sends_itself(view, goal)
        for text, score in wanted.items():
            if text:
                action = Type(text=text, point=aim(element), press_enter=enter, clear_first=bool(element.value))
                yield Option(score + base, Move(view.key, "type", label, text), element.name, action)


def _sends_itself(view: View, goal: Goal) -> bool:
    """Whether Enter is the way to send the one field: there is no button for it and nothing else to fill in."""
    others = [e for e in view.elements if e.role in ("input", "select") and not searches(e)]
    senders = {*goal.controls, *SUBMITS}
    return len(others) == 1 and not any(e.role == "button" and senders & set(words(e.name)) for e in view.elements)


def _choices(goal: Goal, view: View, memory: Memory, hints: Hints) -> Iterator[Option]:
    for element in view.elements:
        if element.role != "select" or element.covered:
            continue
        label, shown = " ".join(words(element.name)), set(words(element.value)) - set(words(element.name))
        chosen = bool(shown & set(goal.keys))
        for key in goal.keys:
            if key in shown or key in words(element.name):
                continue
            score = 1.2 - 0.5 * (key in view.said) - 0.3 * (key in memory.entered) - 1.2 * chosen - 1.0 * goal.question
            score += 0.4 * any({key, name} <= set(pair) for pair in pairwise(goal.said) for name in words(element.name))
            action = SelectOption(point=aim(element), text=key)
            yield Option(score, Move(view.key, "select", label, key), element.name, action)


def _waits(view: View, memory: Memory) -> Iterator[Option]:
    if view.now.blank or not view.elements or "loading" in view.said:
        yield Option(1.8, Move(view.key, "wait", ""), "loading", Wait(seconds=1.0))


def _scrolls(view: View, memory: Memory, viewport: Viewport) -> Iterator[Option]:
    """Only where something is cut off by the lower edge."""
    if any(e.box.y < viewport.height < e.box.y + e.box.height for e in view.elements):
        yield Option(0.3, Move(view.key, "scroll", ""), "scroll", Scroll(dy=viewport.height // 2))


def _finish(goal: Goal, view: View, memory: Memory, hints: Hints) -> Iterator[Option]:
    """Say that it is done, when something was done and the page says so."""
    if not memory.acted:
        return
    sign = next((e.name for e in view.elements if goal.done_words & set(words(e.name))), "")
    score = 2.5 if sign else 0.4
    yield Option(score, Move(view.key, "answer", "", "done"), sign or "done", Answer(text="done"))


def _answers(goal: Goal, view: View, memory: Memory, hints: Hints) -> Iterator[Option]:
    """Values on the page, by how near the goal's words they stand."""
    keys = goal.keys if hints.verify else memory.keys
    on_page = share(view.said, keys)
    readable = ("text", "other", "link") if goal.person else ("text", "other")
    for element in view.elements:
        own = words(element.name)
        if element.role not in readable or element.covered or len(own) > PROSE:
            continue
        row = share(view.near_words(element), keys)
        labelled = bool(set(goal.asked) & set(own)) or ("$" in element.name and bool(MONEY & set(goal.asked)))
        for value in own:
            if not _can_answer(value, own, goal, labelled):
                continue
            other = bool(goal.asked) and not labelled and len(own) > 1 and not goal.person
            score = (
                -0.1
                - (0.6 if hints.verify else 0.2) * other
                + 1.2 * row
                + 0.5 * on_page
                + 0.6 * labelled
                - 0.3 * (element.role == "link")
            )
            if hints.verify and row < 1 and not (labelled and on_page == 1):
                score -= 1.5
            label = _beside_label(element, value, view, goal)
            yield Option(score, Move("", "answer", "", value), label, Answer(text=value))


def _can_answer(value: str, own: Sequence[str], goal: Goal, labelled: bool) -> bool:
    """Whether a word of a text may be what is asked for: a name, a number, or what stands behind the asked word."""
    if value in goal.keys or value in goal.asked or value in FUNCTION_WORDS:
        return False
    if goal.person:
        return not any(word.isdigit() for word in own)
    return value.isdigit() or labelled


def _beside_label(element: Element, value: str, view: View, goal: Goal) -> str:
    """The label beside which the value stands: what is left of its own text, or the neighbour nearest to the goal."""
    rest = [word for word in words(element.name) if word != value]
    if rest:
        return " ".join(rest)
    near = max(view.near(element), key=lambda e: share(words(e.name), goal.keys), default=None)
    return near.name if near is not None and near.name else "done"


def aim(element: Element) -> Point:
    """Where to point: the middle of the element's height, in its first 32 pixels, where its label begins."""
    box = element.box
    return Point(x=round(box.x + min(box.width / 2, 16)), y=round(box.y + box.height / 2))
