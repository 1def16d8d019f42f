"""What labelled agents did, as people saw it: success, steps, tokens and cost of each, and paired steps. Pure.

The rows are ordinary `Result`s whose success is the human label, so that every number is the one that bench/metrics.py
computes for an exam; the label counts also where the machine broke the attempt, of which people saw the pages that
there are. Steps include the act that ends an episode, whatever the run's own setting: agents of several sources stand
in one table. Beside "steps on solved" stands the paired number: solved sets differ between agents, and the
unpaired mean rewards giving up on hard tasks.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from rmsweb.bench import metrics
from rmsweb.bench.metrics import Result
from rmsweb.records import INFRA_STOPS, Outcome, Stop, Task, Trajectory, Verdict
from rmsweb.statistics import wilson

HUMAN = "human label"


@dataclass(slots=True, frozen=True)
class LabelledAttempt:
    """What is stored of one agent's attempt beside its judgement."""

    benchmark: str
    agent: str
    task_id: str
    steps: int | None
    """Steps that the agent took; None: not recorded."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """US dollars; None: unknown. A recorded 0 beside tokens that were used is unknown, not free."""
    goal: str = ""
    trajectory: Trajectory | None = None
    """Where it is one of ours or imported: then steps, tokens and cost are its own."""

    @property
    def aborted(self) -> bool:
        """The machine broke it: an exam counts it as not judged."""
        return self.trajectory is not None and self.trajectory.stop in INFRA_STOPS


def result_of(attempt: LabelledAttempt, human: bool) -> Result:
    """One attempt as a row of the metrics, judged by its human label."""
    outcome = Outcome.SUCCESS if human else Outcome.FAILURE
    if attempt.trajectory is not None:
        row = metrics.result_of(attempt.agent, attempt.trajectory, Verdict(success=human, judge=HUMAN))
        return replace(row, success=human, outcome=outcome, unjudged="") if attempt.aborted else row
    name = attempt.benchmark
    task = Task(
        id=f"{name}/{attempt.task_id}" if name else attempt.task_id,
        suite=name, site=name, template=name, split="exam", goal=attempt.goal,
    )  # fmt: skip
    return Result(
        model=attempt.agent,
        task=task,
        run=0,
        trajectory_id=f"{attempt.agent}/{task.id}#0",
        success=human,
        outcome=outcome,
        stop=Stop.DONE,
        steps=attempt.steps,
        prompt_tokens=attempt.input_tokens,
        completion_tokens=attempt.output_tokens,
        wall_s=None,
        claimed=False,
        judge=HUMAN,
        cost=attempt.cost,
    )


def agents(rows: Sequence[tuple[LabelledAttempt, bool]]) -> dict[str, dict[str, Any]]:
    """agent -> n, human success with interval, mean steps over all and over solved, tokens, recorded cost.

    Attempts without a step count are left out and counted, aborted ones are in it and counted. `cost` is None unless it
    is known for every attempt; `cost_recorded` is the sum over those for which it is (None: for none).
    """
    by_agent: dict[str, list[tuple[LabelledAttempt, Result]]] = defaultdict(list)
    left_out: dict[str, int] = defaultdict(int)
    for attempt, human in rows:
        if attempt.steps is None:
            left_out[attempt.agent] += 1
        else:
            by_agent[attempt.agent].append((attempt, result_of(attempt, human)))
    found: dict[str, dict[str, Any]] = {}
    for agent, pairs in sorted(by_agent.items()):
        results = [result for _, result in pairs]
        solved = [result for result in results if result.success]
        read = [r.prompt_tokens for r in results if r.prompt_tokens is not None]
        written = [r.completion_tokens for r in results if r.completion_tokens is not None]
        costs = [result.cost for result in results if result.cost is not None]
        found[agent] = {
            "n": len(results),
            "solved": len(solved),
            "success": len(solved) / len(results),
            "interval": list(wilson(len(solved), len(results))),
            "steps_all": metrics.mean([r.steps for r in results if r.steps is not None]),
            "steps_on_solved": metrics.mean([r.steps for r in solved if r.steps is not None]),
            "input_tokens": sum(read) if read else None,
            "output_tokens": sum(written) if written else None,
            "cost": sum(costs) if len(costs) == len(results) else None,
            "cost_recorded": sum(costs) if costs else None,
            "cost_unknown": len(results) - len(costs),
            "aborted": sum(attempt.aborted for attempt, _ in pairs),
            "without_steps": left_out[agent],
        }
    return found


def paired(
    rows: Sequence[tuple[LabelledAttempt, bool]], *, resamples: int = 2000, seed: int = 0
) -> list[dict[str, Any]]:
    """Every two agents: steps on the tasks that both solved, and on how many tasks only one of them succeeded."""
    results = [result_of(attempt, human) for attempt, human in rows if attempt.steps is not None]
    found = []
    for a, b in combinations(sorted({result.model for result in results}), 2):
        steps = metrics.common_steps(results, a, b, resamples=resamples, seed=seed)
        success = metrics.paired_success(results, a, b, resamples=resamples, seed=seed)
        found.append(
            {
                "a": a, "b": b, "tasks": success.n, "both_solved": steps.n, "steps_a": steps.a, "steps_b": steps.b,
                "difference": steps.difference, "interval": list(steps.interval) if steps.interval else None,
                "a_only": success.a_only, "b_only": success.b_only, "mcnemar_p": success.p,
            }
        )  # fmt: skip
    return found


def distinct(rows: Iterable[tuple[LabelledAttempt, bool]]) -> list[tuple[LabelledAttempt, bool]]:
    """Each attempt once, with its first label, though several judges saw it or several people labelled it."""
    found: dict[tuple[str, ...], tuple[LabelledAttempt, bool]] = {}
    for attempt, human in rows:
        ident = attempt.trajectory.id if attempt.trajectory else ""
        found.setdefault((attempt.benchmark, attempt.agent, attempt.task_id, ident), (attempt, human))
    return list(found.values())
