"""From results to the numbers of an exam: scores.json, the summary, and what report and table show.

Owns the shape of these values. Everything is computed from stored trajectories and verdicts, never from an earlier
file of numbers; any number of exam runs can be read together, as long as they are alike (compare.py sorts them).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rmsweb.bench import costs, metrics, rates, setting
from rmsweb.bench.controls import KINDS
from rmsweb.bench.metrics import Result
from rmsweb.bench.modes import Judged, failure_modes
from rmsweb.errors import DataError
from rmsweb.records import Task, Trajectory, Verdict
from rmsweb.statistics import mean_interval
from rmsweb.store import Run
from rmsweb.tasksets.taskset import ids_hash


def exam_of(task: Task) -> str:
    """Name of the exam that a task belongs to: the split of the built-in sites, otherwise the suite."""
    return task.split if task.suite == "sites" else task.suite


def arm_of(trajectory: Trajectory) -> str:
    """What stands before the task in a trajectory's id: the model of an exam, the arm of a collection; or empty."""
    return trajectory.id.removesuffix(f"{trajectory.task.id}#{trajectory.attempt}").rstrip("/")


def read_judged(run: Run) -> list[Judged]:
    """Episodes of a run with their latest verdicts, in the order first begun; a redone one counts as its last try."""
    verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
    last = {t.id: t for t in run.read("trajectory", Trajectory)}
    return [(t, verdicts.get(t.id)) for t in last.values()]


def results_of(judged: Sequence[Judged], *, with_end: bool = True) -> list[Result]:
    """Their rows; failures are labelled with the failure modes of Part 2. `with_end`: the final answer is a step."""
    modes = failure_modes(judged)
    return [metrics.result_of(arm_of(t) or t.policy, t, v, modes.get(t.id, ""), with_end=with_end) for t, v in judged]


def gather(runs: Mapping[Path, Sequence[Judged]]) -> list[Judged]:
    """Episodes of several exam runs. Raises DataError when two runs hold the same model on the same task."""
    found: dict[str, tuple[Path, Judged]] = {}
    for path, judged in runs.items():
        for trajectory, verdict in judged:
            if trajectory.id in found:
                model, other = arm_of(trajectory), found[trajectory.id][0]
                where = f"model {model} was examined on {trajectory.task.id} here and in {other}"
                raise DataError(f"{where}; give one of them", path)
            found[trajectory.id] = (path, (trajectory, verdict))
    return [one for _, one in found.values()]


FIRST = ("base", "sft", "sft_continued")
"""Where a policy comes from stands before what was made of it, in whatever order the runs are read."""


def models_of(results: Sequence[Result]) -> list[str]:
    """Model names without the control runs: those of `FIRST`, then the others as they appear."""
    names = dict.fromkeys(r.model for r in results)
    named = [name for name in FIRST if name in names]
    return [name for name in (*named, *(n for n in names if n not in FIRST)) if not is_control(name)]


def is_control(model: str) -> bool:
    """Whether a name is that of a control run (`rl+blank`)."""
    return any(model.endswith(f"+{kind}") for kind in KINDS)


