"""Rates of one model and their intervals, with runs nested in tasks; pass@k; other ways to average. Pure.

Promises: one run of each task has Wilson's interval, several have a bootstrap over tasks (episodes of one task are
not independent); pass@k is the unbiased estimator; the averages that other harnesses print stand beside ours under
their own names.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import comb
from typing import Any

from rmsweb.bench import metrics
from rmsweb.bench.metrics import Result
from rmsweb.records import Outcome, Score, Stop, Task
from rmsweb.statistics import Interval, mean_interval, ratio_interval, wilson


def score(
    name: str,
    model: str,
    tasks: Sequence[Task],
    results: Sequence[Result],
    *,
    runs: int | None = None,
    found: bool = False,
    resamples: int = 2000,
    seed: int = 0,
    facts: Mapping[str, Any] | None = None,
) -> Score:
    """One model on one set of tasks. Episodes asked for that are not there count as not solved; where none of them was
    judged there is no rate at all.

    `runs`: of each task (None: as many as any of the tasks has). `found`: nobody knows what was asked for, as with
    imported attempts; then it is what is there. `facts`: further fields of Score (`setting.py`).
    """
    ids = {t.id for t in tasks}
    rows = [r for r in results if r.model == model and r.task.id in ids]
    wanted = asked_for(tasks, rows, runs, found=found)
    runs, n, solved = max(wanted.values(), default=1), sum(wanted.values()), [r for r in rows if r.success]
    judged = [r for r in rows if r.success is not None]
    upstream = [r for r in rows if r.has_upstream]
    finished = finished_mean(rows)
    seen = {"resamples": resamples, "seed": seed}
    values = {
        "name": name,
        "policy": model,
        "suite": tasks[0].suite if tasks else "",
        "split": tasks[0].split if tasks else "",
        "n": n,
        "successes": len(solved),
        "judged": len(judged),
        "outcomes": metrics.outcomes(rows, missing=n - len(rows)),
        "marks": metrics.marks(rows),
        "unjudged": metrics.unjudged(rows),
        "success": len(solved) / n if judged else None,
        "interval": over_all(wanted, rows, **seen) if judged else None,
        "success_judged": len(solved) / len(judged) if judged else None,
        "interval_judged": over_judged(judged, runs, **seen) if judged else None,
        "success_upstream": sum(r.upstream == 1 for r in rows) / n if upstream else None,
        "labelled_upstream": sum(r.upstream is not None for r in rows),
        "success_finished": finished[0],
        "finished": finished[1],
        "steps_on_solved": metrics.mean([r.steps for r in solved if r.steps is not None]),
        "by_template": metrics.by_template(rows),
        "breakdown": metrics.breakdown(tasks, rows, wanted),
        "tokens": sum(used) if (used := [r.tokens for r in rows if r.tokens is not None]) else None,
        "wall_s": round(sum(took), 3) if (took := [r.wall_s for r in rows if r.wall_s is not None]) else None,
        "judge": next((r.judge for r in rows if r.judge), ""),
        "runs": runs,
        "least_runs": least if (least := min(wanted.values(), default=1)) < runs else None,
        "by_run": by_run(wanted, rows) if runs > 1 and judged else (),
        "unstable": unstable(rows) if runs > 1 else None,
        "pass_at": pass_at(wanted, rows, **seen) if runs > 1 and judged else {},
        "viewport": next((r.viewport for r in rows if r.viewport), None),
    }
    return Score.model_validate({**values, **(facts or {})})


Wanted = Mapping[str, int]
"""Task id -> episodes asked for."""


def asked_for(tasks: Sequence[Task], rows: Sequence[Result], runs: int | None, *, found: bool = False) -> Wanted:
    """Episodes of each task that one model was asked for (`found`: that are there, and one where there is none)."""
    if found:
        counts = Counter(r.task.id for r in rows)
        return {t.id: max(1, counts[t.id]) for t in tasks}
    return dict.fromkeys((t.id for t in tasks), max(runs or 1, 1 + max((r.run for r in rows), default=0)))


def _won(wanted: Wanted, rows: Sequence[Result]) -> dict[str, int]:
    won = dict.fromkeys(wanted, 0)
    for r in rows:
        won[r.task.id] += bool(r.success)
    return won


def over_all(wanted: Wanted, rows: Sequence[Result], *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Interval of the rate over all episodes asked for."""
    won, runs = _won(wanted, rows), max(wanted.values(), default=1)
    return _nested([won[t] for t in wanted], list(wanted.values()), runs, resamples, seed)


