"""What collection brought and what it cost: the figures of the proof obligation (method.md 1.7). Pure.

Owns `kept` (which attempt is a task's success), the summary of one arm and the paired comparison of two. Costs are
browser steps of all attempts; a task counts in the yield whatever became of it, blocked ones included.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rmsweb.config import CollectConfig
from rmsweb.judge import outcome
from rmsweb.records import Reflection, Task, Trajectory, Verdict
from rmsweb.reflect.leaks import find_leaks
from rmsweb.statistics import Interval, mean_interval, ratio_interval, wilson


def rounded(interval: Interval | None) -> Interval | None:
    """The interval as it stands in a summary: four digits."""
    return None if interval is None else Interval(round(interval.low, 4), round(interval.high, 4))


def kept(attempts: Iterable[Trajectory], verdicts: Mapping[str, Verdict]) -> Trajectory | None:
    """The shortest success; of equally short ones the earliest. A later one is kept only if it is shorter."""
    good = [t for t in attempts if t.id in verdicts and verdicts[t.id].success is True]
    return min(good, key=lambda t: (len(t.steps), t.attempt), default=None)


def by_task(trajectories: Iterable[Trajectory]) -> dict[str, list[Trajectory]]:
    """Attempts of each task, in order."""
    found: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        found[trajectory.task.id].append(trajectory)
    return {task: sorted(attempts, key=lambda t: t.attempt) for task, attempts in found.items()}


def summary(
    tasks: Sequence[Task],
    trajectories: Collection[Trajectory],
    verdicts: Mapping[str, Verdict],
    reflections: Mapping[str, Reflection],
    config: CollectConfig,
) -> dict[str, Any]:
    """Figures of one arm. `yield_at[k]` is the share of tasks solved within k + 1 attempts."""
    attempts = by_task(trajectories)
    solved_at = {task: _first_success(tries, verdicts) for task, tries in attempts.items()}
    counts = [sum(s is not None and s <= k for s in solved_at.values()) for k in range(config.retries + 1)]
    n = len(tasks)
    yields = [round(count / n, 4) if n else 0.0 for count in counts]
    best = [t for t in (kept(tries, verdicts) for tries in attempts.values()) if t is not None]
    steps_of_kept = [len(t.steps) for t in best]
    spent = {task: sum(len(t.steps) for t in tries) for task, tries in attempts.items()}
    costs = [spent.get(task.id, 0) for task in tasks]
    wins = [int(solved_at.get(task.id) is not None) for task in tasks]
    outcomes = Counter(outcome(t, verdicts.get(t.id)) for t in trajectories)
    mean_steps = round(sum(steps_of_kept) / len(best), 3) if best else None
    cost = round(sum(costs) / len(best), 3) if best else None
    return {
        "arm": config.arm,
        "policy": next((t.policy for t in trajectories), ""),
        "tasks": n,
        "attempts": len(trajectories),
        "attempts_by_number": dict(sorted(Counter(t.attempt for t in trajectories).items())),
        "browser_steps": sum(costs),
        "kept": len(best),
        "yield_at": yields,
        "yield_interval": [rounded(wilson(count, n)) for count in counts],
        "marginal_yield": [round(b - a, 4) for a, b in zip([0.0, *yields[:-1]], yields, strict=True)],
        "retry_success": _retry_success(attempts, verdicts, config.retries),
        "steps_of_kept": mean_steps,
        "steps_of_kept_interval": rounded(mean_interval(steps_of_kept)),
        "steps_of_kept_by_attempt": _steps_by_attempt(best),
        "inefficient_kept": sum(steps > config.step_budget for steps in steps_of_kept),
        "browser_steps_per_success": cost,
        "browser_steps_per_success_interval": rounded(ratio_interval(costs, wins)),
        "marginal_cost": _marginal_cost(attempts, counts),
        "tokens_per_kept": _tokens_per_kept(trajectories, len(best)),
        "seconds_per_kept": round(sum(t.wall_s for t in trajectories) / len(best), 3) if best else None,
        "outcomes": dict(sorted(outcomes.items())),
        "by_template": _by_template(attempts, solved_at),
        "reflections": len(reflections),
        "reflection_codes": dict(Counter(r.code for r in reflections.values()).most_common()),
        **_leak_figures(best),
    }


def _first_success(tries: Sequence[Trajectory], verdicts: Mapping[str, Verdict]) -> int | None:
    return next((t.attempt for t in tries if t.id in verdicts and verdicts[t.id].success is True), None)


def _retry_success(
    attempts: Mapping[str, Sequence[Trajectory]], verdicts: Mapping[str, Verdict], retries: int
) -> list[dict[str, Any]]:
    """For each retry: of the tasks that it met unsolved, the share that it solved."""
    rows = []
    for number in range(1, retries + 1):
        met = [
            tries
            for tries in attempts.values()
            if any(t.attempt == number for t in tries)
            and _first_success([t for t in tries if t.attempt < number], verdicts) is None
        ]
        won = sum(_first_success(tries, verdicts) == number for tries in met)
        rows.append({"retry": number, "n": len(met), "success": round(won / len(met), 4) if met else None,
                     "interval": rounded(wilson(won, len(met)))})  # fmt: skip
    return rows


def _steps_by_attempt(best: Sequence[Trajectory]) -> dict[int, float]:
    steps: dict[int, list[int]] = defaultdict(list)
    for trajectory in best:
        steps[trajectory.attempt].append(len(trajectory.steps))
    return {attempt: round(sum(found) / len(found), 3) for attempt, found in sorted(steps.items())}


def _marginal_cost(attempts: Mapping[str, Sequence[Trajectory]], solved: Sequence[int]) -> list[float | None]:
    """Browser steps of attempt k for each task that it solved first."""
    costs: list[float | None] = []
    before = 0
    for number, count in enumerate(solved):
        spent = sum(len(t.steps) for tries in attempts.values() for t in tries if t.attempt == number)
        costs.append(round(spent / (count - before), 2) if count > before else None)
        before = count
    return costs


def _tokens_per_kept(trajectories: Iterable[Trajectory], n: int) -> float | None:
    tokens = sum(s.decision.prompt_tokens + s.decision.completion_tokens for t in trajectories for s in t.steps)
    return round(tokens / n, 1) if n else None


def _by_template(
    attempts: Mapping[str, Sequence[Trajectory]], solved_at: Mapping[str, int | None]
) -> dict[str, dict[str, int]]:
    """template -> tasks tried, solved at first, solved in the end."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for task, tries in attempts.items():
        row = rows[tries[0].task.template]
        row["n"] += 1
        row["first"] += solved_at[task] == 0
        row["solved"] += solved_at[task] is not None
    return {name: dict(row) for name, row in sorted(rows.items())}


