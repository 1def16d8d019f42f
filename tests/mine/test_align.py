"""State keys, shortest paths, what a success teaches; same meaning of two actions."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmsweb.actions import Answer, GoBack, LeftClick, Point, Scroll, Terminate, Type, Viewport
from rmsweb.mine.align import Successes, shortest_path, state_keys, url_key
from rmsweb.mine.meaning import clusters, plain, same_action
from rmsweb.records import Box, Element, Observation

VIEW = Viewport(320, 224)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("http://127.0.0.1:4000/s/tok1/item/3", "http://localhost:99/s/tok2/item/3/", True),
        ("http://127.0.0.1:4000/s/tok1/item/3", "http://127.0.0.1:4000/s/tok1/item/4", False),
        ("https://www.example.org/a?b=1&a=2&utm_source=x", "https://example.org/a/?a=2&b=1#top", True),
        ("https://example.org/s/one", "https://example.org/s/two", False),
        ("https://example.org/#/one", "https://example.org/#/two", False),
        ("https://example.org:8443/", "https://example.org/", False),
    ],
)
def test_url_key(a: str, b: str, same: bool) -> None:
    assert (url_key(a) == url_key(b)) is same


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20))
def test_shortest_path_visits_each_state_once_and_joins_up(states: list[str]) -> None:
    path = shortest_path(states)
    visited = [states[i] for i in path]
    assert len(visited) == len(set(visited))
    if path:
        assert visited[0] == states[0]
        for earlier, later in itertools.pairwise(path):
            assert states[earlier + 1] == states[later] or earlier + 1 == later
        assert states[path[-1] + 1] == states[-1]
    else:
        assert states[0] == states[-1]


async def test_detours_and_slips_of_a_success_are_no_references(shop: Any) -> None:
    trajectory, verdict = await shop.walk("void", "help", "home", "red mug", "add", "=done")
    assert verdict.success
    known = Successes(VIEW)
    known.add(trajectory, "sibling")
    keys = state_keys(trajectory.steps)
    assert [r.intent for r in known.at("shop-0", keys[0], trajectory.id)] == ["red mug"]
    assert known.at("shop-0", keys[2]) == ()
    assert [r.intent for r in known.at("shop-0", keys[5])] == ["done"]
    assert known.fewest("shop-0") == 3
    assert known.at("shop-0", keys[0], trajectory.id)[0].source == "self"
    assert known.at("shop-0", keys[0])[0].source == "sibling"
    assert known.at("shop-1", keys[0]) == ()


async def test_references_come_shortest_first_and_once(shop: Any) -> None:
    known = Successes(VIEW)
    long, _ = await shop.walk("help", "home", "red mug", "add", "=done")
    short, _ = await shop.walk("red mug", "add", "=done", attempt=1)
    for trajectory, source in ((long, "teacher"), (short, "sibling")):
        known.add(trajectory, source)
    references = known.at("shop-0", state_keys(short.steps)[0])
    assert [(r.intent, r.source) for r in references] == [("red mug", "sibling")]


async def test_advised_thoughts_are_left_out(shop: Any) -> None:
    trajectory, _ = await shop.walk("red mug", "add", "=done")
    steps = tuple(
        s.model_copy(update={"decision": s.decision.model_copy(update={"thought": "as advised"})})
        for s in trajectory.steps
    )
    known = Successes(VIEW)
    known.add(trajectory.model_copy(update={"steps": steps, "advice": "take the red one"}), "retry")
    reference = known.at("shop-0", state_keys(steps)[0])[0]
    assert (reference.thought, reference.source) == ("", "retry")


def at(x: int, y: int) -> LeftClick:
    return LeftClick(point=Point(x=x, y=y))


def box(y: int, selector: str = "") -> Element:
    return Element(role="link", name="a", box=Box(x=0, y=y, width=100, height=28), selector=selector)


def test_same_action() -> None:
    assert same_action(at(10, 10), at(90, 20), VIEW, box(0, "#a"), box(0, "#a"))
    assert not same_action(at(10, 10), at(10, 20), VIEW, box(0, "#a"), box(0, "#b"))
    assert same_action(at(10, 10), at(90, 20), VIEW, box(0))
    assert same_action(at(10, 10), at(15, 12), VIEW) and not same_action(at(10, 10), at(60, 12), VIEW)
    assert same_action(Answer(text="$12.00"), Terminate(status="success", text="12"), VIEW)
    assert not same_action(Answer(text=""), Terminate(status="failure"), VIEW)
    assert same_action(Type(text="Red  mug"), Type(text="red mug", point=Point(x=1, y=1)), VIEW)
    assert not same_action(Type(text="red mug", press_enter=True), Type(text="red mug"), VIEW)
    assert same_action(Scroll(dy=100), Scroll(dy=300), VIEW) and not same_action(Scroll(dy=100), Scroll(dy=-100), VIEW)
    assert same_action(GoBack(), GoBack(), VIEW) and not same_action(None, None, VIEW)
    assert (plain("$0.00"), plain(" Done. "), plain("1,200")) == ("0", "done", "1200")


def test_clusters_are_by_element_and_unreadable_replies_stand_alone() -> None:
    now = Observation(image="0" * 64, url="http://x.test/", elements=(box(0, "#a"), box(100, "#b")))
    groups = clusters([at(5, 5), None, at(90, 20), at(5, 110), None], now, VIEW)
    assert groups == [[0, 2], [1], [3], [4]]
