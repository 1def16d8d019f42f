"""Goals and pages in words."""

import pytest
from small_stall import element, observation, step

from rmsweb.actions import Answer, LeftClick, Point, SelectOption, Type
from rmsweb.reflect.reading import (
    Move,
    View,
    acts,
    half_filled,
    move_of,
    names_key,
    page_key,
    past_forms,
    read_goal,
    share,
    words,
)


@pytest.mark.parametrize(
    ("goal", "verb", "keys", "asked"),
    [
        ("add olive kite to basket", "add", ("olive", "kite"), ()),
        ("order the cheapest harp", "order", ("harp",), ()),
        ("price of olive kite ?", "", ("olive", "kite"), ("price",)),
        ("what does coral vase cost ?", "", ("coral", "vase"), ("cost",)),
        ("how many seats has kite club ?", "", ("kite", "club"), ("seats",)),
        ("who wrote vase ?", "", ("vase",), ("wrote",)),
        ("write great on the kite page", "write", ("great", "kite", "page"), ()),
    ],
)
def test_goals(goal: str, verb: str, keys: tuple[str, ...], asked: tuple[str, ...]) -> None:
    read = read_goal(goal)
    assert (read.verb, read.keys, read.asked) == (verb, keys, asked)
    assert read.question == (not verb)


def test_goal_knows_extremes_persons_and_fields() -> None:
    assert read_goal("order the cheapest harp").extreme == -1
    assert read_goal("which kite has the most stars ?").extreme == 1
    assert read_goal("who made it ?").person
    assert "topic" in read_goal("send note about harps").fields["harps"]
    assert read_goal("").keys == ()


def test_words_and_forms() -> None:
    assert words("Red-hot  $45.50, OK!") == ("red-hot", "45.50", "ok")
    assert "posted" in past_forms("post") and "saved" in past_forms("save") and "planned" in past_forms("plan")
    assert past_forms("send") == {"sent"}
    assert names_key("kites", ("kite",)) and not names_key("kit", ("kite",))
    assert share(("a",), ("a", "b")) == 0.5 and share(("a",), ()) == 0


def test_page_key_is_equal_across_attempts() -> None:
    one = page_key("http://h:1/s/abc/item?name=x", "http://h:1/s/abc/")
    two = page_key("http://h:1/s/def/item?name=x", "http://h:1/s/def/")
    assert one == two == "item?name=x"
    assert page_key("https://other/x", "http://h:1/") == "https://other/x"


def test_moves_of_steps() -> None:
    now = observation(element("link", "Olive Kite"))
    point = Point(x=5, y=5)
    click = step(0, now, LeftClick(point=point), now, intent="Olive Kite")
    assert move_of(click, now.url) == Move("", "click", "olive kite")
    typed = step(0, now, Type(text="x", point=point), now, intent="find")
    assert move_of(typed, now.url) == Move("", "type", "find", "x")
    chosen = step(0, now, SelectOption(text="y", point=point), now, intent="size")
    assert move_of(chosen, now.url) == Move("", "select", "size", "y")
    assert move_of(step(0, now, Answer(text="7"), now), now.url) == Move("", "answer", "", "7")
    assert move_of(step(0, now, None, now), now.url) is None


def test_neighbours_are_rows() -> None:
    name, price, other = element("link", "kite", 0, 1), element("text", "$4", 6, 1), element("text", "$9", 6, 2)
    view = View(observation(name, price, other), "")
    assert view.near(name) == [price]
    assert view.near_words(price) == {"kite", "4"}


def test_acting_is_a_button_or_enter() -> None:
    goal, now = read_goal("order kite"), observation()
    click = LeftClick(point=Point(x=1, y=1))
    assert acts(step(0, now, click, now, hit=element("button", "order")), goal)
    assert not acts(step(0, now, click, now, hit=element("link", "order")), goal)
    typed = Type(text="kite", press_enter=True)
    assert acts(step(0, now, typed, now, hit=element("input", "note")), goal)
    assert not acts(step(0, now, typed, now, hit=element("input", "search")), goal)


def test_half_filled_forms() -> None:
    empty, full = element("input", "note"), element("input", "note", value="great")
    goal = read_goal("post great")
    assert half_filled(View(observation(empty), ""), goal, ())
    assert not half_filled(View(observation(full), ""), goal, ())
    guests = element("select", "guests", value="guests")
    assert half_filled(View(observation(guests), ""), read_goal("book kite for 2 guests"), ())
    assert not half_filled(View(observation(guests), ""), read_goal("book kite"), ())
