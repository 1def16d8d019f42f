"""Denominators, outcomes, steps, yield and cost on small hand-made results."""

from dataclasses import replace
from pathlib import Path

import pytest
from specimens import task, trajectory, verdict

from rmsweb.bench import costs, metrics, rates, wording
from rmsweb.bench.metrics import Result
from rmsweb.bench.scores import exam_numbers
from rmsweb.bench.setting import differing, setting_of, what_it_is
from rmsweb.judge import outcome
from rmsweb.records import Outcome, Stop
from rmsweb.store import Images


def row(
    images: Images, i: int, won: bool | None, steps: int = 3, model: str = "sft", run: int = 0, stop: Stop | None = None
) -> Result:
    t = trajectory(images, task(i), steps, model=model, success=bool(won), attempt=run, stop=stop)
    return metrics.result_of(model, t, verdict(t, won))


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return Images(tmp_path / "images")


def test_the_verdict_decides_and_the_stop_types_the_rest(images: Images) -> None:
    t = trajectory(images, task(0), 2, stop=Stop.STEP_LIMIT)
    assert outcome(t, verdict(t, True)) is Outcome.SUCCESS
    assert outcome(t, verdict(t, False)) is Outcome.OVER_BUDGET
    assert outcome(t, verdict(t, None)) is Outcome.JUDGE_FAILED
    assert outcome(t, None) is Outcome.JUDGE_FAILED
    for stop, typed in (
        (Stop.BLOCKED, Outcome.BLOCKED),
        (Stop.MODEL_ERROR, Outcome.INFRA_ERROR),
        (Stop.NO_PROGRESS, Outcome.FAILURE),
        (Stop.INVALID_TASK, Outcome.INVALID_TASK),
    ):
        t = trajectory(images, task(0), 2, stop=stop)
        assert outcome(t, verdict(t, False)) is typed
    broken = trajectory(images, task(0), 2, stop=Stop.BROWSER_ERROR)
    told = verdict(broken, True).model_copy(update={"details": {"upstream_label": 1}})
    assert outcome(broken, told) is Outcome.INFRA_ERROR
    one = metrics.result_of("sft", broken, told)
    assert (one.success, one.outcome, one.has_upstream) == (None, Outcome.INFRA_ERROR, False)


def test_steps_with_and_without_the_final_act_of_own_and_of_imported_runs(images: Images) -> None:
    own = trajectory(images, task(0), 3, success=True)  # three acts, the last one the answer
    listed = own.model_copy(update={"evidence": {"imported": {"format": "om2w"}}})
    alike = own.model_copy(update={"evidence": {"imported": {"format": "bu_bench", "n_steps": 3}}})
    stated = own.model_copy(update={"evidence": {"imported": {"format": "agentlab", "n_steps": 7}}})
    open_end = listed.model_copy(update={"steps": own.steps[:2]})

    for t in (own, listed, alike):
        assert (metrics.steps_of(t), metrics.steps_of(t, with_end=False)) == (3, 2)
    assert (metrics.steps_of(open_end), metrics.steps_of(open_end, with_end=False)) == (2, 2)
    assert (metrics.steps_of(stated), metrics.steps_of(stated, with_end=False)) == (7, None)
    settings = [setting_of([task(0)], [metrics.result_of("m", own, verdict(own, True))], with_end=e) for e in (0, 1)]
    assert "steps (without the final act / the final act included)" in differing(settings)


@pytest.mark.parametrize(
    ("kept", "facts"),
    [
        (0, {}),  # nothing is listed, nothing stated
        (0, {"n_steps": 0}),
        (3, {"acts_listed": False}),
        (slice(2, 3), {"format": "om2w"}),  # an answer apart, as imports of before have it
    ],
)
def test_steps_that_nobody_stored_are_unknown(images: Images, kept: int | slice, facts: dict[str, object]) -> None:
    own = trajectory(images, task(0), 3, success=True)
    steps = own.steps[kept] if isinstance(kept, slice) else own.steps[:kept]
    t = own.model_copy(update={"steps": steps, "evidence": {"imported": {"format": "fara", **facts}}})
    assert metrics.steps_of(t) is None and metrics.result_of("m", t, verdict(t, True)).steps is None


