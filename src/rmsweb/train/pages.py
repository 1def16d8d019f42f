"""Scenes: a random page composed for a kind of synthetic task, the task's goal on it, and the right reply by the rule.

Owns the mix of kinds and the curriculum's levels. `sample` is a function of the random generator, the glyphs and the
level.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import rmsweb.web.lexicon as lexicon
from rmsweb.train.canvas import (
    CONFIRMED,
    FALLBACKS,
    FIELDS,
    NAVIGATION,
    NUMBERED,
    PRODUCTS,
    STAYS,
    SUBMITS,
    THING_WORDS,
    Canvas,
    fill,
    navigation,
    reading,
    standard_glyphs,
)
from rmsweb.train.draw import Glyphs, draw
from rmsweb.train.queries import ASKING, FILLERS, Goal, Move, Sample, Wording, decide, random_history, suits
from rmsweb.web.compact import Kind

LEVELS = ((3, 8), (3, 7), (3, 9), (3, 12))
"""Elements of a page, fewest and most, by level of the curriculum."""
BARE = (0.7, 0.4, 0.15, 0.15)
"""Share of goals that consist of the target's own words, by level."""
TOP = len(LEVELS) - 1


def sample(rng: random.Random, glyphs: Glyphs, level: int = TOP) -> Sample:
    """One page with a task and its reply.

    Level 0 has one-word labels and the skills of finding and reading, level 1 whole labels and near misses, level 2
    every kind of task, the top level full pages.
    """
    kinds, weights = zip(*_KINDS[min(level, len(_KINDS) - 1)], strict=True)
    while True:
        scene = rng.choices(kinds, weights)[0]
        canvas = Canvas(rng, glyphs, simple=level == 0)
        count = rng.randint(*LEVELS[level])
        goal = scene(canvas, count, Wording(rng, plain=rng.random() < BARE[level]))
        if goal is None:
            continue
        done = () if level == 0 and rng.random() < 0.6 else _history(rng, goal)
        page = canvas.page()
        return Sample(page, goal, done, decide(page, goal, done))


def _history(rng: random.Random, goal: Goal) -> tuple[str, ...]:
    own = set(goal.target.split()) | {name for name, _ in goal.entries}
    if goal.entries and rng.random() < 0.5:
        name, text = goal.entries[0]
        return (f"type {name} {text}",)
    return tuple(entry for entry in random_history(rng) if not own & set(entry.split()))


def _surround(canvas: Canvas, count: int, target: str) -> None:
    """The rest of the page: near misses of the target, random elements, sometimes navigation."""
    rng = canvas.rng
    words = target.replace(" *", "").split()
    if rng.random() < 0.45:
        for _ in range(rng.randint(1, 3)):
            near = _near(rng, words)
            if near and near != target:
                if rng.random() < 0.5:
                    canvas.add_row("link", near, reading(rng))
                else:
                    canvas.add("link", near)
    if rng.random() < 0.55:
        navigation(canvas, NAVIGATION, rng.randint(1, 4))
    fill(canvas, count)


def _near(rng: random.Random, words: list[str]) -> str:
    """A label that shares a word with the target and is not it."""
    if len(words) != 2:
        return ""
    for pool, firsts, seconds in (
        (PRODUCTS, lexicon.COLORS, lexicon.NOUNS),
        (STAYS, lexicon.CITIES, lexicon.ROOMS),
    ):
        if " ".join(words) in pool:
            if rng.random() < 0.5:
                return f"{rng.choice(firsts)} {words[1]}"
            return f"{words[0]} {rng.choice(seconds)}"
    return rng.choice(words)


def _page_words(canvas: Canvas) -> set[str]:
    return {word for label in canvas.labels for word in label.split()}


