"""Figures of collection, against numbers worked out by hand."""

import pytest
from small_stall import observation, step, task, trajectory

from rmsweb.actions import Wait
from rmsweb.config import CollectConfig
from rmsweb.records import Trajectory, Verdict
from rmsweb.reflect.yields import kept, paired_difference, summary
from rmsweb.statistics import mean_interval, ratio_interval, wilson

NOW = observation()


def attempt(name: str, number: int, steps: int, success: bool | None) -> tuple[Trajectory, Verdict]:
    about = task("order kite", name, template="a" if name < "c" else "b")
    done = trajectory(
        "", *(step(i, NOW, Wait(), NOW) for i in range(steps)), task=about, attempt=number, id=f"plain/{name}#{number}"
    )
    return done, Verdict(success=success, judge="x", trajectory_id=done.id)


PAIRS = [
    attempt("a", 0, 4, True),
    attempt("b", 0, 9, True), attempt("b", 1, 3, True),
    attempt("c", 0, 5, False), attempt("c", 1, 6, True),
    attempt("d", 0, 5, False), attempt("d", 1, 5, False), attempt("d", 2, 3, False),
]  # fmt: skip
VERDICTS = {v.trajectory_id: v for _, v in PAIRS}
RUNS = [t for t, _ in PAIRS]


def test_kept_is_the_shortest_success() -> None:
    assert kept(RUNS[:1], VERDICTS) == RUNS[0]
    assert kept(RUNS[1:3], VERDICTS) == RUNS[2]
    assert kept(RUNS[5:], VERDICTS) is None
    equal = [attempt("e", 0, 3, True), attempt("e", 1, 3, True)]
    assert kept([t for t, _ in equal], {v.trajectory_id: v for _, v in equal}) == equal[0][0]


def test_summary_by_hand() -> None:
    tasks = [task("order kite", name) for name in "abcd"]
    found = summary(tasks, RUNS, VERDICTS, {}, CollectConfig(arm="plain", step_budget=8))
    assert found["yield_at"] == [0.5, 0.75, 0.75]
    assert found["marginal_yield"] == [0.5, 0.25, 0.0]
    assert found["kept"] == 3 and found["browser_steps"] == 40
    assert found["steps_of_kept"] == pytest.approx(13 / 3, abs=1e-3)
    assert found["browser_steps_per_success"] == pytest.approx(40 / 3, abs=1e-3)
    assert found["retry_success"][0] | {"interval": None} == {"retry": 1, "n": 2, "success": 0.5, "interval": None}
    assert found["marginal_cost"] == [11.5, 14.0, None]
    assert found["outcomes"] == {"failure": 4, "success": 4}
    assert found["by_template"] == {"a": {"n": 2, "first": 2, "solved": 2}, "b": {"n": 2, "first": 0, "solved": 1}}
    assert found["inefficient_kept"] == 0 and found["leak_rate"] == 0.0


def test_tasks_that_were_never_tried_count_in_the_yield() -> None:
    tasks = [task("order kite", name) for name in "abcdefgh"]
    assert summary(tasks, RUNS, VERDICTS, {}, CollectConfig())["yield_at"] == [0.25, 0.375, 0.375]


def test_nothing_collected() -> None:
    found = summary([], [], {}, {}, CollectConfig())
    assert found["yield_at"] == [0.0, 0.0, 0.0] and found["steps_of_kept"] is None


def test_intervals() -> None:
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-3) and wilson(0, 0) == (0.0, 1.0)
    interval = mean_interval([0, 1] * 50)
    assert interval is not None and 0.39 < interval.low < 0.42 and 0.58 < interval.high < 0.61
    assert mean_interval([1.0]) is None
    ratio = ratio_interval([4, 4, 4, 4], [1, 1, 1, 1])
    assert ratio == (4.0, 4.0) and ratio_interval([1, 1], [0, 0]) is None
    difference = paired_difference([0, 0, 1, 1], [1, 0, 1, 1])
    assert difference["mean"] == 0.25 and difference["n"] == 4