def test_what_is_unknown_is_left_out_and_counted(images: Images) -> None:
    def bare(i: int, won: bool, model: str) -> Result:
        unsaid = {"steps": None, "prompt_tokens": None, "completion_tokens": None, "wall_s": None}
        return replace(row(images, i, won, model=model), **unsaid)  # type: ignore[arg-type]

    rows = [row(images, 0, True, 2, "a"), bare(1, True, "a"), row(images, 2, False, 4, "a")]
    rows += [row(images, 0, True, 4, "b"), row(images, 1, True, 6, "b"), bare(2, False, "b")]
    of = {m: [r for r in rows if r.model == m] for m in "ab"}
    score = rates.score("heldout", "a", [task(i) for i in range(3)], rows)
    assert (score.steps_on_solved, score.tokens, score.wall_s) == (2.0, 720, 3.0)
    assert {k: n for k, n in score.marks.items() if k.endswith("_unknown")} == {
        "steps_unknown": 1, "tokens_unknown": 1, "seconds_unknown": 1,
    }  # fmt: skip
    second = what_it_is(score)[1]
    assert "left out of means: steps of 1 of 3 episodes, tokens of 1 of 3 episodes, seconds of 1 of 3" in second
    assert "Not recorded" not in what_it_is(rates.score("heldout", "a", [task(0)], rows[:1]))[1]
    cost = costs.cost(of["a"], (1.0, 1.0))
    assert (cost.steps_per_task, cost.steps_per_success, cost.tokens_per_task, cost.wall_s_per_task) == (3, 6, 360, 1.5)
    assert (cost.steps_unknown, cost.money_unknown, cost.money_per_task) == (1, 1, None)
    common = metrics.common_steps(rows, "a", "b")
    assert (common.n, common.unknown, common.a, common.b) == (1, 1, 2, 4)
    assert metrics.step_budget_curve(of["a"], 3) == [], "no curve that counts a success as a failure"
    assert metrics.step_budget_curve(of["b"], 3)[-1] == (6, pytest.approx(2 / 3))
    assert metrics.yield_at(of["a"])[0].solved == 2 and metrics.yield_at(of["a"])[0].steps_of_kept == 2
    numbers = exam_numbers(rows)
    assert numbers["spread"]["a"]["steps_per_task"] and numbers["curve"]["a"] == []
    assert numbers["tasks"][task(1).id] == {"a": [[True, None]], "b": [[True, 6]]}
    nothing = rates.score("heldout", "a", [task(1)], rows)
    assert (nothing.steps_on_solved, nothing.tokens, nothing.wall_s) == (None, None, None)


def test_unjudged_and_missing_count_over_all_tasks_and_not_over_judged_ones(images: Images) -> None:
    tasks = [task(i) for i in range(10)]
    rows = [row(images, 0, True), row(images, 1, True), row(images, 2, False), row(images, 3, None)]
    rows.append(row(images, 4, False, stop=Stop.BROWSER_ERROR))
    score = rates.score("heldout", "sft", tasks, rows)
    assert (score.n, score.successes, score.judged) == (10, 2, 3)
    assert score.success == 0.2 and score.success_judged == pytest.approx(2 / 3)
    assert score.outcomes == {"failure": 1, "infra_error": 1, "judge_failed": 1, "missing": 5, "success": 2}
    assert score.by_template == {"add": (1, 2), "book": (0, 1), "comment": (0, 1), "price": (1, 1)}


def test_nothing_ran_has_no_rate_over_judged_tasks(images: Images) -> None:
    score = rates.score("heldout", "sft", [task(0)], [row(images, 0, False, stop=Stop.MODEL_ERROR)])
    assert score.success is None and score.interval is None, "no rate is not a rate of zero"
    assert score.success_judged is None and score.interval_judged is None and score.judged == 0


def test_pairs_use_only_shared_tasks_and_can_leave_unjudged_out(images: Images) -> None:
    rows = [row(images, i, True, model="rl") for i in range(4)]
    rows += [row(images, 0, None, model="sft"), row(images, 1, False, model="sft"), row(images, 2, True, model="sft")]
    every = metrics.paired_success(rows, "rl", "sft")
    assert (every.n, every.a_only, every.b_only) == (3, 2, 0) and every.difference == pytest.approx(2 / 3)
    assert metrics.paired_success(rows, "rl", "sft", judged_only=True).n == 2


