"""Intervals and paired tests for success rates. Pure: numbers in, numbers out; randomness from a given seed only.

Owns the computations that every claim of the project rests on: Wilson's interval for a rate, the paired
bootstrap for a difference on the same tasks (runs fixed, nested in tasks, or crossed with tasks), McNemar's exact
test, the bootstrap of a mean and of a ratio, Cohen's kappa, and the bootstrap of any number made of counts, by
clusters. It knows no record and no file.
Nothing here corrects for many comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Z95 = 1.959963984540054
"""97.5 % point of the normal distribution."""

Values = Mapping[str, Sequence[float]]
"""Task id -> one value per run of that task."""


LEAST = 6
"""Tasks that must differ between two models before a difference can be resolved: 2 / 2**6 < 0.05 < 2 / 2**5."""


class Interval(NamedTuple):
    """95 % bounds."""

    low: float
    high: float


class Paired(NamedTuple):
    """Difference `a - b` of two means over the same tasks."""

    difference: float
    interval: Interval
    n: int
    """Tasks that both have."""
    a_only: int
    """Tasks on which `a` is better (its mean over runs is higher)."""
    b_only: int
    p: float
    """McNemar's exact two-sided p over those tasks."""

    @property
    def resolved(self) -> bool:
        """Whether the interval leaves zero out, and enough tasks differ for an interval from redrawing them to mean
        anything: with fewer than `LEAST` the exact test cannot reach 5 % either."""
        return self.a_only + self.b_only >= LEAST and not self.interval.low <= 0 <= self.interval.high


