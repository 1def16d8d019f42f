"""From judged trajectories to numbers. Pure: records in, records and plain values out; no file, no clock.

Owns what a row of the exam is (`Result`), typed outcomes and the marks across them, the two denominators, steps on
solved tasks (own and commonly solved), yield by attempt, the step-budget curve, and the tables by site, template,
level, segment and failure mode. A trajectory that could not be judged is a failure only over all tasks; over judged
tasks it is left out. Rates over several runs are in rates.py, money in costs.py.

Steps are decisions of the policy, the final `answer` or `terminate` included unless `with_end` says otherwise,
replayed steps not. An imported run that states a number is taken at its word: it counts what was done, the final act
included. Else the acts that it lists are counted; an answer alone is no list. Where nothing is stated and nothing
listed, or where the final act is to be left out of a stated number and no list says which it was, `Result.steps` is
None: unknown, left out of every mean and curve, and counted (`Score.marks`). Tokens and seconds likewise.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rmsweb.actions import ENDING
from rmsweb.bench.costs import use_of
from rmsweb.bench.reading import acts, imported, lists_acts, viewport_of
from rmsweb.judge import outcome
from rmsweb.records import Outcome, Stop, Task, Trajectory, Verdict
from rmsweb.statistics import Interval, Paired, mean_interval, paired_bootstrap, wilson

_CAPTCHA = re.compile(r"captcha|human verification|not a robot|verify (?:that )?you are (?:a )?human", re.IGNORECASE)
SEGMENTS = ("level", "segment")
"""Fields of `Task.meta` that tables are broken down by, beside site and template."""


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
    steps: int | None
    """None: not known, as the other numbers of what it took."""
    prompt_tokens: int | None
    completion_tokens: int | None
    wall_s: float | None
    claimed: bool
    """The policy said that it was done; no success by itself."""
    mode: str = ""
    """Failure mode; empty for successes."""
    judge: str = ""
    raw_reward: float | None = None
    """MiniWoB++: the page's own reward before any time penalty."""
    unjudged: str = ""
    """Why the judge could not tell."""
    upstream: int | None = None
    """What the protocol's upstream script would have stored: 1, 0, or None."""
    has_upstream: bool = False
    """The protocol has such a reading."""
    answered: bool = False
    captcha: bool = False
    """A human check is named where the episode ended or in the judge's reason."""
    cost: float | None = None
    """Money as recorded by who made the run; None: not recorded, or 0 although tokens were used."""
    policy: str = ""
    viewport: tuple[int, int] | None = None
    """None: not recorded."""

    @property
    def tokens(self) -> int | None:
        """Read and written; None: not recorded."""
        known = self.prompt_tokens is not None and self.completion_tokens is not None
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0) if known else None


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


def result_of(
    model: str, trajectory: Trajectory, verdict: Verdict | None, mode: str = "", *, with_end: bool = True
) -> Result:
    """The row of one trajectory (`mode`: of a failure; default how it ended). Infra ends are never judged."""
    typed = outcome(trajectory, verdict)
    if typed is Outcome.INFRA_ERROR and verdict is not None:  # whatever an imported file says of a broken attempt
        verdict = verdict.model_copy(update={"success": None, "details": {}})
    judged = None if verdict is None else verdict.success
    details: Mapping[str, Any] = verdict.details if verdict else {}
    label, reward, use = details.get("upstream_label"), trajectory.evidence.get("raw_reward"), use_of(trajectory)
    return Result(
        model=model,
        task=trajectory.task,
        run=trajectory.attempt,
        trajectory_id=trajectory.id,
        success=judged,
        outcome=typed,
        stop=trajectory.stop,
        steps=steps_of(trajectory, with_end=with_end),
        prompt_tokens=use.prompt_tokens,
        completion_tokens=use.completion_tokens,
        wall_s=trajectory.wall_s or (None if imported(trajectory) else 0.0),
        claimed=trajectory.stop is Stop.ANSWERED,
        mode="" if judged else mode or mode_by_stop(trajectory),
        judge=verdict.judge if verdict else "",
        raw_reward=float(reward) if isinstance(reward, int | float) else None,
        unjudged="" if verdict is None or judged is not None else verdict.unjudged or "no_verdict",
        upstream=int(label) if label in (0, 1) else None,
        has_upstream="upstream_label" in details,
        answered=bool(trajectory.answer and trajectory.answer.strip()),
        captcha=bool(_CAPTCHA.search(f"{trajectory.detail} {verdict.reason if verdict else ''}")),
        cost=use.cost,
        policy=trajectory.policy,
        viewport=viewport_of(trajectory),
    )


