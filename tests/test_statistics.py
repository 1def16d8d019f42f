"""Intervals and tests against known values, simulation and symmetry."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmsweb.statistics import (
    cluster_bootstrap,
    crossed_bootstrap,
    kappa,
    mcnemar,
    mean_interval,
    paired_bootstrap,
    wilson,
)


def test_wilson_gives_published_values() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="11 successes of 10"):
        wilson(11, 10)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_the_rate_and_mirrors(counts: tuple[int, int]) -> None:
    won, n = counts
    low, high = wilson(won, n)
    assert 0 <= low <= won / n <= high <= 1
    assert wilson(n - won, n) == pytest.approx((1 - high, 1 - low))


def test_mcnemar_gives_exact_binomial_values() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 0) == pytest.approx(2 / 32)
    assert mcnemar(27, 13) == mcnemar(13, 27) == pytest.approx(0.0385, abs=1e-3)
    assert mcnemar(10, 10) == 1.0
    assert mcnemar(3000, 3200) == pytest.approx(0.0114, abs=2e-3)


def tables(n: int, lift: float, seed: int, runs: int = 1) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    draw = random.Random(seed)
    hard = {f"t{i}": draw.random() for i in range(n)}
    a = {t: [float(draw.random() < min(1, h + lift)) for _ in range(runs)] for t, h in hard.items()}
    b = {t: [float(draw.random() < h) for _ in range(runs)] for t, h in hard.items()}
    return a, b


def test_paired_bootstrap_covers_no_difference_about_as_often_as_it_says() -> None:
    covered = sum(not paired_bootstrap(*tables(80, 0.0, s), resamples=300, seed=s).resolved for s in range(120))
    assert 104 <= covered <= 120


def test_paired_bootstrap_sees_a_real_difference_and_mirrors() -> None:
    a, b = tables(200, 0.25, 1)
    there, back = paired_bootstrap(a, b), paired_bootstrap(b, a)
    assert there.resolved and there.difference == -back.difference > 0.1
    assert (there.a_only, there.b_only, there.p) == (back.b_only, back.a_only, back.p)
    assert there.interval == pytest.approx((-back.interval.high, -back.interval.low))


def test_order_and_unshared_tasks_play_no_part() -> None:
    a, b = tables(60, 0.1, 2)
    turned = dict(reversed(a.items()))
    assert paired_bootstrap(a, b) == paired_bootstrap(turned, {**b, "only b": [1.0]})
    empty = paired_bootstrap({}, b)
    assert empty.n == 0 and not empty.resolved


def test_nested_runs_widen_the_interval() -> None:
    a, b = tables(40, 0.0, 3, runs=3)
    fixed, nested = paired_bootstrap(a, b), paired_bootstrap(a, b, runs="nested")
    assert nested.difference == fixed.difference
    assert nested.interval.high - nested.interval.low > fixed.interval.high - fixed.interval.low


def test_nested_takes_ragged_runs() -> None:
    assert (
        paired_bootstrap({"x": [1.0, 1.0, 1.0], "y": [0.0]}, {"x": [0.0], "y": [0.0, 0.0]}, runs="nested").difference
        == 0.5
    )


def test_crossed_bootstrap_counts_spread_over_seeds() -> None:
    one_good_seed = [[1.0] * 50, [0.0] * 50, [0.0] * 50]
    nothing = [[0.0] * 50] * 3
    by_seed = crossed_bootstrap(one_good_seed, nothing)
    assert by_seed.difference == pytest.approx(1 / 3) and not by_seed.resolved
    by_task = paired_bootstrap({str(i): [1.0, 0.0, 0.0] for i in range(50)}, {str(i): [0.0] for i in range(50)})
    assert by_task.resolved, "fixed runs do not see it: the caller has to choose"
    with pytest.raises(ValueError, match="two equal tables"):
        crossed_bootstrap([[1.0]], [[1.0, 0.0]])


def test_mean_interval() -> None:
    assert mean_interval([1.0]) is None
    low, high = mean_interval([1.0, 2.0, 3.0, 4.0] * 20) or (0, 0)
    assert low < 2.5 < high


def test_kappa_gives_worked_values_and_is_undefined_without_contrast() -> None:
    assert kappa(20, 5, 10, 15) == pytest.approx(0.4)  # Cohen's textbook table: observed 0.7, expected 0.5
    assert kappa(1, 0, 0, 1) == 1.0 and kappa(0, 1, 1, 0) == -1.0
    assert kappa(0, 2, 0, 1) == 0.0, "exactly chance, without rounding error"
    assert kappa(0, 0, 0, 0) is None and kappa(7, 0, 0, 0) is None and kappa(0, 0, 0, 7) is None


@given(st.tuples(*[st.integers(0, 60)] * 4))
def test_kappa_is_observed_beyond_expected_agreement_and_symmetric(counts: tuple[int, int, int, int]) -> None:
    both, a_only, b_only, neither = counts
    n = sum(counts)
    found = kappa(*counts)
    assert found == kappa(both, b_only, a_only, neither) == kappa(neither, a_only, b_only, both)
    if found is not None:
        yes_a, yes_b = (both + a_only) / n, (both + b_only) / n
        expected = yes_a * yes_b + (1 - yes_a) * (1 - yes_b)
        assert found == pytest.approx(((both + neither) / n - expected) / (1 - expected))


def share(won: float, lost: float) -> float | None:
    return won / (won + lost) if won + lost else None


def test_cluster_bootstrap_is_wide_where_a_cluster_answers_as_one() -> None:
    alone = cluster_bootstrap([[1, 0]] * 30 + [[0, 1]] * 30, share)
    together = cluster_bootstrap([[10, 0]] * 3 + [[0, 10]] * 3, share)
    assert alone and together
    assert alone.low < 0.5 < alone.high and together.high - together.low > 2 * (alone.high - alone.low)
    assert cluster_bootstrap([[1, 0]] * 30 + [[0, 1]] * 30, share) == alone, "the same seed draws the same"


def test_cluster_bootstrap_matches_wilson_where_every_cluster_is_one_trial() -> None:
    low, high = cluster_bootstrap([[1, 0]] * 70 + [[0, 1]] * 30, share, resamples=4000) or (0, 0)
    assert (low, high) == pytest.approx(wilson(70, 100), abs=0.02)


def test_cluster_bootstrap_says_nothing_of_too_little() -> None:
    assert cluster_bootstrap([[1, 0]], share) is None and cluster_bootstrap([], share) is None
    assert cluster_bootstrap([[0, 0]] * 5, share) is None, "undefined in every draw"
