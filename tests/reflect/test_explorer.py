"""The explorer: no site's words, replies that read back, what it looks at, what hints change."""

import ast
import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest
from small_stall import EMBEDDED, element, observation, step, task

import rmsweb.reflect
from rmsweb.actions import PROFILES, Answer, LeftClick, SelectOption, Type, Viewport, Wait
from rmsweb.config import ProfileConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Decision, Element, Observation, Outcome, Reflection
from rmsweb.reflect.explorer import Explorer
from rmsweb.reflect.hints import Hints
from rmsweb.reflect.reading import Move
from rmsweb.replies import parse_reply

FOLDER = Path(rmsweb.reflect.__file__).parent
GREEDY = Explorer(EMBEDDED, temperature=0)


def decide(goal: str, now: Observation, *history: object, policy: Explorer = GREEDY, **options: object) -> Decision:
    return asyncio.run(policy.decide(task(goal), list(history), now, **options))[0]  # type: ignore[arg-type]


def advice(hints: Hints) -> Reflection:
    return Reflection(trajectory_id="t#0", outcome=Outcome.FAILURE, hints=hints.to_json())


def test_it_knows_no_site() -> None:
    for name in ("explorer", "reading", "hints", "rules"):
        tree = ast.parse((FOLDER / f"{name}.py").read_text())
        modules = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        modules += [alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names]
        assert not [m for m in modules if m.startswith("rmsweb.web")], name


def test_it_carries_no_site_s_things() -> None:
    """Things (colours, kinds, people, topics, towns ...) of the built-in sites may not stand in its code."""
    from rmsweb.web.lexicon import CITIES, COLORS, NOUNS, PEOPLE, PRIORITIES, REMARKS, ROOMS, STATES, SUBJECTS, TOPICS

    things = {w for group in (CITIES, COLORS, NOUNS, PEOPLE, ROOMS, SUBJECTS, TOPICS) for w in group}
    things |= {w for group in (PRIORITIES, REMARKS, STATES) for w in group}
    for name in ("explorer", "reading", "hints", "rules"):
        tree = ast.parse((FOLDER / f"{name}.py").read_text())
        docs = {
            ast.get_docstring(n) for n in ast.walk(tree) if isinstance(n, ast.Module | ast.FunctionDef | ast.ClassDef)
        }
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        said = {w for text in texts if text not in docs for w in re.findall(r"[a-z]+", text.lower())}
        # English words that happen to be things as well: "book" is a verb, "order" is one too.
        assert said & things <= {"book", "order"}, name


@pytest.mark.parametrize("profile", [EMBEDDED, ProfileConfig()])
def test_replies_read_back(profile: ProfileConfig) -> None:
    viewport, scheme = Viewport(*profile.viewport), PROFILES[profile.coordinates]
    elements = [element("link", "olive kite", c, r) for c in range(0, 8, 3) for r in range(3)]
    elements += [element("input", "search", 0, 4), element("select", "size", 4, 4, value="size")]
    elements += [element("text", "$45", 0, 5), element("button", "order", 4, 5)]
    policy = Explorer(profile, temperature=3.0)
    kinds = Counter()
    for goal in ("order olive kite", "price of olive kite ?"):
        for decision in asyncio.run(policy.decide(task(goal), [], observation(*elements), n=80, seed=7)):
            parsed = parse_reply(decision.raw, viewport, scheme)
            assert parsed.action == decision.action and parsed.intent == decision.intent and not parsed.repairs
            kinds[decision.action.action if decision.action else ""] += 1
    assert set(kinds) == {"left_click", "type", "select_option", "answer"}


def test_compact_clicks_hit_the_first_cell() -> None:
    for column in range(10):
        for row in range(7):
            target = element("link", "kite", column, row, width=1)
            decision = decide("order kite", observation(target))
            assert isinstance(decision.action, LeftClick)
            assert target.box.contains(decision.action.point), (column, row, decision.action)


def test_draws_depend_on_the_seed_only() -> None:
    now = observation(*(element("link", name, 0, i) for i, name in enumerate(("amber", "ivory", "olive", "coral"))))
    policy = Explorer(EMBEDDED)
    one = [decide("order kite", now, policy=policy, seed=s).intent for s in range(20)]
    assert one == [decide("order kite", now, policy=policy, seed=s).intent for s in range(20)]
    assert len(set(one)) > 1