def _leak_figures(best: Iterable[Trajectory]) -> dict[str, Any]:
    """Thoughts of kept, advised attempts that give the guidance away."""
    advised = [t for t in best if t.advice]
    thoughts = [(t, s) for t in advised for s in t.steps if s.decision.thought]
    leaking = sum(bool(find_leaks(s.decision.thought, t.advice, public_texts(t, s.index))) for t, s in thoughts)
    return {
        "advised_kept": len(advised),
        "advised_thoughts": len(thoughts),
        "leaks": leaking,
        "leak_rate": round(leaking / len(thoughts), 4) if thoughts else 0.0,
    }


def public_texts(trajectory: Trajectory, index: int) -> list[str]:
    """What the policy saw besides the guidance at a step: the goal, the pages so far, its earlier naming lines."""
    texts = [trajectory.task.goal]
    for step in trajectory.steps[: index + 1]:
        texts += [step.before.title, *step.before.messages, *(e.name for e in step.before.elements or ())]
        texts += [step.decision.intent] if step.index < index else []
    return texts


def paired_difference(one: Sequence[float], other: Sequence[float], seed: int = 0) -> dict[str, Any]:
    """Mean of `other - one` over pairs, with a bootstrap interval."""
    differences = [b - a for a, b in zip(one, other, strict=True)]
    mean = sum(differences) / len(differences) if differences else 0.0
    return {"mean": round(mean, 4), "interval": rounded(mean_interval(differences, seed=seed)), "n": len(differences)}


class TaskFigures(NamedTuple):
    """One task in one arm."""

    solved_at: int | None
    """Attempt that solved it first."""
    kept_steps: int | None
    """Steps of the kept success."""
    cost: int
    """Browser steps of all its attempts."""


def per_task(trajectories: Iterable[Trajectory], verdicts: Mapping[str, Verdict]) -> dict[str, TaskFigures]:
    """Figures of each task of an arm, by task id: what paired comparisons are made of."""
    found = {}
    for task, tries in by_task(trajectories).items():
        best = kept(tries, verdicts)
        steps = None if best is None else len(best.steps)
        found[task] = TaskFigures(_first_success(tries, verdicts), steps, sum(len(t.steps) for t in tries))
    return found


def compare(one: Mapping[str, TaskFigures], other: Mapping[str, TaskFigures], attempts: int) -> dict[str, Any]:
    """`other - one` over the tasks that both arms tried, with bootstrap intervals.

    `yield_at[k]`: solved within k + 1 attempts. `yield`: solved with all that was spent. `steps_common`: steps of the
    kept success on tasks that both solved. `retry_success`: solved by attempt 2, among tasks whose attempt 1 failed in
    both.
    """
    names = sorted(one.keys() & other.keys())
    pairs = [(one[name], other[name]) for name in names]
    both = [(a.kept_steps, b.kept_steps) for a, b in pairs if a.kept_steps is not None and b.kept_steps is not None]
    failed = [(a, b) for a, b in pairs if a.solved_at != 0 and b.solved_at != 0]
    return {
        "tasks": len(names),
        "yield_at": [
            paired_difference([_within(a, k) for a, _ in pairs], [_within(b, k) for _, b in pairs])
            for k in range(attempts)
        ],
        "yield": paired_difference(
            [float(a.solved_at is not None) for a, _ in pairs], [float(b.solved_at is not None) for _, b in pairs]
        ),
        "retry_success": paired_difference([_within(a, 1) for a, _ in failed], [_within(b, 1) for _, b in failed]),
        "steps_common": paired_difference([a for a, _ in both], [b for _, b in both]),
        "cost": paired_difference([a.cost for a, _ in pairs], [b.cost for _, b in pairs]),
    }


def _within(figures: TaskFigures, attempt: int) -> float:
    return float(figures.solved_at is not None and figures.solved_at <= attempt)
