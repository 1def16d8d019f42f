"""Detectors on trajectories made by hand in the shop of conftest.py."""

from typing import Any

import pytest

from rmsweb.actions import Scroll, Viewport
from rmsweb.mine.align import Successes
from rmsweb.mine.locate import better_in_sight, divergence, first_error, goal_words, is_no_op, locate, mechanical
from rmsweb.records import Effect, Stop, Trajectory

ALL = ("first_error", "divergence", "mechanical")


def signs(marks: Any, *detectors: str) -> list[tuple[int, str]]:
    return [(m.step, m.sign) for m in marks if not detectors or m.detector in detectors]


def known_of(*good: Trajectory) -> Successes:
    known = Successes(Viewport(320, 224))
    for trajectory in good:
        known.add(trajectory, "sibling")
    return known


async def test_the_same_click_on_the_same_page_is_a_loop(shop: Any) -> None:
    trajectory, _ = await shop.walk("void", "void", "void", "void")
    assert trajectory.stop is Stop.NO_PROGRESS
    marks = mechanical(trajectory, failed=True)
    assert (1, "repeat") in signs(marks) and signs(marks).count((1, "repeat")) == 1
    assert [m.step for m in marks if m.sign == "no_effect"] == [0, 1, 2, 3]
    assert (3, "step_cap") in signs(marks)


async def test_twice_is_no_loop(shop: Any) -> None:
    trajectory, _ = await shop.walk("void", "void", "red mug")
    assert "repeat" not in {m.sign for m in mechanical(trajectory, failed=True)}


@pytest.mark.parametrize(
    ("names", "at"),
    [
        (("help", "home", "help", "home"), 2),
        (("red mug", "home", "help", "home", "red mug", "home", "help", "home"), 4),
        (("red mug", "home", "blue mug", "home", "help", "home"), None),
    ],
)
async def test_cycles(shop: Any, names: tuple[str, ...], at: int | None) -> None:
    trajectory, _ = await shop.walk(*names)
    trajectory = trajectory.model_copy(update={"stop": Stop.STEP_LIMIT})
    found = [m.step for m in mechanical(trajectory, failed=True) if m.sign == "cycle"]
    assert found == ([] if at is None or len(trajectory.steps) < 2 * at else [at])


async def test_scrolls_that_move_are_progress(shop: Any) -> None:
    trajectory, _ = await shop.walk("help")
    step = trajectory.steps[0]
    scroll = step.decision.model_copy(update={"action": Scroll(dy=100)})
    for moved, idle in ((100, False), (0, True), (None, True)):
        changed = step.model_copy(update={"decision": scroll, "effect": Effect(moved=moved)})
        assert is_no_op(changed) is idle


async def test_unreadable_replies_are_marked_in_successes_too(shop: Any) -> None:
    trajectory, verdict = await shop.walk("?", "red mug", "add", "=done")
    assert verdict.success
    assert signs(locate(trajectory, verdict, known_of(trajectory), ALL)) == [(0, "unreadable")]


async def test_divergence_is_the_last_shared_state_with_another_meaning(shop: Any) -> None:
    good, _ = await shop.walk("red mug", "add", "=done")
    bad, verdict = await shop.walk("help", "home", "red mug", "home", "blue mug", "add", "=done", attempt=1)
    assert verdict.success is False
    assert signs(divergence(bad, known_of(good))) == [(4, "diverged")]
    assert divergence(bad, known_of()) == []


async def test_states_after_another_effect_are_not_shared(shop: Any) -> None:
    """The start page looks the same with the wrong thing in the cart; what works from it does not any more."""
    good, _ = await shop.walk("red mug", "add", "=done")
    bad, _ = await shop.walk("blue mug", "add", "home", "help", attempt=1)
    assert signs(divergence(bad, known_of(good))) == [(0, "diverged")]


async def test_first_error_takes_the_named_step(shop: Any) -> None:
    bad, verdict = await shop.walk("help", "home", "red mug", "=done")
    named = verdict.model_copy(update={"first_error": 2})
    assert signs(first_error(bad, named, known_of())) == [(2, "first_error")]
    assert signs(first_error(bad, verdict.model_copy(update={"first_error": 99}), known_of())) == [(3, "first_error")]


async def test_first_error_by_rule(shop: Any) -> None:
    near, verdict = await shop.walk("help", "home", "blue mug", "add", "=done")
    assert first_error(near, verdict, known_of())[0].step == 2
    assert "'red mug' was in sight" in first_error(near, verdict, known_of())[0].why
    detour, verdict = await shop.walk("red mug", "home", "red mug")
    assert first_error(detour, verdict, known_of())[0].step == 0
    ended, verdict = await shop.walk("red mug", "=done")
    assert first_error(ended, verdict, known_of())[0].step == 1


async def test_what_a_success_did_too_is_no_error(shop: Any) -> None:
    good, _ = await shop.walk("red mug", "add", "=done")
    bad, verdict = await shop.walk("red mug", "add", "=nothing", attempt=1)
    assert first_error(bad, verdict, known_of())[0].step == 1
    assert first_error(bad, verdict, known_of(good))[0].step == 2


async def test_consent_is_no_wrong_act_and_goal_words_decide_what_is_better(shop: Any) -> None:
    near, _ = await shop.walk("blue mug")
    goal = goal_words("add red mug to cart")
    assert goal == {"add", "red", "mug", "cart"}
    better = better_in_sight(near.steps[0], goal)
    assert better is not None and better.name == "red mug"
    right, _ = await shop.walk("red mug")
    assert better_in_sight(right.steps[0], goal) is None


async def test_premature_answers(shop: Any) -> None:
    good, _ = await shop.walk("red mug", "add", "=done")
    early, verdict = await shop.walk("red mug", "=done")
    marks = locate(early, verdict, known_of(good), ("mechanical",))
    assert signs(marks) == [(1, "premature")]
    assert not locate(good, verdict.model_copy(update={"success": True}), known_of(good), ALL)


async def test_blocked_and_invalid_ends_are_one_mark(shop: Any) -> None:
    bad, verdict = await shop.walk("help", "home")
    blocked = bad.model_copy(update={"stop": Stop.BLOCKED})
    assert signs(locate(blocked, verdict, known_of(), ALL)) == [(1, "ended")]
