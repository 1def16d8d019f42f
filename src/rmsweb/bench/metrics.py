"""From judged trajectories to numbers. Pure: records in, records and plain values out; no file, no clock.

Owns what a row of the exam is (`Result`), the two denominators, the typed outcomes, steps on solved tasks (own and
commonly solved), yield by attempt, the step-budget curve, cost, and the tables by template and by failure mode.
A trajectory that could not be judged is a failure only over all tasks; over judged tasks it is left out.

Steps are decisions of the policy, the final `answer` included and replayed steps not.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmsweb.records import INFRA_STOPS, Outcome, Score, Stop, Task, Trajectory, Verdict
from rmsweb.statistics import Interval, Paired, mean_interval, paired_bootstrap, wilson


@dataclass(slots=True, frozen=True)
class Result:
    """What one episode comes down to."""

    model: str
    task: Task
    run: int
    """Repetition of the same task by the same model, or the attempt of a collection run."""
    trajectory_id: str
    success: bool | None
    """None: no verdict."""
    outcome: Outcome
    stop: Stop
    steps: int
    prompt_tokens: int
    completion_tokens: int
    wall_s: float
    claimed: bool
    """The policy said that it was done; no success by itself."""
    mode: str = ""
    """Failure mode; empty for successes."""
    judge: str = ""
    raw_reward: float | None = None
    """MiniWoB++: the page's own reward before any time penalty."""


def outcome_of(trajectory: Trajectory, verdict: Verdict | None) -> Outcome:
    """Typed outcome: the verdict first, then why the episode ended (method.md 1.2)."""
    if verdict is not None and verdict.success:
        return Outcome.SUCCESS
    if trajectory.stop in INFRA_STOPS:
        return Outcome.INFRA_ERROR
    if trajectory.stop is Stop.BLOCKED:
        return Outcome.BLOCKED
    if trajectory.stop is Stop.INVALID_TASK:
        return Outcome.INVALID_TASK
    if verdict is None or verdict.success is None:
        return Outcome.JUDGE_FAILED
    return Outcome.OVER_BUDGET if trajectory.stop is Stop.STEP_LIMIT else Outcome.FAILURE


STOP_MODES: Mapping[Stop, str] = {
    Stop.ANSWERED: "wrong_or_early_end",
    Stop.DONE: "wrong_or_early_end",
    Stop.GAVE_UP: "gave_up",
    Stop.STEP_LIMIT: "step_limit",
    Stop.NO_PROGRESS: "no_progress",
    Stop.INVALID_OUTPUT: "invalid_output",
    Stop.BLOCKED: "blocked",
    Stop.INVALID_TASK: "invalid_task",
    Stop.MODEL_ERROR: "infra",
    Stop.BROWSER_ERROR: "infra",
    Stop.BUDGET: "infra",
}


def mode_by_stop(trajectory: Trajectory) -> str:
    """The coarsest failure mode: how the episode ended."""
    return STOP_MODES[trajectory.stop]


def result_of(model: str, trajectory: Trajectory, verdict: Verdict | None, mode: str = "") -> Result:
    """The row of one trajectory (`mode`: of a failure; default how it ended). Infra ends are never judged."""
    outcome = outcome_of(trajectory, verdict)
    judged = None if outcome is Outcome.INFRA_ERROR or verdict is None else verdict.success
    decisions = [step.decision for step in trajectory.steps]
    reward = trajectory.evidence.get("raw_reward")
    return Result(
        model=model,
        task=trajectory.task,
        run=trajectory.attempt,
        trajectory_id=trajectory.id,
        success=judged,
        outcome=outcome,
        stop=trajectory.stop,
        steps=sum(d.intent != "replay" for d in decisions),
        prompt_tokens=sum(d.prompt_tokens for d in decisions),
        completion_tokens=sum(d.completion_tokens for d in decisions),
        wall_s=trajectory.wall_s,
        claimed=trajectory.stop is Stop.ANSWERED,
        mode="" if judged else mode or mode_by_stop(trajectory),
        judge=verdict.judge if verdict else "",
        raw_reward=float(reward) if isinstance(reward, int | float) else None,
    )


