"""Rules that name a failure mode, and the summary of modes."""

from typing import Any

import pytest

from rmsweb.actions import Answer, LeftClick, Point, SelectOption, Type
from rmsweb.errors import ConfigError
from rmsweb.mine.label import Case, label, sampled
from rmsweb.mine.locate import Mark
from rmsweb.mine.taxonomy import load
from rmsweb.records import Decision, Effect, Element, ReferenceAction, Stop, Write


def test_taxonomy_is_two_levels_and_complete() -> None:
    taxonomy = load()
    groups = {mode.group for mode in taxonomy.modes.values()}
    assert groups == {
        *("grounding", "wrong_element", "wrong_value", "navigation", "loop", "premature_stop", "answer"),
        *("hallucination", "tool_misuse", "permission", "environment", "invalid_task", "unknown"),
    }
    assert {m.group for m in taxonomy.modes.values() if not m.trained} == {"environment", "invalid_task"}
    with pytest.raises(ConfigError, match=r"'loop\.x' is not in"):
        taxonomy.trained("loop.x")


def right(shop: Any, page: str, name: str) -> ReferenceAction:
    hit = next(e for e in shop.elements(page) if e.name == name)
    return ReferenceAction(action=shop.click(page, name), intent=name, hit=hit)


async def code(shop: Any, *names: str, step: int = -1, sign: str = "", reference: Any = None, **update: Any) -> str:
    trajectory, _ = await shop.walk(*names)
    trajectory = trajectory.model_copy(update=update)
    at = trajectory.steps[step]
    marks = (Mark(at.index, "mechanical", sign),) if sign else ()
    return label(Case(trajectory, at, marks, reference))


async def test_rules(shop: Any) -> None:
    red = right(shop, "start", "red mug")
    add = right(shop, "red mug", "add")
    found = [
        (await code(shop, "blue mug", reference=red), "wrong_element.near_miss"),
        (await code(shop, "blue mug"), "wrong_element.near_miss"),
        (await code(shop, "help", reference=red), "navigation.wrong_page"),
        (await code(shop, "red mug", "home", reference=add), "navigation.wrong_page"),
        (await code(shop, "blue mug", "add"), "wrong_element.wrong_act"),
        (await code(shop, "?"), "tool_misuse.unreadable"),
        (await code(shop, "red mug", "=done", reference=add), "premature_stop.claimed_done"),
        (await code(shop, "red mug", "=12"), "answer.wrong"),
        (await code(shop, "red mug", "=99"), "hallucination.unseen_answer"),
        (await code(shop, "help", "=9", sign="premature"), "premature_stop.early_answer"),
        (await code(shop, "help", "home", "help", sign="cycle"), "loop.cycle"),
        (await code(shop, "void", "void", sign="repeat"), "loop.repeat"),
        (await code(shop, "help", stop=Stop.BLOCKED), "environment.blocked"),
        (await code(shop, "help", stop=Stop.INVALID_TASK), "invalid_task.impossible"),
    ]
    assert [got for got, _ in found] == [wanted for _, wanted in found]


async def changed(shop: Any, decision: Decision, effect: Effect, reference: Any = None) -> str:
    trajectory, _ = await shop.walk("help")
    step = trajectory.steps[0].model_copy(update={"decision": decision, "effect": effect})
    return label(Case(trajectory, step, (), reference))


async def test_rules_on_other_actions(shop: Any) -> None:
    point = Point(x=16, y=46)
    field = Element(role="input", name="search", box=shop.elements("start")[1].box)
    typed = ReferenceAction(action=Type(text="mug", point=point), hit=field)
    chosen = ReferenceAction(action=SelectOption(point=point, text="red"), hit=field)
    click = Decision(action=LeftClick(point=point), intent="red mug", raw="x")
    far = Decision(action=LeftClick(point=Point(x=300, y=200)), intent="red mug", raw="x")
    wrong = Effect(hit=shop.elements("start")[2], changed=True)
    text = Decision(action=Type(text="lamp", point=point), raw="x")
    missed = [
        Decision(action=SelectOption(point=point, text="blue"), raw="x"),
        Effect(value="blue", changed=True),
        chosen,
    ]
    assert await changed(shop, text, Effect(value="lamp", changed=True), typed) == "wrong_value.text"
    assert await changed(shop, *missed) == "wrong_value.option"
    passed = Effect(hit=shop.elements("start")[0], changed=True)
    assert await changed(shop, click, passed, typed) == "wrong_value.missed_control"
    assert await changed(shop, click, wrong) == "grounding.beside"
    assert await changed(shop, far, Effect()) == "grounding.missed"
    assert await changed(shop, text, Effect()) == "grounding.no_field"
    assert await changed(shop, click, Effect(error="no such key")) == "tool_misuse.illegal"
    stopped = Effect(writes=(Write(method="POST", url="http://x.test/order", stopped=True),))
    assert await changed(shop, click, stopped) == "permission.write"
    unseen = Decision(action=LeftClick(point=point), intent="green lamp", raw="x")
    assert await changed(shop, unseen, wrong) == "hallucination.unseen_target"
    cut = Decision(raw="<tool", truncated=True)
    assert await changed(shop, cut, Effect()) == "tool_misuse.truncated"


async def test_a_right_value_in_a_useless_form(shop: Any) -> None:
    reference = ReferenceAction(action=Answer(text="12"))
    assert await code(shop, "red mug", "=the price is 12", reference=reference) == "answer.form"
    assert await code(shop, "red mug", "=", reference=reference) == "answer.missing"


async def test_replies_that_were_only_drawn_are_named_by_the_reference(shop: Any) -> None:
    trajectory, _ = await shop.walk("red mug")
    said = shop.say("start", "blue mug")
    case = sampled(trajectory, trajectory.steps[0], said, (), right(shop, "start", "red mug"))
    assert label(case) == "wrong_element.near_miss"
    unread = sampled(trajectory, trajectory.steps[0], shop.say("start", "?"), (), None)
    assert label(unread) == "tool_misuse.unreadable"


async def test_doubt_alone_names_no_mode(shop: Any) -> None:
    trajectory, _ = await shop.walk("blue mug")
    doubt = (Mark(0, "instability", "unstable"),)
    assert label(Case(trajectory, trajectory.steps[0], doubt)) == "unknown.unknown"
    assert (
        label(Case(trajectory, trajectory.steps[0], doubt, right(shop, "start", "red mug")))
        == "wrong_element.near_miss"
    )
