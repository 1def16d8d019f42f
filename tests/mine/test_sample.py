"""The draw: shares, floor, caps, the ceiling on hard states, the uniform control. And what is disjoint."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmsweb.config import MineConfig
from rmsweb.errors import ConfigError
from rmsweb.mine.disjoint import assert_disjoint, host_of
from rmsweb.mine.sample import draw, draw_uniform, mode_weights
from rmsweb.records import CriticalState, FailureMode, Observation, Task


def task(number: int, site: str = "a", template: str = "t", **more: Any) -> Task:
    made = {"id": f"{site}.{template}/{number}", "suite": "sites", "site": site, "template": template, "seed": number}
    return Task.model_validate({"split": "train", "goal": f"goal {number}", **made, **more})


def state(number: int, mode: str = "routine", site: str = "a", of: int | None = None) -> CriticalState:
    owner = task(number if of is None else of, site)
    now = Observation(image="0" * 64, url="http://x.test/")
    return CriticalState(id=f"{owner.id}#{number}@0", task=owner, history=(), now=now, mode=mode)


def mode(code: str, count: int, success: float = 0.0, trained: bool = True) -> FailureMode:
    return FailureMode(code=code, count=count, share=0.1, success=success, trained=trained)


def modes(*items: FailureMode) -> dict[str, FailureMode]:
    return {item.code: item for item in items}


WIDE = {"cap": 1.0, "task_cap": 99}


def test_mode_weights() -> None:
    known = modes(mode("a.a", 100), mode("b.b", 25), mode("c.c", 100, 0.5), mode("e.e", 400, trained=False))
    shares = mode_weights(known, MineConfig(alpha=0.5, beta=1, floor=0))
    assert shares == pytest.approx({"a.a": 0.5, "b.b": 0.25, "c.c": 0.25})
    lifted = mode_weights(modes(mode("a.a", 10000), mode("b.b", 1)), MineConfig(alpha=1, floor=0.1))
    assert lifted["b.b"] == pytest.approx(0.1 / 1.1, rel=1e-3)
    assert mode_weights(modes(mode("a.a", 3, 1.0), mode("b.b", 3, 1.0)), MineConfig(floor=0)) == {
        "a.a": 0.5,
        "b.b": 0.5,
    }
    assert mode_weights({}, MineConfig()) == {}


def test_the_draw_follows_the_shares() -> None:
    pool = [state(i, "a.a") for i in range(100)] + [state(100 + i, "b.b") for i in range(100)]
    pool += [state(200 + i) for i in range(200)]
    config = MineConfig(states=120, routine_share=0.5, alpha=1, floor=0, **WIDE)
    drawn = Counter(s.mode for s in draw(pool, modes(mode("a.a", 45), mode("b.b", 15)), config, 0))
    assert drawn["routine"] == 60
    assert abs(drawn["a.a"] - 45) <= 1


def test_what_one_mode_lacks_goes_to_the_others() -> None:
    pool = (
        [state(i, "a.a") for i in range(3)]
        + [state(50 + i, "b.b") for i in range(50)]
        + [state(200 + i) for i in range(50)]
    )
    drawn = Counter(
        s.mode for s in draw(pool, modes(mode("a.a", 90), mode("b.b", 10)), MineConfig(states=40, **WIDE), 0)
    )
    assert drawn == {"a.a": 3, "b.b": 17, "routine": 20}


@given(
    hard=st.integers(0, 60),
    easy=st.integers(0, 60),
    wanted=st.integers(1, 80),
    share=st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0]),
)
def test_hard_states_never_pass_their_share(hard: int, easy: int, wanted: int, share: float) -> None:
    pool = [state(i, "a.a") for i in range(hard)] + [state(100 + i) for i in range(easy)]
    config = MineConfig(states=wanted, routine_share=share, **WIDE)
    drawn = draw(pool, modes(mode("a.a", max(1, hard))), config, 3)
    assert len(drawn) == len({s.id for s in drawn}) <= wanted
    if share > 0:
        assert sum(s.mode != "routine" for s in drawn) <= (1 - share) * len(drawn) + 0.5
    else:
        assert sum(s.mode != "routine" for s in drawn) == min(hard, wanted)


def test_caps_by_site_and_task() -> None:
    pool = [state(i, "a.a", site) for site in ("x", "y", "z") for i in range(40)] + [
        state(i, site="x") for i in range(100, 200)
    ]
    drawn = draw(pool, modes(mode("a.a", 9)), MineConfig(states=100, cap=0.4, task_cap=9), 0)
    assert Counter(s.task.site for s in drawn)["x"] <= 40
    crowded = [state(i, "a.a", of=0) for i in range(50)] + [state(100 + i) for i in range(50)]
    drawn = draw(crowded, modes(mode("a.a", 9)), MineConfig(states=60, cap=1, task_cap=8), 0)
    assert sum(s.task.seed == 0 for s in drawn) == 8


def test_environment_modes_are_not_drawn() -> None:
    pool = [state(i, "environment.error") for i in range(5)] + [state(10 + i) for i in range(5)]
    drawn = draw(pool, modes(mode("environment.error", 5, trained=False)), MineConfig(states=10, **WIDE), 0)
    assert {s.mode for s in drawn} == {"routine"}


def test_the_draw_depends_on_the_seed_and_not_on_the_order() -> None:
    pool = [state(i, "a.a") for i in range(50)] + [state(100 + i) for i in range(50)]
    known, config = modes(mode("a.a", 9)), MineConfig(states=20, **WIDE)
    assert draw(pool, known, config, 1) == draw(pool[::-1], known, config, 1) != draw(pool, known, config, 2)


def test_uniform_control_keeps_natural_proportions() -> None:
    pool = [state(i, "a.a") for i in range(100)] + [state(1000 + i) for i in range(900)]
    drawn = draw_uniform(pool, 500, MineConfig(), 0)
    assert len(drawn) == 500 and 30 <= sum(s.mode == "a.a" for s in drawn) <= 70


def test_built_in_worlds_are_told_apart_by_seed_and_template() -> None:
    train = [task(i, goal="add red mug to cart") for i in range(3)]
    overlap = assert_disjoint(train, [task(9, goal="add red mug to cart", split="heldout")])
    assert (overlap.sentences, overlap.train, overlap.test) == (3, 3, 1)
    with pytest.raises(ConfigError, match=r"ids: a\.t/1"):
        assert_disjoint(train, [task(1)])
    with pytest.raises(ConfigError, match=r"goals_in_world: 'add red mug to cart' in sites/a seed 2"):
        assert_disjoint(train, [task(2, template="other", goal="add red mug to cart")])


LONG = "Find the cheapest return flight from Oslo to Rome in the first week of May"


@pytest.mark.parametrize(
    ("ours", "theirs", "error"),
    [
        ({"start_url": "https://www.Example.org/x"}, {"start_url": "http://example.org:80/"}, "hosts: example.org"),
        (
            {"start_url": "https://shop.example.org/"},
            {"start_url": "https://example.org/"},
            r"hosts: shop\.example\.org",
        ),
        (
            {"start_url": "https://a.test/", "goal": f"{LONG} please"},
            {"start_url": "https://b.test/", "goal": LONG},
            "grams: a.t/1",
        ),
        ({"start_url": "https://notexample.org/"}, {"start_url": "https://example.org/"}, ""),
        ({"start_url": "http://127.0.0.1:80/"}, {"start_url": "http://127.0.0.1:81/"}, ""),
    ],
)
def test_hosts_and_texts_of_real_sites(ours: dict[str, str], theirs: dict[str, str], error: str) -> None:
    train, test = [task(1, **ours)], [task(2, **{"goal": "something else", **theirs})]
    if not error:
        assert assert_disjoint(train, test).hosts == 0
        return
    with pytest.raises(ConfigError, match=error):
        assert_disjoint(train, test)
    assert host_of(train[0])