def dataset_hash(tasks: Iterable[Task]) -> str:
    """Names a set of tasks: SHA-256 over the sorted ids, 16 hexadecimal digits."""
    return hashlib.sha256("\n".join(sorted(t.id for t in tasks)).encode()).hexdigest()[:16]


def score(name: str, model: str, tasks: Sequence[Task], results: Sequence[Result], **facts: object) -> Score:
    """One model on one set of tasks. Tasks without a result count as not solved. `facts` are Score fields."""
    wanted = {t.id for t in tasks}
    rows = [r for r in results if r.model == model and r.task.id in wanted]
    runs = 1 + max((r.run for r in rows), default=0)
    n, solved = len(tasks) * runs, [r for r in rows if r.success]
    judged = [r for r in rows if r.success is not None]
    return Score(
        name=name,
        policy=model,
        suite=tasks[0].suite if tasks else "",
        split=tasks[0].split if tasks else "",
        n=n,
        successes=len(solved),
        judged=len(judged),
        outcomes=outcomes(rows, missing=n - len(rows)),
        success=len(solved) / n if n else 0.0,
        interval=wilson(len(solved), n),
        success_judged=len(solved) / len(judged) if judged else None,
        interval_judged=wilson(len(solved), len(judged)) if judged else None,
        steps_on_solved=mean([r.steps for r in solved]),
        by_template=by_template(rows),
        tokens=sum(r.prompt_tokens + r.completion_tokens for r in rows),
        wall_s=round(sum(r.wall_s for r in rows), 3),
        judge=next((r.judge for r in rows if r.judge), ""),
        dataset=dataset_hash(tasks),
        **facts,  # type: ignore[arg-type]
    )


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None of nothing."""
    return sum(values) / len(values) if values else None


def outcomes(results: Iterable[Result], missing: int = 0) -> dict[str, int]:
    """Counts by typed outcome, `missing` for tasks that were never run; zero counts are left out."""
    counts = Counter(str(r.outcome.value) for r in results)
    if missing > 0:
        counts["missing"] = missing
    return dict(sorted(counts.items()))


def by_template(results: Iterable[Result]) -> dict[str, tuple[int, int]]:
    """template -> (successes, episodes), sorted by template."""
    table: dict[str, tuple[int, int]] = {}
    for r in results:
        won, n = table.get(r.task.template, (0, 0))
        table[r.task.template] = (won + bool(r.success), n + 1)
    return dict(sorted(table.items()))


def by_mode(results: Iterable[Result]) -> dict[str, int]:
    """failure mode -> judged failures, most frequent first."""
    counts = Counter(r.mode for r in results if r.mode and r.success is False)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def values(results: Iterable[Result], model: str, *, judged_only: bool = False) -> dict[str, list[float]]:
    """task id -> success of each run as 0 or 1: what the paired bootstrap takes."""
    table: dict[str, list[float]] = {}
    for r in results:
        if r.model == model and not (judged_only and r.success is None):
            table.setdefault(r.task.id, []).append(float(bool(r.success)))
    return table


def paired_success(
    results: Sequence[Result], a: str, b: str, *, judged_only: bool = False, resamples: int = 2000, seed: int = 0
) -> Paired:
    """Difference in success `a - b` on the tasks that both were given."""
    tables = [values(results, model, judged_only=judged_only) for model in (a, b)]
    several = any(len(v) > 1 for table in tables for v in table.values())
    kind = "nested" if several else "fixed"
    return paired_bootstrap(tables[0], tables[1], runs=kind, resamples=resamples, seed=seed)  # type: ignore[arg-type]


class CommonSteps(NamedTuple):
    """Mean steps of two models on the tasks that both solved: unlike own means it does not reward giving up."""

    n: int
    a: float | None
    b: float | None
    difference: float | None
    interval: Interval | None


def common_steps(results: Sequence[Result], a: str, b: str, *, resamples: int = 2000, seed: int = 0) -> CommonSteps:
    """Steps on tasks solved by both, and the paired difference `a - b` with its interval."""
    solved: dict[str, dict[str, list[float]]] = {a: {}, b: {}}
    for r in results:
        if r.success and r.model in solved:
            solved[r.model].setdefault(r.task.id, []).append(r.steps)
    tasks = sorted(solved[a].keys() & solved[b].keys())
    if not tasks:
        return CommonSteps(0, None, None, None, None)
    steps_a, steps_b = ([sum(solved[m][t]) / len(solved[m][t]) for t in tasks] for m in (a, b))
    differences = [x - y for x, y in zip(steps_a, steps_b, strict=True)]
    interval = mean_interval(differences, resamples=resamples, seed=seed)
    return CommonSteps(len(tasks), mean(steps_a), mean(steps_b), mean(differences), interval)


class YieldPoint(NamedTuple):
    """After `attempts` attempts at each task."""

    attempts: int
    tasks: int
    solved: int
    rate: float
    interval: Interval
    steps_of_kept: float | None
    """Mean steps of the shortest success so far of each solved task."""
    browser_steps: int
    """Steps spent up to here, on all tasks."""


def yield_at(results: Sequence[Result], tasks: int | None = None) -> list[YieldPoint]:
    """Share of tasks solved within 1, 2, ... attempts (`run` is the attempt; infra errors spend none).

    `tasks`: how many were asked for, where some were never tried.
    """
    n = len({r.task.id for r in results}) if tasks is None else tasks
    rows = [r for r in results if r.outcome is not Outcome.INFRA_ERROR]
    points = []
    for k in range(1, 2 + max((r.run for r in rows), default=-1)):
        shortest: dict[str, int] = {}
        for r in rows:
            if r.run < k and r.success:
                shortest[r.task.id] = min(r.steps, shortest.get(r.task.id, r.steps))
        spent = sum(r.steps for r in rows if r.run < k)
        solved = len(shortest)
        rate, interval = solved / n if n else 0.0, wilson(solved, n)
        points.append(YieldPoint(k, n, solved, rate, interval, mean(list(shortest.values())), spent))
    return points


def step_budget_curve(results: Sequence[Result], n: int) -> list[tuple[int, float]]:
    """(budget, success) for budgets 1, 2, ...: a success counts only when it took no more steps than the budget."""
    longest = max((r.steps for r in results), default=0)
    solved = [r.steps for r in results if r.success]
    return [(budget, sum(s <= budget for s in solved) / n if n else 0.0) for budget in range(1, longest + 1)]


class Cost(NamedTuple):
    """What the episodes of one model used. None where the number was never recorded (a count of zero)."""

    steps_per_task: float | None
    steps_per_success: float | None
    tokens_per_task: float | None
    tokens_per_success: float | None
    wall_s_per_task: float | None
    money_per_task: float | None
    money_per_success: float | None


def cost(results: Sequence[Result], price: tuple[float, float] | None = None) -> Cost:
    """Per task and per success; all episodes are paid for, solved or not. `price`: money per million tokens in, out."""
    tasks, solved = len(results), sum(bool(r.success) for r in results)
    steps, wall = sum(r.steps for r in results), sum(r.wall_s for r in results)
    read, written = sum(r.prompt_tokens for r in results), sum(r.completion_tokens for r in results)
    money = (read * price[0] + written * price[1]) / 1e6 if price else 0.0

    def per(total: float, count: int) -> float | None:
        return total / count if total > 0 and count else None

    tokens = read + written
    return Cost(
        per(steps, tasks), per(steps, solved), per(tokens, tasks), per(tokens, solved), per(wall, tasks),
        per(money, tasks), per(money, solved),
    )  # fmt: skip


def claim_gap(results: Iterable[Result]) -> int:
    """Episodes in which the policy said that it was done and the verdict says that it was not."""
    return sum(r.claimed and r.success is False for r in results)
