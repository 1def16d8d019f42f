"""The rule reflector: each rule on a small attempt; nothing but success is read of the verdict; hints round-trip."""

import random
from collections import Counter

import pytest
from small_stall import element, observation, step, trajectory

from rmsweb.actions import Action, Answer, LeftClick, Point, SelectOption, Type
from rmsweb.records import Outcome, Reflection, Stop, Verdict
from rmsweb.reflect.hints import Hints, merge, read_hints
from rmsweb.reflect.reading import Move
from rmsweb.reflect.rules import reflect

NO = Verdict(success=False, judge="rules:stall", reason="expected quince")
CLICK = LeftClick(point=Point(x=10, y=10))
HOME = observation(element("link", "kite"), element("link", "about"), url="http://h/s/1/")
KITES = observation(
    element("link", "olive kite"), element("link", "coral kite"), element("link", "next"), url="http://h/s/1/kite"
)
CORAL = observation(element("text", "coral kite"), element("button", "order"), url="http://h/s/1/kite/coral")
DONE = observation(element("text", "ordered coral kite"), url="http://h/s/1/done")


def hints_of(goal: str, *steps: object, stop: Stop = Stop.ANSWERED) -> tuple[Hints, Reflection]:
    done = trajectory(goal, *steps, stop=stop)  # type: ignore[arg-type]
    reflection = reflect(done.task, done, NO)
    return read_hints(reflection.hints), reflection


def test_wrong_act_and_claim() -> None:
    order = element("button", "order")
    hints, reflection = hints_of(
        "order olive kite",
        step(0, HOME, CLICK, KITES, "kite"),
        step(1, KITES, CLICK, CORAL, "coral kite"),
        step(2, CORAL, CLICK, DONE, "order", hit=order),
        step(3, DONE, Answer(text="done"), DONE, "done"),
    )
    assert hints.strict and Move("kite/coral", "click", "order") in hints.avoid
    assert Move("kite", "click", "coral kite") in hints.avoid
    assert hints.prefer["kite"] == 1 and "coral kite" not in hints.prefer
    assert reflection.outcome is Outcome.FAILURE and reflection.first_bad_step == 1
    assert "'order' was used where the page does not show 'olive'" in reflection.cause


def test_wrong_answer_is_not_given_again() -> None:
    facts = observation(element("text", "coral kite"), element("text", "$31", 6))
    hints, reflection = hints_of("price of olive kite ?", step(0, facts, Answer(text="31"), facts, "coral kite"))
    assert hints.verify and Move("", "answer", "", "31") in hints.avoid
    assert reflection.code == "premature_stop.early_answer"


def test_dead_end_names_one_word() -> None:
    field = element("input", "search")
    start, empty = observation(field), observation(field, element("text", "no results"), url="http://h/s/1/q")
    typed = Type(text="olive kite basket", point=Point(x=1, y=1), press_enter=True)
    hints, reflection = hints_of("order olive kite", step(0, start, typed, empty, "search"), stop=Stop.STEP_LIMIT)
    assert hints.query == "kite" and Move("", "type", "search", "olive kite basket") in hints.avoid
    assert reflection.code == "wrong_value.text" and reflection.outcome is Outcome.OVER_BUDGET


def test_loops_refusals_half_forms_and_unused_controls() -> None:
    back = step(0, HOME, CLICK, HOME, "about")
    hints, reflection = hints_of("order kite", back, back.model_copy(update={"index": 1}), stop=Stop.NO_PROGRESS)
    assert Move("", "click", "about") in hints.avoid and reflection.code == "loop.repeat"

    form = observation(element("select", "size", value="size"), element("button", "send"))
    choose = SelectOption(text="kite", point=Point(x=1, y=1))
    hints, _ = hints_of("send small kite", step(0, form, choose, form, "size", error="no option reads 'kite'"))
    assert Move("", "select", "size", "kite") in hints.avoid

    note = observation(element("input", "note"), element("button", "post"))
    missing = observation(element("input", "note"), element("button", "post"), element("text", "missing note"))
    hints, _ = hints_of("post great", step(0, note, CLICK, missing, "post", hit=element("button", "post")))
    assert hints.fill

    prices = observation(element("link", "olive kite"), element("link", "sort", 6), element("link", "next", 8))
    hints, _ = hints_of("order cheapest vase", step(0, prices, CLICK, prices, "olive kite"), stop=Stop.STEP_LIMIT)
    assert hints.prefer["sort"] and hints.prefer["next"]


