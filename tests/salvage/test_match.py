"""The action-semantic match of method.md 3, kind by kind."""

import itertools
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmsweb.actions import (
    Action,
    Answer,
    CloseTab,
    DoubleClick,
    Drag,
    GoBack,
    Goto,
    Key,
    LeftClick,
    Memorize,
    MouseMove,
    NewTab,
    Point,
    RightClick,
    Scroll,
    SelectOption,
    SwitchTab,
    Terminate,
    TripleClick,
    Type,
    Viewport,
    Wait,
    WebSearch,
)
from rmsweb.config import MatchConfig
from rmsweb.records import Box, Element, ReferenceAction
from rmsweb.salvage.match import best, cluster, element_at, match

VIEW = Viewport(1000, 500)
CONFIG = MatchConfig()
STRICT = MatchConfig(strict=True)
EXAMPLES: list[Action] = [
    LeftClick(point=Point(x=100, y=100)),
    DoubleClick(point=Point(x=100, y=100)),
    TripleClick(point=Point(x=100, y=100)),
    RightClick(point=Point(x=100, y=100)),
    MouseMove(point=Point(x=100, y=100)),
    Drag(point=Point(x=100, y=100), start=Point(x=400, y=100)),
    Type(text="red mug", point=Point(x=100, y=100)),
    Key(keys=("Control", "a")),
    Scroll(dy=300),
    Wait(),
    Goto(url="https://a.example/x"),
    WebSearch(query="red mug"),
    GoBack(),
    SwitchTab(tab=1),
    NewTab(url="https://a.example/x"),
    CloseTab(tab=1),
    SelectOption(point=Point(x=100, y=100), text="blue"),
    Memorize(fact="the price is 3"),
    Answer(text="42"),
    Terminate(status="failure"),
]


def click(x: int, y: int) -> LeftClick:
    return LeftClick(point=Point(x=x, y=y))


def box(x: float, y: float, w: float, h: float, role: str = "button", name: str = "x", selector: str = "") -> Element:
    return Element(role=role, name=name, box=Box(x=x, y=y, width=w, height=h), selector=selector)  # type: ignore[arg-type]


def equal(a: Action, b: Action, config: MatchConfig = CONFIG, **known: Element | None) -> bool:
    hit = known.pop("reference_hit", None)
    return match(a, ReferenceAction(action=b, hit=hit), VIEW, config, **known).equal  # type: ignore[arg-type]


def test_every_kind_equals_itself_and_no_other() -> None:
    assert {type(a) for a in EXAMPLES} == set(get_args(get_args(Action)[0]))
    for a, b in itertools.product(EXAMPLES, EXAMPLES):
        assert equal(a, b) is (a is b), (a, b)
        assert equal(a, b, STRICT) is (a is b), (a, b)


def test_pointing_by_box_distance_and_element() -> None:
    wide = box(100, 100, 400, 20)
    assert equal(click(495, 110), click(120, 110), reference_hit=wide)
    assert equal(click(520, 110), click(120, 110), reference_hit=wide), "box grown 1.2x"
    assert not equal(click(560, 110), click(120, 110), reference_hit=wide)
    assert equal(click(139, 100), click(100, 100)) and not equal(click(142, 100), click(100, 100)), "x: .04 of 1000"
    assert equal(click(100, 119), click(100, 100)) and not equal(click(100, 121), click(100, 100)), "y: .04 of 500"
    here, there = box(0, 0, 50, 20, selector="#a"), box(900, 400, 50, 20, selector="#a")
    assert equal(click(910, 410), click(10, 10), hit=there, reference_hit=here), "the same DOM element"
    neighbours = box(0, 0, 20, 20, selector="#a"), box(24, 0, 20, 20, selector="#b")
    assert not equal(click(30, 10), click(10, 10), hit=neighbours[1], reference_hit=neighbours[0])


def test_the_margin_ends_where_a_neighbour_begins() -> None:
    wide, next_to_it = box(0, 0, 100, 20, selector="#a"), box(100, 0, 100, 20, selector="#b")
    assert equal(click(105, 10), click(10, 10), reference_hit=wide), "nothing known there: forgiven"
    assert not equal(click(105, 10), click(10, 10), reference_hit=wide, hit=next_to_it)


def test_what_lies_under_a_layer_is_not_hit() -> None:
    below = box(0, 0, 100, 20, name="buy").model_copy(update={"covered": True})
    assert element_at(click(10, 10), [below]) is None
    assert element_at(click(10, 10), [below, box(0, 0, 300, 200, name="accept")]).name == "accept"  # type: ignore[union-attr]


def test_type_compares_field_text_enter_and_clear() -> None:
    at = Point(x=100, y=100)
    base = Type(text="Red  Mug", point=at)
    assert equal(Type(text="red mug", point=Point(x=110, y=100)), base)
    for other in (
        Type(text="blue mug", point=at),
        Type(text="red mug", point=Point(x=600, y=100)),
        Type(text="red mug", point=at, press_enter=True),
        Type(text="red mug", point=at, clear_first=True),
    ):
        assert not equal(other, base)


def test_long_texts_by_token_f1_but_numbers_must_agree() -> None:
    at = Point(x=1, y=1)
    text = "Please refund order 17 because the red mug arrived broken"
    near = "please refund order 17 because the red mug came broken"
    assert equal(Type(text=near, point=at), Type(text=text, point=at))
    assert not equal(Type(text=text.replace("17", "71"), point=at), Type(text=text, point=at))
    assert not equal(Type(text="red cup", point=at), Type(text="red mug", point=at)), "short texts are exact"


