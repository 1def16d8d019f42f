"""Rates with runs nested in tasks, pass@k, and what other harnesses would print for the same episodes."""

from itertools import combinations
from math import comb
from pathlib import Path

import pytest
from specimens import task, trajectory, verdict

from rmsweb.bench import metrics, rates
from rmsweb.bench.metrics import Result
from rmsweb.bench.setting import setting_of, what_it_is
from rmsweb.records import Stop, Verdict
from rmsweb.statistics import wilson
from rmsweb.store import Images


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return Images(tmp_path / "images")


def row(images: Images, i: int, won: bool | None, run: int = 0, stop: Stop | None = None, **details: object) -> Result:
    t = trajectory(images, task(i), 3, success=bool(won), attempt=run, stop=stop)
    said = verdict(t, won)
    return metrics.result_of("sft", t, said.model_copy(update={"details": details}) if details else said)


def test_pass_at_k_is_the_share_of_draws_with_a_success() -> None:
    for n in range(1, 7):
        for won in range(n + 1):
            for k in range(1, n + 1):
                draws = list(combinations([True] * won + [False] * (n - won), k))
                assert rates.pass_at_k(won, n, k) == pytest.approx(sum(any(d) for d in draws) / comb(n, k))
    for wrong in ((3, 2, 1), (0, 2, 3), (0, 2, 0), (-1, 2, 1)):
        with pytest.raises(ValueError, match="cannot be"):
            rates.pass_at_k(*wrong)


def test_several_runs_are_not_as_many_tasks(images: Images) -> None:
    tasks = [task(i) for i in range(8)]
    rows = [row(images, i, i < 4, run) for i in range(8) for run in range(4)]
    score = rates.score("heldout", "sft", tasks, rows)
    assert (score.n, score.runs, score.success) == (32, 4, 0.5) and score.interval is not None
    # 32 episodes of 8 tasks that never waver know no more than 8 episodes do.
    alone, as_if = wilson(4, 8), wilson(16, 32)
    width = score.interval[1] - score.interval[0]
    assert width > alone.high - alone.low > as_if.high - as_if.low
    assert score.by_run == (0.5,) * 4 and score.unstable == 0.0
    assert [round(score.pass_at[k][0], 3) for k in (1, 2, 3, 4)] == [0.5] * 4


def test_all_or_nothing_over_runs_still_has_doubt(images: Images) -> None:
    rows = [row(images, i, True, run) for i in range(5) for run in range(3)]
    score = rates.score("heldout", "sft", [task(i) for i in range(5)], rows)
    assert score.interval == pytest.approx(tuple(wilson(5, 5))) and score.pass_at[3][1] < 1.0


def test_runs_that_waver(images: Images) -> None:
    rows = [row(images, 0, True, 0), row(images, 0, False, 1), row(images, 1, True, 0), row(images, 1, True, 1)]
    rows += [row(images, 2, None, 0), row(images, 2, True, 1)]
    score = rates.score("heldout", "sft", [task(i) for i in range(3)], rows)
    assert score.unstable == 0.5, "a task with one verdict cannot waver"
    assert score.by_run == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert score.pass_at[1][0] == pytest.approx(4 / 6) and score.pass_at[2][0] == 1.0


def test_aborted_out_and_over_budget_zero_against_all_tasks(images: Images) -> None:
    """AGG-1: the same run by Fara's rule and by ours."""
    tasks = [task(i) for i in range(10)]
    rows = [row(images, i, True) for i in range(4)]
    rows += [row(images, 4, False), row(images, 5, None), row(images, 6, None, stop=Stop.BROWSER_ERROR)]
    rows += [row(images, 7, True, stop=Stop.STEP_LIMIT), row(images, 8, None, stop=Stop.STEP_LIMIT)]
    score = rates.score("heldout", "sft", tasks, rows)
    assert score.success == 0.5 and score.success_judged == pytest.approx(5 / 6)
    # 4 solved within the limit; 1 failed, 2 over the limit; aborted, unjudged and missing are out.
    assert (score.success_finished, score.finished) == (pytest.approx(4 / 7), 7)
    assert score.outcomes == {"failure": 1, "infra_error": 1, "judge_failed": 2, "missing": 1, "success": 5}
    assert sum(score.outcomes.values()) == score.n
    assert score.unjudged == {"no_verdict": 2} and score.marks["step_limit"] == 2 and score.marks["ran"] == 8