def over_judged(judged: Sequence[Result], runs: int, *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Interval of the rate over episodes with a verdict."""
    table: dict[str, tuple[int, int]] = {}
    for r in judged:
        won, n = table.get(r.task.id, (0, 0))
        table[r.task.id] = (won + bool(r.success), n + 1)
    tasks = sorted(table)
    return _nested([table[t][0] for t in tasks], [table[t][1] for t in tasks], runs, resamples, seed)


def _nested(won: Sequence[int], n: Sequence[int], runs: int, resamples: int, seed: int) -> Interval:
    """Wilson where each task was run once; else tasks are drawn anew, each with all its runs.

    Where every draw gives the same rate (all solved, none, a single task) the bootstrap knows no doubt; then it is
    Wilson's interval as if each task had been run once.
    """
    if runs == 1:
        return wilson(sum(won), sum(n))
    found = ratio_interval(won, n, resamples=resamples, seed=seed)
    if found is not None and found.low < found.high:
        return found
    return wilson(round(len(n) * sum(won) / sum(n)), len(n)) if sum(n) else wilson(0, 0)


def pass_at_k(successes: int, n: int, k: int) -> float:
    """Chance that at least one of `k` runs drawn from `n` without replacement is a success: 1 - C(n-c, k) / C(n, k).

    The unbiased estimator of pass@k (Chen and others 2021). Raises ValueError where k > n or counts are impossible.
    """
    if not 0 <= successes <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {successes} successes in {n} runs cannot be")
    return 1.0 - comb(n - successes, k) / comb(n, k)


def pass_at(
    wanted: Wanted, rows: Sequence[Result], *, resamples: int = 2000, seed: int = 0
) -> dict[int, tuple[float, float, float]]:
    """k -> pass@k and its 95 % bounds (bootstrap over tasks), for all k that every task has runs for.

    Unjudged and missing runs count as not solved.
    """
    won, found = _won(wanted, rows), {}
    for k in range(1, 1 + min(wanted.values(), default=0)):
        each = [pass_at_k(won[t], wanted[t], k) for t in sorted(won)]
        rate = metrics.mean(each)
        if rate is None:
            continue
        interval = mean_interval(each, resamples=resamples, seed=seed)
        if interval is None or interval.low == interval.high:
            interval = wilson(round(rate * len(each)), len(each))
        found[k] = (rate, *interval)
    return found


def by_run(wanted: Wanted, rows: Sequence[Result]) -> tuple[float, ...]:
    """Success over all tasks of each run: what is averaged where a protocol asks for the mean of several runs.

    Runs that only some tasks have are left out.
    """
    runs = min(wanted.values(), default=0)
    return tuple(sum(bool(r.success) for r in rows if r.run == k) / len(wanted) for k in range(runs))


def unstable(rows: Sequence[Result]) -> float | None:
    """Share of tasks judged in several runs on which the verdicts differ; None where there is no such task."""
    said: dict[str, list[bool]] = {}
    for r in rows:
        if r.success is not None:
            said.setdefault(r.task.id, []).append(r.success)
    several = [verdicts for verdicts in said.values() if len(verdicts) > 1]
    return sum(len(set(verdicts)) > 1 for verdicts in several) / len(several) if several else None


def finished_mean(rows: Sequence[Result]) -> tuple[float | None, int]:
    """(mean, episodes) as Fara's webeval averages: aborted and unjudged left out, over the step limit 0 and counted."""
    kept = [
        bool(r.success) and r.stop is not Stop.STEP_LIMIT
        for r in rows
        if r.outcome is not Outcome.INFRA_ERROR and (r.success is not None or r.stop is Stop.STEP_LIMIT)
    ]
    return (sum(kept) / len(kept) if kept else None), len(kept)