def steps_of(trajectory: Trajectory, *, with_end: bool = True) -> int | None:
    """Decisions of the policy; of an imported run the number that it states, else the acts that it lists. None: unknown
    (see above). `with_end`: the final act counts."""
    if not imported(trajectory):
        decisions = [step.decision for step in trajectory.steps if step.decision.intent != "replay"]
        return len(decisions) - (not with_end and bool(decisions) and isinstance(decisions[-1].action, ENDING))
    listed, stated = acts(trajectory), use_of(trajectory).steps
    whole = lists_acts(trajectory) and stated in (None, len(listed))
    if stated is not None and (with_end or not whole):
        return stated if with_end else None
    return len(listed) - (not with_end and listed[-1].final) if whole else None


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None of nothing."""
    return sum(values) / len(values) if values else None


def outcomes(results: Iterable[Result], missing: int = 0) -> dict[str, int]:
    """Counts by typed outcome, `missing` for tasks that were never run; zero counts are left out."""
    counts = Counter(str(r.outcome.value) for r in results)
    if missing > 0:
        counts["missing"] = missing
    return dict(sorted(counts.items()))


def marks(results: Sequence[Result]) -> dict[str, int]:
    """What is known of the episodes across their outcomes (`Score.marks`); zero counts are left out."""
    counts = {
        "steps_unknown": sum(r.steps is None for r in results),
        "tokens_unknown": sum(r.tokens is None for r in results),
        "seconds_unknown": sum(r.wall_s is None for r in results),
        "ran": sum(r.outcome is not Outcome.INFRA_ERROR for r in results),
        "no_answer": sum(not r.answered for r in results if r.outcome is not Outcome.INFRA_ERROR),
        "blocked": sum(r.stop is Stop.BLOCKED for r in results),
        "captcha": sum(r.captcha for r in results),
        "step_limit": sum(r.stop is Stop.STEP_LIMIT for r in results),
        "claimed": sum(r.claimed for r in results),
        "claimed_not_done": claim_gap(results),
    }
    return {name: count for name, count in counts.items() if count}


def unjudged(results: Iterable[Result]) -> dict[str, int]:
    """Why the judge could not tell -> episodes that ran."""
    counts = Counter(r.unjudged or "not_judged" for r in results if r.success is None and not _broke(r))
    return dict(sorted(counts.items()))


def _broke(result: Result) -> bool:
    return result.outcome is Outcome.INFRA_ERROR


def breakdown(
    tasks: Sequence[Task], results: Iterable[Result], wanted: Mapping[str, int]
) -> dict[str, dict[str, tuple[int, int]]]:
    """site, template, level, segment -> value -> (successes, episodes asked for); kinds with one value are left out.

    `wanted`: task id -> episodes. Level and segment are fields of `Task.meta`. Missing and unjudged episodes count as
    not solved.
    """
    won = Counter(r.task.id for r in results if r.success)
    table: dict[str, dict[str, tuple[int, int]]] = {}
    for task in tasks:
        for kind, value in labels_of(task).items():
            solved, n = table.setdefault(kind, {}).get(value, (0, 0))
            table[kind][value] = (solved + won[task.id], n + wanted[task.id])
    others = [values for kind, values in table.items() if kind != "template"]
    if table.get("template") in others:  # files without templates have the site or the level there
        del table["template"]
    return {kind: dict(sorted(values.items())) for kind, values in table.items() if len(values) > 1}


def labels_of(task: Task) -> dict[str, str]:
    """What a task belongs to, by kind."""
    found = {"site": task.site, "template": task.template}
    found |= {kind: str(task.meta[kind]) for kind in SEGMENTS if task.meta.get(kind) not in (None, "")}
    return {kind: value for kind, value in found.items() if value}


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
    results: Sequence[Result],
    a: str,
    b: str,
    *,
    judged_only: bool = False,
    wanted: Mapping[str, int] | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Paired:
    """Difference in success `a - b` on the tasks that both were given.

    `wanted`: task id -> episodes that both were asked for; one that is not there counts as not solved.
    """
    tables = [values(results, model, judged_only=judged_only) for model in (a, b)]
    for table in tables:
        for task, count in (wanted or {}).items():
            table.setdefault(task, []).extend([0.0] * (count - len(table.get(task, ()))))
    several = any(len(v) > 1 for table in tables for v in table.values())
    kind = "nested" if several else "fixed"
    return paired_bootstrap(tables[0], tables[1], runs=kind, resamples=resamples, seed=seed)  # type: ignore[arg-type]


class CommonSteps(NamedTuple):
    """Mean steps of two models on the tasks that both solved: unlike own means it does not reward giving up."""

    n: int
    """Tasks that both solved in a known number of steps."""
    a: float | None
    b: float | None
    difference: float | None
    interval: Interval | None
    unknown: int = 0
    """Tasks that both solved, one of them in a number of steps that nobody knows."""


def common_steps(results: Sequence[Result], a: str, b: str, *, resamples: int = 2000, seed: int = 0) -> CommonSteps:
    """Steps on tasks solved by both, and the paired difference `a - b` with its interval."""
    won: dict[str, set[str]] = {a: set(), b: set()}
    solved: dict[str, dict[str, list[float]]] = {a: {}, b: {}}
    for r in results:
        if r.success and r.model in solved:
            won[r.model].add(r.task.id)
            if r.steps is not None:
                solved[r.model].setdefault(r.task.id, []).append(r.steps)
    tasks = sorted(solved[a].keys() & solved[b].keys())
    unknown = len(won[a] & won[b]) - len(tasks)
    if not tasks:
        return CommonSteps(0, None, None, None, None, unknown)
    steps_a, steps_b = ([sum(solved[m][t]) / len(solved[m][t]) for t in tasks] for m in (a, b))
    differences = [x - y for x, y in zip(steps_a, steps_b, strict=True)]
    interval = mean_interval(differences, resamples=resamples, seed=seed)
    return CommonSteps(len(tasks), mean(steps_a), mean(steps_b), mean(differences), interval, unknown)


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
    """Steps spent up to here, on all tasks, as far as they are known."""


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
            if r.run < k and r.success and r.steps is not None:
                shortest[r.task.id] = min(r.steps, shortest.get(r.task.id, r.steps))
        spent = sum(r.steps or 0 for r in rows if r.run < k)
        solved = len({r.task.id for r in rows if r.run < k and r.success})
        rate, interval = solved / n if n else 0.0, wilson(solved, n)
        points.append(YieldPoint(k, n, solved, rate, interval, mean(list(shortest.values())), spent))
    return points


def step_budget_curve(results: Sequence[Result], n: int) -> list[tuple[int, float]]:
    """(budget, success) for budgets 1, 2, ...: a success counts only when it took no more steps than the budget.

    Empty where the steps of any success are unknown: it would be a failure within every budget.
    """
    longest = max((r.steps for r in results if r.steps is not None), default=0)
    solved = [r.steps for r in results if r.success and r.steps is not None]
    if len(solved) < sum(bool(r.success) for r in results):
        return []
    return [(budget, sum(s <= budget for s in solved) / n if n else 0.0) for budget in range(1, longest + 1)]


def claim_gap(results: Iterable[Result]) -> int:
    """Episodes in which the policy said that it was done and the verdict says that it was not."""
    return sum(r.claimed and r.success is False for r in results)