def test_scroll_axis_sign_and_factor_two() -> None:
    assert equal(Scroll(dy=600), Scroll(dy=300)) and not equal(Scroll(dy=601), Scroll(dy=300))
    assert not equal(Scroll(dy=-300), Scroll(dy=300)) and not equal(Scroll(dx=300), Scroll(dy=300))


@pytest.mark.parametrize(
    "a, b",
    [
        ("https://www.shop.example/a/?b=2&a=1", "http://shop.example/a?a=1&b=2#top"),
        ("shop.example", "https://shop.example/"),
        ("https://shop.example:443/x?utm_source=y", "https://shop.example/x"),
    ],
)
def test_canonical_urls(a: str, b: str) -> None:
    assert equal(Goto(url=a), Goto(url=b)) and equal(NewTab(url=a), NewTab(url=b))
    assert not equal(Goto(url="http://shop.example:8080/x"), Goto(url="http://shop.example/x"))


def test_answers_by_value_and_status() -> None:
    assert equal(Answer(text="1,234.0"), Answer(text="1234."))
    assert not equal(Answer(text="12"), Answer(text="21"))
    assert not equal(Terminate(status="success"), Terminate(status="failure"))
    assert not equal(Terminate(status="success", text="3"), Terminate(status="success", text="4"))


def test_keys_without_order() -> None:
    assert equal(Key(keys=("a", "Control")), Key(keys=("Control", "a")))
    assert not equal(Key(keys=("Control", "b")), Key(keys=("Control", "a")))


def test_cross_kind_table_and_strict_mode() -> None:
    answer, done = Answer(text="5"), Terminate(status="success", text="5.0")
    enter, send = Key(keys=("Enter",)), box(90, 90, 40, 20, name="Search")
    field = box(90, 90, 200, 20, role="input")
    at, into = Type(text="mug", point=Point(x=100, y=100)), Type(text="mug")
    assert equal(done, answer) and equal(answer, done)
    assert equal(enter, click(100, 100), reference_hit=send, focus=field)
    assert equal(click(100, 100), enter, hit=send, focus=field)
    assert not equal(enter, click(100, 100), reference_hit=send), "Enter on nothing sends nothing"
    assert equal(into, at, focus=field) and equal(at, into, reference_hit=field)
    assert not equal(into, at), "without knowing the focus nothing is assumed"
    assert not equal(enter, click(100, 100), reference_hit=box(90, 90, 40, 20, name="Delete"), focus=field)
    assert not equal(click(100, 100), at, reference_hit=field), "a click is half of `type` at a field"
    assert not equal(done, answer, STRICT)
    assert not equal(enter, click(100, 100), STRICT, reference_hit=send, focus=field)
    assert not equal(into, at, STRICT, focus=field)


def test_best_of_several_references() -> None:
    references = [ReferenceAction(action=click(10, 10)), ReferenceAction(action=click(500, 250))]
    found = best(click(505, 250), references, VIEW, CONFIG)
    assert found is not None and found.equal and found.score == 1.0
    missed = best(GoBack(), references, VIEW, CONFIG)
    assert missed is not None and not missed.equal and missed.scores == {"kind": 0.0}
    assert best(GoBack(), [], VIEW, CONFIG) is None


def test_sub_scores_are_given_and_below_one_when_unequal() -> None:
    at = Point(x=100, y=100)
    found = match(Type(text="red cup", point=at), ReferenceAction(action=Type(text="red mug", point=at)), VIEW, CONFIG)
    assert found.scores["target"] == 1 and 0 < found.scores["text"] < 1 and 0.5 < found.score < 1


def test_clusters_of_a_group() -> None:
    group = [click(10, 10), click(12, 10), None, GoBack(), None, click(900, 400)]
    assert cluster(group, VIEW, CONFIG) == [0, 0, 1, 2, 1, 3]
    long = box(0, 390, 1000, 20)
    assert cluster([click(10, 400), click(900, 400)], VIEW, CONFIG, [long]) == [0, 0]
    assert element_at(click(10, 400), [long, box(0, 395, 20, 10, name="inner")]).name == "inner"  # type: ignore[union-attr]


@given(
    st.lists(st.sampled_from([*EXAMPLES, None, click(120, 100), click(150, 100), Scroll(dy=500)]), max_size=9),
    st.randoms(),
)
def test_clusters_do_not_depend_on_order(group: list[Action | None], random: object) -> None:
    order = list(range(len(group)))
    random.shuffle(order)  # type: ignore[attr-defined]
    before, after = cluster(group, VIEW, CONFIG), cluster([group[i] for i in order], VIEW, CONFIG)
    for i, j in itertools.combinations(range(len(order)), 2):
        assert (after[i] == after[j]) == (before[order[i]] == before[order[j]])


@given(st.sampled_from(EXAMPLES), st.sampled_from(EXAMPLES), st.integers(0, 900), st.integers(0, 900))
def test_match_is_symmetric_without_elements(a: Action, b: Action, x: int, y: int) -> None:
    if hasattr(a, "point"):
        a = a.model_copy(update={"point": Point(x=x, y=y // 2)})
    assert equal(a, b) == equal(b, a)
