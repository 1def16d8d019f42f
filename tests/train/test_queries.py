"""The rule that gives a synthetic task its reply, and the text of the reply."""

import random

import pytest

from rmsweb.actions import PROFILES, Viewport
from rmsweb.replies import format_call, parse_reply
from rmsweb.train.canvas import Canvas, Page, label_pool
from rmsweb.train.draw import Glyphs
from rmsweb.train.pages import TOP, sample
from rmsweb.train.queries import Goal, decide, place_text
from rmsweb.web.compact import Cell

GLYPHS = Glyphs.blank(label_pool())


def page(*elements: tuple[str, str], rows: tuple[tuple[str, str, str], ...] = ()) -> Page:
    canvas = Canvas(random.Random(0), GLYPHS)
    for index, (kind, label, value) in enumerate(rows):
        assert canvas.add_row(kind, label, value, row=index) >= 0  # type: ignore[arg-type]
    for kind, label in elements:
        assert canvas.add(kind, label) >= 0  # type: ignore[arg-type]
    return canvas.page()


def reply(made: Page, goal: Goal, done: tuple[str, ...] = ()) -> str:
    move = decide(made, goal, done)
    return f"{move.kind}: {move.intent}"


def test_clicks_what_carries_all_its_words() -> None:
    made = page(("link", "red mug"), ("link", "red lamp"), ("link", "next"))
    assert reply(made, Goal("red mug", words=("put", "red", "mug", "in"))) == "click: red mug"
    assert reply(made, Goal("blue mug", words=("blue", "mug"))) == "fallback: next"
    assert reply(made, Goal("blue mug", words=("blue", "mug")), ("click next *",)) == "terminate: stop"


def test_reads_only_values_of_the_kind_that_is_asked_for() -> None:
    made = page(rows=(("link", "red mug", "$45"), ("link", "cats", "by ann")))
    assert decide(made, Goal("red mug", "price", words=("cost", "red", "mug")), ()).text().count('"text": "$45"') == 1
    assert decide(made, Goal("cats", "person", words=("who", "cats")), ()).text().count('"text": "ann"') == 1
    assert reply(made, Goal("red mug", "person", words=("who", "red", "mug"))) == "click: red mug"


def test_reads_backwards() -> None:
    made = page(rows=(("link", "red mug", "$45"), ("link", "cats", "by ann")))
    assert reply(made, Goal(words=("ann", "by"))) == "by value: cats"


def test_searches_before_it_moves_on() -> None:
    made = page(("input", "search"), ("link", "home"))
    move = decide(made, Goal("red mug", words=("red", "mug")), ())
    assert move.kind == "search"
    assert '"text": "red mug", "press_enter": true' in move.call


def test_waits_and_gives_up() -> None:
    assert reply(page(("text", "loading")), Goal("red mug", words=("red", "mug"))) == "wait: loading"
    assert reply(page(("text", "blocked")), Goal("red mug", words=("red", "mug"))) == "terminate: blocked"
    assert reply(page(("text", "added red mug")), Goal("red mug", words=("red", "mug"))) == "done: done"


@pytest.mark.parametrize("row", range(7))
def test_places_are_the_contracts(row: int) -> None:
    ys = (50, 200, 350, 500, 650, 800, 950)
    assert place_text(Cell("link", "red mug", 2, row, 3)) == f"[250, {ys[row]}]"


def test_every_reply_can_be_read_and_hits_its_element() -> None:
    rng, seen = random.Random(1), set()
    for _ in range(400):
        made = sample(rng, GLYPHS, TOP)
        if made.goal.literal == "match":
            continue
        seen.add(made.move.kind)
        parsed = parse_reply(made.move.text(), Viewport(320, 224), PROFILES["compact"])
        assert parsed.intent == made.move.intent
        assert not parsed.repairs
        assert parsed.action is not None
        assert made.move.call == "\n" + format_call(parsed.action, Viewport(320, 224), PROFILES["compact"])
        if point := getattr(parsed.action, "point", None):
            cell = made.page.items[made.move.element].drawn.cell
            assert cell.column * 32 <= point.x < (cell.column + cell.width) * 32
            assert cell.row * 32 <= point.y < cell.row * 32 + 32
    assert seen >= {"click", "read", "fallback", "by value", "search", "submit", "type", "select", "done", "cookies"}


def test_samples_are_reproducible() -> None:
    first = [sample(random.Random(i), GLYPHS).prompt() for i in range(40)]
    assert first == [sample(random.Random(i), GLYPHS).prompt() for i in range(40)]