def test_success_teaches_the_straight_way() -> None:
    about = observation(element("link", "home"), url="http://h/s/1/about")
    done = trajectory(
        "order coral kite",
        step(0, HOME, CLICK, about, "about"),
        step(1, about, CLICK, HOME, "home"),
        step(2, HOME, CLICK, KITES, "kite"),
        step(3, KITES, CLICK, CORAL, "coral kite"),
        step(4, CORAL, Answer(text="done"), CORAL, "done"),
    )
    reflection = reflect(done.task, done, Verdict(success=True, judge="x"), step_budget=3)
    hints = read_hints(reflection.hints)
    assert reflection.outcome is Outcome.SUCCESS and reflection.code == "loop.cycle"
    assert hints.avoid == {Move("", "click", "about")}
    assert hints.prefer == Counter({"kite": 1, "coral kite": 1}) and not hints.strict


def test_nothing_of_the_verdict_but_success_is_read() -> None:
    done = trajectory("order olive kite", step(0, HOME, Answer(text="done"), HOME, "done"))
    plain = reflect(done.task, done, Verdict(success=False, judge="x"))
    assert reflect(done.task, done, NO) == plain
    assert "quince" not in plain.model_dump_json()


def test_length_is_capped() -> None:
    steps = [step(i, HOME, CLICK, KITES, f"very long label number {i % 7}") for i in range(40)]
    done = trajectory("order olive kite", *steps, stop=Stop.STEP_LIMIT)
    for chars in (60, 200, 800):
        reflection = reflect(done.task, done, NO, chars=chars)
        assert len(reflection.cause + reflection.lesson + reflection.plan) <= chars


@pytest.mark.parametrize("seed", range(20))
def test_any_attempt_gets_a_reflection(seed: int) -> None:
    """Random walks, empty ones included: never an error, steps in range, hints that read back."""
    draw = random.Random(seed)
    pages = (HOME, KITES, CORAL, DONE, observation())
    actions: list[Action | None] = [CLICK, None, Answer(text="x"), Type(text="kite", press_enter=True)]
    steps = [
        step(i, draw.choice(pages), draw.choice(actions), draw.choice(pages), draw.choice(("kite", "", "next")))
        for i in range(draw.randrange(9))
    ]
    done = trajectory(draw.choice(("order olive kite", "price of kite ?", "")), *steps, stop=draw.choice(list(Stop)))
    reflection = reflect(done.task, done, NO)
    assert reflection.first_bad_step is None or 0 <= reflection.first_bad_step <= max(0, len(steps) - 1)
    assert read_hints(reflection.hints).to_json() == reflection.hints


def test_hints_add_up_and_tolerate_anything() -> None:
    one = Reflection(trajectory_id="a", outcome=Outcome.FAILURE, hints={"query": "kite", "prefer": {"next": 1}})
    two = Reflection(
        trajectory_id="b", outcome=Outcome.FAILURE, hints={"strict": True, "avoid": [["p", "click", "x", ""]]}
    )
    both = merge([one, two])
    assert (both.query, both.strict, both.prefer["next"]) == ("kite", True, 1)
    assert both.avoid == {Move("p", "click", "x")}
    assert read_hints({"avoid": "x", "prefer": [1], "query": 3, "strict": "yes", "other": None}) == Hints()