def test_common_steps_do_not_reward_giving_up_on_long_tasks(images: Images) -> None:
    rows = [
        row(images, 0, True, 2, "a"),
        row(images, 1, True, 6, "a"),
        row(images, 0, True, 3, "b"),
        row(images, 1, False, 8, "b"),
    ]
    own = {m: metrics.mean([r.steps for r in rows if r.model == m and r.success]) for m in "ab"}
    common = metrics.common_steps(rows, "a", "b")
    assert own == {"a": 4, "b": 3} and (common.n, common.a, common.b, common.difference) == (1, 2, 3, -1)
    assert metrics.common_steps(rows[:2], "a", "b").n == 0


def test_yield_counts_tasks_within_attempts_and_keeps_the_shortest(images: Images) -> None:
    rows = [row(images, 0, True, 5), row(images, 1, False, 6), row(images, 2, False, 6)]
    rows += [row(images, 0, True, 3, run=1), row(images, 1, True, 4, run=1), row(images, 2, False, 6, run=1)]
    first, second = metrics.yield_at(rows)
    assert (first.rate, first.steps_of_kept, first.browser_steps) == (pytest.approx(1 / 3), 5, 17)
    assert (second.rate, second.steps_of_kept, second.browser_steps) == (pytest.approx(2 / 3), 3.5, 30)


def test_step_budget_curve_ends_at_the_success_rate(images: Images) -> None:
    rows = [row(images, 0, True, 2), row(images, 1, True, 4), row(images, 2, False, 5)]
    curve = metrics.step_budget_curve(rows, 4)
    assert curve == [(1, 0.0), (2, 0.25), (3, 0.25), (4, 0.5), (5, 0.5)]


def test_cost_counts_failures_too_and_zero_means_not_recorded(images: Images) -> None:
    rows = [row(images, 0, True, 2), row(images, 1, False, 4)]
    cost = costs.cost(rows, price=(1.0, 10.0))
    assert (cost.steps_per_task, cost.steps_per_success, cost.tokens_per_success) == (3, 6, 720)
    assert cost.money_per_success == pytest.approx((600 * 1 + 120 * 10) / 1e6)
    assert costs.cost(rows).money_per_task is None and costs.cost([]).steps_per_task is None


def test_claims_and_modes(images: Images) -> None:
    rows = [row(images, 0, True), row(images, 1, False), row(images, 2, False, stop=Stop.STEP_LIMIT)]
    assert metrics.claim_gap(rows) == 1
    assert metrics.by_mode(rows) == {"step_limit": 1, "wrong_or_early_end": 1}


def test_a_pair_over_all_tasks_counts_what_is_missing_as_not_solved(images: Images) -> None:
    rows = [row(images, i, True, model="a") for i in range(2)] + [row(images, i, i < 3, model="b") for i in range(4)]
    wanted = {task(i).id: 1 for i in range(4)}
    every = metrics.paired_success(rows, "a", "b", wanted=wanted)
    assert (every.n, every.difference) == (4, -0.25)
    assert metrics.paired_success(rows, "a", "b").n == 2


def test_five_tasks_that_differ_resolve_nothing(images: Images) -> None:
    for count, resolved in ((5, False), (6, True)):
        rows = [row(images, i, m == "a", model=m) for i in range(count) for m in "ab"]
        pair = metrics.paired_success(rows, "a", "b")
        assert (pair.resolved, pair.p < 0.05) == (resolved, resolved)
        said = {"n": pair.n, "interval": pair.interval, "a_only": pair.a_only, "b_only": pair.b_only}
        assert ("Too few to tell" in wording.verdict(said, "a", "b")) is not resolved


def test_an_episode_without_token_counts_makes_the_money_unknown(images: Images) -> None:
    rows = [row(images, 0, True), replace(row(images, 1, True), prompt_tokens=None, completion_tokens=None)]
    found = costs.cost(rows, (1.0, 1.0))
    assert found.money_per_task is None and found.money_unknown == 1
    assert costs.cost(rows[:1], (1.0, 1.0)).money_per_task is not None