def _click(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """The wanted label stands on the page."""
    rng = canvas.rng
    target = canvas.thing() if rng.random() < 0.8 else rng.choice(lexicon.CONTROLS)
    kind: Kind = "button" if rng.random() < 0.25 and ("button", target) in canvas.glyphs else "link"
    if kind == "link" and rng.random() < 0.4:
        added = canvas.add_row("link", target, reading(rng))
    else:
        added = canvas.add(kind, target)
    if added < 0:
        return None
    _surround(canvas, count, target)
    wording.avoid = _page_words(canvas)
    return Goal(target, words=wording.words(target))


def _read(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """A value beside the wanted label is asked for (or a value of another kind is: then its link is clicked)."""
    rng = canvas.rng
    target, value = canvas.thing(), reading(rng)
    at = canvas.add_row(rng.choice(("link", "link", "text")), target, value)
    if at < 0 or target.isdigit():
        return None
    _surround(canvas, count, target)
    wording.avoid = _page_words(canvas)
    fitting = [kind for kind in ASKING if suits(kind, canvas.items[at].value)]
    asks = rng.choice(fitting) if rng.random() < 0.85 else rng.choice(tuple(ASKING))
    return Goal(target, asks=asks, words=wording.words(target, asks))


def _inline(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """A text that carries its own number: `code 45`."""
    rng = canvas.rng
    word = rng.choice(NUMBERED)
    if canvas.add("text", f"{word} {rng.randint(1, 99)}") < 0:
        return None
    if rng.random() < 0.5:
        canvas.add("text", f"{rng.choice([w for w in NUMBERED if w != word])} {rng.randint(1, 99)}")
    _surround(canvas, count, word)
    wording.avoid = _page_words(canvas)
    asks = rng.choice(("any", "number"))
    return Goal(word, asks=asks, words=wording.words(word, asks))


def _absent(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """The wanted label does not stand there; a link leads on, or nothing does."""
    rng = canvas.rng
    target = canvas.thing()
    if rng.random() < 0.95:
        for word in rng.sample(FALLBACKS, rng.choice((1, 1, 2))):
            canvas.add("link", word)
    elif rng.random() < 0.5:
        canvas.add("text", "no results")
    canvas.labels.add(target)
    _surround(canvas, count, target)
    wording.avoid = _page_words(canvas)
    asks = rng.choice(("", "", *ASKING))
    return Goal(target, asks=asks, words=wording.words(target, asks))


def _by_value(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """Only the value is named: the link beside it is wanted."""
    rng = canvas.rng
    value = reading(rng)
    at = canvas.add_row("link", canvas.thing(), value)
    if at < 0:
        return None
    named = " ".join(canvas.items[canvas.items[at].partner].key)
    _surround(canvas, count, named)
    wording.avoid = _page_words(canvas)
    return Goal("", words=wording.words(named))


def _search(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """Nothing on the page carries the goal's words, but it can be searched for."""
    rng = canvas.rng
    target = rng.choice((*PRODUCTS, *STAYS, *THING_WORDS))
    canvas.add("input", "search", rng.choice(THING_WORDS) if rng.random() < 0.1 else "")
    canvas.labels.add(target)
    if rng.random() < 0.6:
        canvas.add("button", rng.choice(("search", "go")))
    _surround(canvas, count, target)
    wording.avoid = _page_words(canvas)
    return Goal(target, words=wording.words(target))


def _form(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """One or two fields to fill in, then a button."""
    rng = canvas.rng
    names = rng.sample([name for name in FIELDS if name != "search"], rng.choice((1, 1, 2)))
    entries = []
    filled = True
    for name in names:
        choices = rng.random() < 0.35
        text = rng.choice((*lexicon.PRIORITIES, *lexicon.SUBJECTS, *lexicon.ROOMS) if choices else _entry_words(rng))
        filled = filled and rng.random() < 0.5
        if choices and not _choice(canvas, name, text if filled else ""):
            return None
        if not choices and canvas.add("input", name, text if filled else "") < 0:
            return None
        entries.append((name, text))
    canvas.add("button", rng.choice(SUBMITS))
    if rng.random() < 0.6:
        navigation(canvas, NAVIGATION, rng.randint(1, 3))
    fill(canvas, count)
    wording.avoid = _page_words(canvas) | {word for _, text in entries for word in text.split()}
    return Goal("", entries=tuple(entries), words=wording.entries(tuple(entries)))


def _entry_words(rng: random.Random) -> tuple[str, ...]:
    return rng.choice((lexicon.REMARKS, lexicon.PEOPLE, lexicon.NUMBERS[1:32], lexicon.TOPICS, PRODUCTS))


def _choice(canvas: Canvas, name: str, shown: str) -> bool:
    """A select that shows an option beside its name, or its name until something is chosen."""
    rng = canvas.rng
    if rng.random() < 0.5 and not shown:
        return canvas.add("select", name) >= 0
    options = (*lexicon.PRIORITIES, *lexicon.SUBJECTS, *lexicon.ROOMS)
    beside = canvas.add_row("text", name, shown or rng.choice(options))
    if beside < 0:
        return False
    item = canvas.items[canvas.items[beside].partner]
    cell = item.drawn.cell
    item.drawn = item.drawn._replace(cell=cell._replace(kind="select"))
    canvas.items[beside].value = ""
    return True


def _confirmed(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """The page says that it is done, or that something else is."""
    rng = canvas.rng
    word = rng.choice(CONFIRMED)
    target = rng.choice(PRODUCTS[::5] + THING_WORDS[::3])
    if rng.random() < 0.5:
        canvas.add("text", f"{word} {target}")
        words = wording.words(target)
    else:
        canvas.add("text", word)
        words = wording.words(word)
    if rng.random() < 0.7:
        navigation(canvas, (*FALLBACKS, "cart"), rng.randint(1, 3))
    return Goal(target, words=words)


def _state(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """A page that has to be waited for, is blocked, or has a cookie layer."""
    rng = canvas.rng
    target = canvas.thing()
    match rng.choice(("loading", "blocked", "cookies", "cookies")):
        case "loading":
            canvas.add("text", "loading")
        case "blocked":
            canvas.add("text", rng.choice(("blocked", "robot check")))
        case _:
            canvas.add("text", "cookies")
            for word in rng.sample(("accept", "reject"), rng.choice((1, 2))):
                canvas.add("button", word)
    if rng.random() < 0.5:
        navigation(canvas, NAVIGATION, rng.randint(1, 3))
    if rng.random() < 0.4:
        fill(canvas, count)
    return Goal(target, words=wording.words(target))


def _named(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """The action is asked for by its own name: practice of the rarer call forms."""
    rng = canvas.rng
    fill(canvas, count)
    literal = rng.choice(("scroll", "key", "stop", "wait"))
    extra = ("more",) if literal == "scroll" and rng.random() < 0.5 else ()
    return Goal("", literal=literal, words=(literal, *extra))


def _several(canvas: Canvas, count: int, wording: Wording) -> Goal | None:
    """The goal names some of what stands there: practice of matching alone, its reply carries no loss."""
    rng = canvas.rng
    if rng.random() < 0.3:
        navigation(canvas, NAVIGATION, rng.randint(2, 4))
    fill(canvas, count)
    if not canvas.items:
        return None
    named = rng.sample(canvas.items, min(len(canvas.items), rng.choice((1, 1, 2, 2, 3, 4))))
    if not canvas.simple and rng.random() < 0.6:
        for item in named[:2]:
            canvas.add("link", _near(rng, list(item.key)) or canvas.thing())
    words = [word for item in named for word in item.key]
    strangers = rng.sample((*FILLERS, *THING_WORDS), rng.randint(0, 3))
    return Goal("", literal="match", words=tuple(rng.sample(strangers, len(strangers)) + words))


def match_sample(rng: random.Random, glyphs: Glyphs, simple: bool) -> Sample:
    """A crowded page and the words of some of its elements; only the cells' labels are of interest."""
    while True:
        canvas = Canvas(rng, glyphs, simple=simple)
        goal = _several(canvas, rng.randint(9, 16), Wording(rng))
        if goal is not None:
            return Sample(canvas.page(), goal, (), Move("", ""))


Scene = Callable[[Canvas, int, Wording], Goal | None]
_KINDS: tuple[tuple[tuple[Scene, float], ...], ...] = (
    ((_click, 40.0), (_read, 38.0), (_inline, 8.0), (_absent, 4.0), (_several, 10.0)),
    ((_click, 34.0), (_read, 30.0), (_inline, 6.0), (_absent, 12.0), (_by_value, 6.0), (_form, 4.0), (_several, 8.0)),
    (
        *((_click, 26.0), (_read, 25.0), (_inline, 6.0), (_absent, 13.0), (_by_value, 8.0), (_search, 4.0)),
        *((_form, 9.0), (_confirmed, 3.0), (_state, 3.0), (_named, 1.0), (_several, 4.0)),
    ),
)
"""Scenes and their weights by level; the last holds from there on."""


def grounding_examples(count: int, seed: int = 0, executable: str = "") -> list[dict[str, Any]]:
    """Synthetic tasks as supervised rows: `prompt` and `completion` (conversational), `images` (PNG bytes)."""
    import io

    from PIL import Image

    rng, glyphs = random.Random(f"grounding/{seed}"), standard_glyphs(executable)
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        made = sample(rng, glyphs)
        if made.goal.literal == "match":
            continue
        picture = io.BytesIO()
        drawn = draw(made.page.drawn(), glyphs, made.page.background, made.page.accent)
        Image.fromarray(drawn).save(picture, "PNG")
        asked = [{"type": "text", "text": made.prompt()}, {"type": "image", "text": None}]
        said = [{"type": "text", "text": made.move.text()}]
        rows.append(
            {
                "prompt": [{"role": "user", "content": asked}],
                "completion": [{"role": "assistant", "content": said}],
                "images": [picture.getvalue()],
            }
        )
    return rows