def test_upstream_reading_is_a_third_rate(images: Images) -> None:
    tasks = [task(i) for i in range(5)]
    rows = [row(images, 0, True, upstream_label=1), row(images, 1, None, upstream_label=1)]
    rows += [row(images, 2, None, upstream_label=0), row(images, 3, False, upstream_label=0)]
    rows += [row(images, 4, None, upstream_label=None)]
    score = rates.score("webvoyager", "sft", tasks, rows)
    assert (score.success, score.success_judged, score.success_upstream) == (0.2, 0.5, 0.4)
    assert score.labelled_upstream == 4
    assert rates.score("webvoyager", "sft", tasks, [row(images, 0, True)]).success_upstream is None


def test_nothing_judged_is_no_rate(images: Images) -> None:
    score = rates.score("heldout", "sft", [task(0)], [row(images, 0, None)])
    assert (score.success, score.interval, score.judged, score.n) == (None, None, 0, 1)


def test_found_attempts_are_what_was_asked_for(images: Images) -> None:
    tasks = [task(i) for i in range(3)]
    rows = [row(images, 0, True, 0), row(images, 0, False, 1), row(images, 1, True)]
    score = rates.score("imported", "sft", tasks, rows, found=True)
    assert score.n == 4 and score.outcomes == {"failure": 1, "missing": 1, "success": 2}
    assert (score.least_runs, score.runs) == (1, 2) and "1 to 2 runs of each" in what_it_is(score)[0]
    asked = rates.score("imported", "sft", tasks, rows)
    assert (asked.n, asked.least_runs) == (6, None) and ", 2 runs of each" in what_it_is(asked)[0]


def test_a_viewport_that_was_not_recorded_is_not_made_up(images: Images) -> None:
    t = trajectory(images, task(0), 3)
    bare = t.model_copy(update={"evidence": {"imported": {"format": "om2w", "viewport_recorded": False}}})
    known, unsaid = (metrics.result_of("sft", one, verdict(one, True)) for one in (t, bare))
    assert (known.viewport, unsaid.viewport) == ((320, 224), None)
    score = rates.score("imported", "sft", [task(0)], [unsaid], found=True)
    assert score.viewport is None and "viewport not recorded, observation" in what_it_is(score)[0]
    views = [setting_of([task(0)], rows).viewport for rows in ([known], [unsaid], [known, unsaid])]
    assert views == ["320\u00d7224", "not recorded", "320\u00d7224"]


def test_marks_count_across_outcomes(images: Images) -> None:
    t = trajectory(images, task(0), 2, stop=Stop.BLOCKED).model_copy(update={"answer": None, "detail": "a CAPTCHA"})
    solved = metrics.result_of("sft", t, verdict(t, True))
    score = rates.score("heldout", "sft", [task(0)], [solved])
    assert score.outcomes == {"success": 1}
    assert score.marks == {"ran": 1, "no_answer": 1, "blocked": 1, "captcha": 1}


def test_breakdown_counts_what_was_asked_for(images: Images) -> None:
    tasks = [
        task(i).model_copy(update={"meta": {"level": "hard" if i else "easy"}, "template": "hard" if i else "easy"})
        for i in range(3)
    ]
    rows = [metrics.result_of("sft", t := trajectory(images, one, 2), verdict(t, True)) for one in tasks[:2]]
    score = rates.score("online_mind2web", "sft", tasks, rows)
    assert score.breakdown["level"] == {"easy": (1, 1), "hard": (1, 2)}
    assert "template" not in score.breakdown, "the level again under another name"


def test_an_infra_end_is_never_judged(images: Images) -> None:
    t = trajectory(images, task(0), 2, stop=Stop.MODEL_ERROR)
    result = metrics.result_of("sft", t, Verdict(success=None, judge="j", unjudged="infra"))
    assert result.success is None and rates.finished_mean([result]) == (None, 0)