def exam_numbers(
    results: Sequence[Result],
    tasks: Sequence[Task] | None = None,
    *,
    runs: int | None = None,
    found: bool = False,
    resamples: int = 2000,
    seed: int = 0,
    prices: Mapping[str, tuple[float, float]] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """All numbers of one exam, JSON-ready. `tasks`: what was asked for (default: every task that anyone was given).

    `runs` of each task (`found`: nobody knows, see `rates.score`). `facts` by model: what else its Score has to say
    (`setting.facts_of`). Raises DataError when verdicts of different judges are mixed.
    """
    tasks = list({r.task.id: r.task for r in results}.values()) if tasks is None else list(tasks)
    _same_judge(results)
    models = models_of(results)
    of = {m: [r for r in results if r.model == m] for m in models}
    name = exam_of(tasks[0]) if tasks else ""
    scores = {
        m: rates.score(
            name, m, tasks, of[m], runs=runs, found=found, resamples=resamples, seed=seed,
            facts=(facts or {}).get(m) or setting.facts_of(tasks, None, {}, _judge(of[m]), m),
        )
        for m in models
    }  # fmt: skip
    wanted = None if found else {t.id: scores[models[0]].runs for t in tasks} if models else {}
    return {
        "n": len(tasks),
        "dataset": ids_hash(tasks),
        "models": models,
        "scores": {m: s.model_dump(mode="json") for m, s in scores.items()},
        "what": setting.what_lines(scores),
        "warnings": setting.warnings(scores),
        "paired": {
            f"{b}_vs_{a}": {
                **pair_numbers(results, b, a, wanted=wanted, resamples=resamples, seed=seed),
                "unlike": setting.unlike(scores[b], scores[a]),
            }
            for i, a in enumerate(models)
            for b in models[i + 1 :]
            if scores[a].judged and scores[b].judged
        },
        "cost": {m: costs.cost(of[m], price(prices, of[m], m))._asdict() for m in models},
        "spread": {m: spread(of[m], price(prices, of[m], m), resamples=resamples, seed=seed) for m in models},
        "curve": {m: metrics.step_budget_curve(of[m], scores[m].n) for m in models},
        "modes": {m: metrics.by_mode(of[m]) for m in models},
        "claimed_not_done": {m: metrics.claim_gap(of[m]) for m in models},
        "raw_reward_above_zero": {
            m: sum((r.raw_reward or 0) > 0 for r in of[m])
            for m in models
            if any(r.raw_reward is not None for r in of[m])
        },
        "controls": control_numbers(results),
        "tasks": {t.id: {m: [[r.success, r.steps] for r in of[m] if r.task.id == t.id] for m in models} for t in tasks},
    }


def price(prices: Mapping[str, Any] | None, rows: Sequence[Result], model: str) -> costs.Price | None:
    """Of a model, by its name in the tables or the name of its policy."""
    return costs.price_of(prices, model, *dict.fromkeys(r.policy for r in rows))


def spread(
    rows: Sequence[Result], price: costs.Price | None, *, resamples: int = 2000, seed: int = 0
) -> dict[str, list[float] | None]:
    """95 % bounds (bootstrap over tasks) of mean steps, tokens and money of an episode, for charts."""
    kinds = {
        "steps_per_task": [(r, float(r.steps)) for r in rows if r.steps is not None],
        "tokens_per_task": [(r, float(r.tokens)) for r in rows if r.tokens is not None],
        "money_per_task": [
            (
                r,
                costs.at_price(price, r.prompt_tokens or 0, r.completion_tokens or 0)
                if price
                else float(r.cost or 0.0),
            )
            for r in rows
        ]
        if not costs.unknown(rows, price)
        else [],
    }
    found: dict[str, list[float] | None] = {}
    for kind, pairs in kinds.items():
        by_task: dict[str, list[float]] = {}
        for row, value in pairs:
            by_task.setdefault(row.task.id, []).append(value)
        means = [sum(values) / len(values) for _, values in sorted(by_task.items())]
        interval = mean_interval(means, resamples=resamples, seed=seed) if any(means) else None
        found[kind] = list(interval) if interval else None
    return found


def _judge(rows: Sequence[Result]) -> str:
    return next((r.judge for r in rows if r.judge), "")


def pair_numbers(
    results: Sequence[Result],
    a: str,
    b: str,
    *,
    wanted: Mapping[str, int] | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """Success `a - b` on both denominators with intervals, and steps on the tasks that both solved. `wanted`: task id
    -> episodes that both were asked for."""
    every = metrics.paired_success(results, a, b, wanted=wanted, resamples=resamples, seed=seed)
    judged = metrics.paired_success(results, a, b, judged_only=True, resamples=resamples, seed=seed)
    steps = metrics.common_steps(results, a, b, resamples=resamples, seed=seed)
    return {
        "difference": every.difference,
        "interval": list(every.interval),
        "n": every.n,
        "resolved": every.resolved,
        "a_only": every.a_only,
        "b_only": every.b_only,
        "mcnemar_p": every.p,
        "judged": {
            "difference": judged.difference,
            "interval": list(judged.interval),
            "n": judged.n,
            "a_only": judged.a_only,
            "b_only": judged.b_only,
        },
        "common_steps": {
            "n": steps.n,
            "unknown": steps.unknown,
            "a": steps.a,
            "b": steps.b,
            "difference": steps.difference,
            "interval": list(steps.interval) if steps.interval else None,
        },
    }


def control_numbers(results: Sequence[Result]) -> dict[str, Any]:
    """kind -> model, success and interval on the control's tasks, beside the true pictures' where those were run."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(r.model for r in results if is_control(r.model)):
        model, kind = name.rsplit("+", 1)
        rows = [r for r in results if r.model == name]
        tasks = [r.task for r in rows]
        true = [r for r in results if r.model == model and r.task.id in {t.id for t in tasks}]
        control = rates.score(kind, name, tasks, rows)
        found[kind if kind not in found else name] = {
            "model": model,
            "n": control.n,
            "success": control.success,
            "interval": list(control.interval) if control.interval else None,
            "true_pictures": sum(bool(r.success) for r in true) / len(true) if true else None,
        }
    return found


def heldout_summary(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a summary that other programs rely on: `n`, one entry a model, `paired`, `controls`."""
    entries = {
        m: {
            "success": s["success"],
            "interval": s["interval"],
            "success_judged": s["success_judged"],
            "interval_judged": s["interval_judged"],
            "judged": s["judged"],
            "steps_on_solved": s["steps_on_solved"],
            "outcomes": s["outcomes"],
            "tokens_per_task": numbers["cost"][m]["tokens_per_task"],
            "steps_per_success": numbers["cost"][m]["steps_per_success"],
        }
        for m, s in numbers["scores"].items()
    }
    return {
        "n": numbers["n"],
        "dataset": numbers["dataset"],
        "what": numbers["what"],
        "warnings": numbers["warnings"],
        **entries,
        "paired": numbers["paired"],
        "controls": numbers["controls"],
    }


def _same_judge(results: Sequence[Result]) -> None:
    judges = sorted({r.judge for r in results if r.judge and r.success is not None})
    if len(judges) > 1:
        raise DataError(
            f"results of one exam were judged by {' and '.join(judges)}; judge them alike before comparing "
            "(`rmsweb judge --from RUN -o DIRECTORY` judges a whole run again)"
        )