def test_near_misses_happen_and_are_rarer_than_hits() -> None:
    now = observation(element("link", "olive kite", 0, 1), element("link", "coral kite", 0, 2))
    drawn = Counter(decide("order olive kite", now, policy=Explorer(EMBEDDED), seed=s).intent for s in range(300))
    assert drawn["olive kite"] > 200 and drawn["coral kite"] > 3


def covered(target: Element) -> Element:
    return target.model_copy(update={"covered": True})


def test_layers_are_taken_off() -> None:
    now = observation(covered(element("link", "olive kite", 0, 5)), element("button", "accept", 0, 6))
    assert decide("order olive kite", now).intent == "accept"


def test_fields_selects_and_waits() -> None:
    form = (
        element("input", "note", 0, 1),
        element("select", "size", 0, 2, value="size"),
        element("button", "send", 0, 3),
    )
    first = decide("send small note about harps", observation(*form))
    assert isinstance(first.action, Type | SelectOption) and not getattr(first.action, "press_enter", False)
    search = decide("order olive kite", observation(element("input", "search")))
    assert isinstance(search.action, Type) and search.action.press_enter
    assert isinstance(decide("order kite", observation(element("text", "loading"))).action, Wait)
    assert isinstance(decide("order kite", observation()).action, Wait)


def test_answers_stand_beside_the_goal_s_words() -> None:
    rows = [element("link", name, 0, i) for i, name in enumerate(("olive kite", "coral kite"))]
    prices = [element("text", price, 6, i) for i, price in enumerate(("$31", "$54"))]
    decision = decide("price of coral kite ?", observation(*rows, *prices))
    assert decision.action == Answer(text="54") and decision.intent == "coral kite"
    facts = observation(element("text", "vase"), element("text", "code 7", 0, 1), element("text", "wait 9", 0, 2))
    assert decide("wait for vase ?", facts).action == Answer(text="9")
    who = observation(element("text", "vase", 0, 1), element("text", "by", 3, 1), element("text", "zoe", 5, 1))
    assert decide("who wrote vase ?", who).action == Answer(text="zoe")


def test_it_says_done_when_the_page_does() -> None:
    button = element("button", "order", 0, 3)
    before, after = (
        observation(element("text", "olive kite"), button),
        observation(element("text", "ordered olive kite")),
    )
    aim = decide("order olive kite", before)
    assert aim.intent == "order" and aim.action is not None
    done = decide("order olive kite", after, step(0, before, aim.action, after, intent="order", hit=button))
    assert done.action == Answer(text="done") and done.intent == "ordered olive kite"


def test_hints_change_the_choice() -> None:
    now = observation(
        element("link", "olive kite", 0, 1), element("link", "more", 0, 2), element("link", "about", 0, 3)
    )
    assert decide("order olive kite", now).intent == "olive kite"
    avoid = advice(Hints(avoid={Move("", "click", "olive kite")}))
    assert decide("order olive kite", now, reflections=[avoid]).intent == "more"
    prefer = advice(Hints(prefer=Counter({"about": 3})))
    assert decide("order olive kite", now, reflections=[prefer]).intent == "about"
    strict = advice(Hints(strict=True))
    wrong = observation(element("text", "coral kite"), element("button", "order", 0, 2), element("link", "olive", 0, 3))
    assert decide("order olive kite", wrong, reflections=[strict]).intent == "olive"
    query = advice(Hints(query="kite"))
    assert (
        decide("order olive kite", observation(element("input", "search")), reflections=[query]).action.text == "kite"
    )  # type: ignore[union-attr]


def test_repeats_lose_their_charm() -> None:
    now = observation(element("link", "olive kite", 0, 1), element("link", "more", 0, 2))
    first = decide("order olive kite", now)
    stuck = [step(i, now, first.action, now, intent="olive kite") for i in range(2)]
    assert decide("order olive kite", now, *stuck).intent == "more"


def test_without_elements_it_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"browser\.elements"):
        decide("order kite", Observation(image="", url=""))