def wilson(successes: int, n: int, z: float = Z95) -> Interval:
    """Score interval of a rate (Wilson 1927); (0, 1) when nothing was tried. Raises ValueError on impossible counts."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} cannot be")
    if n == 0:
        return Interval(0.0, 1.0)
    rate, z2 = successes / n, z * z
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = z * sqrt(rate * (1 - rate) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # At the ends the formula gives 0 and 1 up to rounding; say them exactly.
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(low, high)


def mcnemar(a_only: int, b_only: int) -> float:
    """Exact two-sided p of the sign test on discordant pairs (McNemar 1947, binomial form); 1 when there are none."""
    n, fewer = a_only + b_only, min(a_only, b_only)
    if n == 0:
        return 1.0
    term = total = 1
    for i in range(fewer):  # binomial coefficients one from the other: thousands of pairs stay quick
        term = term * (n - i) // (i + 1)
        total += term
    return min(1.0, float(2 * total / 2**n))


def paired_bootstrap(
    a: Values, b: Values, *, runs: Literal["fixed", "nested"] = "fixed", resamples: int = 2000, seed: int = 0
) -> Paired:
    """Mean of `a - b` over the tasks that both have, with a percentile interval from resampling tasks.

    `fixed`: each task counts with its mean over runs (one greedy run each, or runs one does not generalise over).
    `nested`: runs are drawn anew within each drawn task too (independent samples of each task). For training seeds
    that were each examined on all tasks use `crossed_bootstrap`. The order of tasks in the mappings plays no part.
    """
    import numpy as np

    tasks = sorted(a.keys() & b.keys())
    if not tasks:
        return Paired(0.0, Interval(-1.0, 1.0), 0, 0, 0, 1.0)
    differences = np.array([_mean(a[t]) - _mean(b[t]) for t in tasks])
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(tasks), (resamples, len(tasks)))
    if runs == "fixed":
        means = differences[drawn].mean(axis=1)
    else:
        total = np.zeros((resamples, len(tasks)))
        for values, sign in ((a, 1.0), (b, -1.0)):
            total += sign * _redrawn([values[t] for t in tasks], drawn, generator)
        means = total.mean(axis=1)
    a_only, b_only = int((differences > 0).sum()), int((differences < 0).sum())
    interval = _percentiles(means)
    return Paired(float(differences.mean()), interval, len(tasks), a_only, b_only, mcnemar(a_only, b_only))


def crossed_bootstrap(
    a_RT: Sequence[Sequence[float]],
    b_RT: Sequence[Sequence[float]],
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Paired:
    """Mean of `a - b` where every run (training seed) was examined on every task; runs and tasks are both redrawn.

    Rows are runs, columns tasks; row r of `a` and of `b` belong together (same seed, same base), so they are drawn
    together. Raises ValueError when the shapes differ.
    """
    import numpy as np

    difference_RT = np.asarray(a_RT, dtype=float) - np.asarray(b_RT, dtype=float)
    if difference_RT.ndim != 2 or np.shape(a_RT) != np.shape(b_RT) or difference_RT.size == 0:
        raise ValueError(f"need two equal tables runs x tasks, got {np.shape(a_RT)} and {np.shape(b_RT)}")
    count_R, count_T = difference_RT.shape
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, count_R, (resamples, count_R))
    columns = generator.integers(0, count_T, (resamples, count_T))
    means = np.array([difference_RT[np.ix_(r, c)].mean() for r, c in zip(rows, columns, strict=True)])
    per_task = difference_RT.mean(axis=0)
    a_only, b_only = int((per_task > 0).sum()), int((per_task < 0).sum())
    return Paired(float(difference_RT.mean()), _percentiles(means), count_T, a_only, b_only, mcnemar(a_only, b_only))


def mean_interval(values: Sequence[float], *, resamples: int = 2000, seed: int = 0) -> Interval | None:
    """Percentile bootstrap interval of a mean; None below two values."""
    import numpy as np

    if len(values) < 2:
        return None
    data = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(0, len(data), (resamples, len(data)))
    return _percentiles(data[drawn].mean(axis=1))


def ratio_interval(
    above: Sequence[float], below: Sequence[float], *, resamples: int = 2000, seed: int = 0
) -> Interval | None:
    """Percentile bootstrap interval of sum(above) / sum(below) over pairs; None where there is nothing to divide by.

    Draws in which the denominator is zero are left out.
    """
    import numpy as np

    if len(above) < 2 or sum(below) == 0:
        return None
    a, b = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    drawn = np.random.default_rng(seed).integers(0, len(a), (resamples, len(a)))
    tops, bottoms = a[drawn].sum(axis=1), b[drawn].sum(axis=1)
    return _percentiles(tops[bottoms > 0] / bottoms[bottoms > 0])


def kappa(both: float, a_only: float, b_only: float, neither: float) -> float | None:
    """Cohen's kappa of two yes / no raters (Cohen 1960) from their four counts: 1 is agreement, 0 is chance.

    None where it is undefined: nothing was rated, or both say the same of everything.
    """
    chance = (both + a_only) * (a_only + neither) + (both + b_only) * (b_only + neither)
    # (observed - expected) / (1 - expected) over a common denominator, so that whole counts give no rounding error
    return 2 * (both * neither - a_only * b_only) / chance if chance else None


MOST_CELLS = 1 << 22
"""Weights drawn at once by `cluster_bootstrap` (32 MiB)."""


def cluster_bootstrap(
    counts_CK: Sequence[Sequence[float]],
    statistic: Callable[..., float | None],
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval | None:
    """Percentile interval of `statistic(*totals)` from drawing clusters with replacement, each with all that is in it.

    A row holds what one cluster (a task, say) adds to each of K totals; the order of rows plays no part beyond the
    draw. None below two clusters, and where the statistic is undefined (None) in more than half of the draws: the
    others would say nothing of the whole.
    """
    import numpy as np

    if len(counts_CK) < 2:
        return None
    table = np.asarray(counts_CK, dtype=float)
    clusters, generator = len(table), np.random.default_rng(seed)
    values: list[float] = []
    step = max(1, MOST_CELLS // clusters)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        weights = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=size)
        found = (statistic(*totals) for totals in (weights @ table).tolist())
        values += [value for value in found if value is not None]
    return _percentiles(np.asarray(values)) if 2 * len(values) >= resamples else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _redrawn(
    values: Sequence[Sequence[float]], drawn: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """For each drawn task the mean of as many runs, drawn from that task's runs with replacement."""
    import numpy as np

    counts = np.array([len(v) for v in values])
    width = int(counts.max())
    table = np.zeros((len(values), width))
    for row, v in enumerate(values):
        table[row, : len(v)] = v
    counts_drawn = counts[drawn]
    picks = np.floor(generator.random((*drawn.shape, width)) * counts_drawn[..., None]).astype(int)
    used = np.arange(width) < counts_drawn[..., None]
    taken = np.take_along_axis(table[drawn], picks, axis=-1)
    means: NDArray[np.float64] = np.where(used, taken, 0.0).sum(axis=-1) / counts_drawn
    return means


def _percentiles(means: NDArray[np.float64]) -> Interval:
    import numpy as np

    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(low), float(high))
