"""The stage `judge`: stored trajectories judged again, by any protocol, without a browser.

Owns which verdicts are owed. Promises: the judged runs are not touched; verdicts and every question with its reply
are stored as they come, so that a kill repeats no paid call; the same command again asks once more for what could not
be judged, and for nothing else; with stored replies (`--from replies=JUDGED`) no endpoint is asked at all. A judge that
is gone stops the stage instead of leaving a run full of empty verdicts.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rmsweb.bench.judges.asking import Call
from rmsweb.bench.judges.naming import SAMPLING, judge_parts, split_sampling
from rmsweb.bench.scores import arm_of
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.judge import REFUSAL, Judge
from rmsweb.progress import Progress, Silent
from rmsweb.records import INFRA_STOPS, Trajectory, Verdict
from rmsweb.statistics import wilson
from rmsweb.store import Run

GONE = 8
"""Verdicts in a row for which the endpoint did not answer: it is down."""

CURES = {
    "infra": "the same command asks again",
    "not_stored": "give the replies of a run that asked these very questions, or ask an endpoint (without replies=)",
}
"""What helps where no question was answered, by why."""
_NOT_ALLOWED = re.compile(r"HTTP 40[13]\b")

JudgeOf = Callable[[Trajectory], Judge]


def gathered(sources: Mapping[str, Run]) -> dict[str, Trajectory]:
    """Trajectories of all runs by id. Raises DataError when two runs hold the same id or none holds any."""
    found: dict[str, tuple[Path, Trajectory]] = {}
    for run in sources.values():
        for trajectory in run.read("trajectory", Trajectory):
            if trajectory.id in found:
                other = found[trajectory.id][0]
                raise DataError(f"holds trajectory {trajectory.id}, and so does {other}; judge them apart", run.path)
            found[trajectory.id] = (run.path, trajectory)
    if not found:
        paths = ", ".join(str(run.path) for run in sources.values())
        raise RunError(f"there is no trajectory to judge in {paths}")
    return {ident: trajectory for ident, (_, trajectory) in found.items()}


def origins(sources: Mapping[str, Run], trajectories: Mapping[str, Trajectory]) -> dict[str, str]:
    """trajectory id -> name of its run, for those that say no policy of their own."""
    nameless = {ident for ident, t in trajectories.items() if not (arm_of(t) or t.policy)}
    if not nameless:
        return {}
    return {t.id: name for name, run in sources.items() for t in run.read("trajectory", Trajectory) if t.id in nameless}


def owed(trajectories: Mapping[str, Trajectory], verdicts: Sequence[Verdict]) -> tuple[list[str], set[str]]:
    """(ids to judge, those among them that could not be judged before). What the machine broke stays as it is."""
    latest = {verdict.trajectory_id: verdict for verdict in verdicts}
    fresh = [ident for ident in trajectories if ident not in latest]
    again = {
        ident
        for ident, trajectory in trajectories.items()
        if ident in latest and _incomplete(latest[ident]) and trajectory.stop not in INFRA_STOPS
    }
    return [ident for ident in trajectories if ident in again or ident in set(fresh)], again


def _incomplete(verdict: Verdict) -> bool:
    """No verdict, or one that stands without an answer to a question (a rubric's outcome where the process failed)."""
    return verdict.success is None or bool(verdict.details.get("failed"))


def _unsaid(verdict: Verdict) -> bool:
    """Something was answered and could not be read."""
    return _incomplete(verdict) and (verdict.success is not None or verdict.unjudged in UNSAID)


UNSAID = frozenset({"no_verdict", "refused", "truncated"})
"""A reply was there and held no verdict: the same question would get the same reply again."""


def answers_kept(calls: Sequence[Call], rounds: Mapping[str, int], verdicts: Sequence[Verdict] = ()) -> list[Call]:
    """Stored calls that still answer. Where a reply held no verdict, the questions that failed are asked anew; where
    the endpoint failed, what it had answered before stands.

    Which failed stands in `details["failed"]` of the latest verdict of that kind, since questions that are asked
    together may be stored in any order; without it, it is the last one of that trajectory.
    """
    failed = {call.trajectory_id: [call.key] for call in calls if call.trajectory_id in rounds}
    for verdict in verdicts:
        named = verdict.details.get("failed")
        if verdict.trajectory_id in failed and _unsaid(verdict) and named and isinstance(named, list):
            failed[verdict.trajectory_id] = [str(key) for key in named]
    return [
        c for c in calls if c.trajectory_id not in failed or (c.key not in failed[c.trajectory_id] and not _refused(c))
    ]


def _refused(call: Call) -> bool:
    """The judge would not look, or said nothing: half of the evidence must not stand for the whole when asked again."""
    return call.finish in ("refused", "empty") or bool(REFUSAL.search(call.text))


async def run(
    run: Run,
    trajectories: Mapping[str, Trajectory],
    judge_of: JudgeOf,
    todo: Sequence[str],
    *,
    concurrency: int = 8,
    show: Progress | None = None,
    origin: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Judge `todo`, at most `concurrency` at once, and return the summary of all verdicts of the run.

    `origin`: see `summary`.

    Raises RunError when the endpoint is gone, BudgetError when a budget is used up: both can be gone on with.
    """
    show, done, streak, answered = show or Silent(), len(trajectories) - len(todo), 0, not todo
    reason = cure = ""
    slots = asyncio.Semaphore(concurrency)
    show("judge", done, len(trajectories))

    async def one(ident: str) -> None:
        nonlocal done, streak, answered, reason, cure
        async with slots:
            trajectory = trajectories[ident]
            verdict = await judge_of(trajectory)(trajectory)
        gone = verdict.unjudged == "infra" and trajectory.stop not in INFRA_STOPS
        streak = streak + 1 if gone else 0
        if gone or verdict.unjudged == "not_stored":
            reason, cure = verdict.reason, CURES[verdict.unjudged]
        else:
            answered = True
        if gone and _NOT_ALLOWED.search(verdict.reason):
            raise RunError(f"the judge's endpoint does not let us in: {verdict.reason}")
        if streak >= max(GONE, 2 * concurrency):
            raise RunError(f"the judge did not answer {streak} times in a row: {verdict.reason}")
        run.append("verdict", verdict.model_copy(update={"trajectory_id": ident}))
        done += 1
        show("judge", done, len(trajectories))

    await _all([one(ident) for ident in todo])
    if not answered:
        raise RunError(f"no question to the judge was answered ({len(todo)} trajectories): {reason}; {cure}")
    return summary(run.read("verdict", Verdict), trajectories, origin)


async def _all(work: Sequence[Awaitable[None]]) -> None:
    """All of it; the first error ends the rest and is raised as it is."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def summary(
    verdicts: Sequence[Verdict], trajectories: Mapping[str, Trajectory], origin: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What was judged and what could not be: both denominators, and the rate that upstream's script would store, for
    each policy. `origin`: what to call those that say no policy.

    Raises RunError for verdicts of judges that are not to be added up (rules of several suites are one judge).
    """
    latest = {v.trajectory_id: v for v in verdicts if v.trajectory_id in trajectories}
    unlike = sorted({v.judge if not v.judge.startswith("rules:") else "rules" for v in latest.values()})
    if len(unlike) > 1:
        raise RunError(f"verdicts of unlike judges are no one rate: {', '.join(unlike)}; judge again into another -o")
    by_policy: dict[str, list[str]] = {}
    for ident, trajectory in trajectories.items():
        by_policy.setdefault(arm_of(trajectory) or trajectory.policy or (origin or {}).get(ident, ""), []).append(ident)
    return {
        "judge": ", ".join(sorted({v.judge for v in latest.values()})),
        "n": len(trajectories),
        "judged": sum(v.success is not None for v in latest.values()),
        "could_not_judge": _could_not(list(latest.values())),
        "policies": {
            policy: _rates([latest[ident] for ident in idents if ident in latest], len(idents))
            for policy, idents in by_policy.items()
        },
    }


def _could_not(verdicts: Sequence[Verdict]) -> dict[str, int]:
    return dict(sorted(Counter(v.unjudged for v in verdicts if v.success is None).items()))


def _rates(verdicts: Sequence[Verdict], n: int) -> dict[str, Any]:
    """Of one policy (a control is one of its own): `n` episodes, both denominators. Intervals treat episodes as
    independent; `rmsweb report` nests repeated runs in tasks."""
    said = [v for v in verdicts if v.success is not None]
    solved = sum(bool(v.success) for v in said)
    labels = [v.details["upstream_label"] for v in verdicts if "upstream_label" in v.details]
    return {
        "n": n,
        "judged": len(said),
        "could_not_judge": _could_not(verdicts),
        "success": solved / n if said else None,
        "interval": list(wilson(solved, n)) if said else None,
        "success_judged": solved / len(said) if said else None,
        "interval_judged": list(wilson(solved, len(said))) if said else None,
        "upstream_success": sum(label == 1 for label in labels) / n if labels else None,
        "upstream_unlabelled": sum(label is None for label in labels) if labels else None,
    }


def rounds_of(verdicts: Sequence[Verdict], again: set[str]) -> dict[str, int]:
    """trajectory id -> how often a reply about it held no verdict: other seeds next. Not those that were never answered
    (endpoint down, prompt too long, picture missing): they are asked as the protocol says."""
    return dict(Counter(v.trajectory_id for v in verdicts if v.trajectory_id in again and _unsaid(v)))


def asked_in_vain(calls: Sequence[Call], kept: Sequence[Call], rounds: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """(trajectory id, key) -> rounds, for the questions whose stored replies do not answer: asked again they need other
    seeds. What was never asked is asked as the protocol says."""
    gone = {(c.trajectory_id, c.key) for c in calls} - {(c.trajectory_id, c.key) for c in kept}
    return {(ident, key): rounds[ident] for ident, key in gone if ident in rounds}


def refuse_others_replies(replies: Sequence[Call], judges: Sequence[Judge]) -> None:
    """Raises ConfigError when stored replies are of another model, or sampled otherwise, than the verdicts would be
    named after. How often a question may be asked again is free: fewer or more stored attempts are then looked at.
    Replies from before the sampling was part of the name say their temperature themselves."""
    said = sorted({judge_parts(call.protocol)[1] for call in replies})
    named = sorted({judge_parts(judge.name)[1] for judge in judges})
    if said and said != named:
        raise ConfigError(
            f"the stored replies are those of {', '.join(said)}, the verdicts would be named after "
            f"{', '.join(named)}; set judge.model.name to who gave them"
        )
    asked, wanted = _asked_as(call.protocol for call in replies), _asked_as(judge.name for judge in judges)
    if not asked and (warm := _temperatures(replies)) and (cold := _named_temperatures(judges)) and not cold <= warm:
        asked, wanted = [f"temperature {one}" for one in sorted(warm)], [f"temperature {one}" for one in sorted(cold)]
    if asked and asked != wanted:
        raise ConfigError(
            f"the stored replies were sampled with {' and '.join(asked)}, the verdicts would be named after "
            f"{' and '.join(wanted)}; set judge.model.temperature, parameters and extra_body as they were"
        )


def _temperatures(replies: Sequence[Call]) -> set[str]:
    """Temperatures at which questions were asked for the first time, as far as the replies say."""
    told = (call.sampling.get("temperature") for call in replies if call.attempt == 0)
    return {f"{one:g}" for one in told if one is not None}


def _named_temperatures(judges: Sequence[Judge]) -> set[str]:
    found = (split_sampling(judge.name)[1].get("temperature") for judge in judges)
    return {one for one in found if one is not None}


def _asked_as(names: Iterable[str]) -> list[str]:
    """How judges ask their model, in words; nothing of names that do not say."""
    found = (split_sampling(name)[1] for name in set(names))
    kept = [{key: value for key, value in one.items() if key != "attempts"} for one in found if one]
    return sorted({", ".join(f"{key} {one[key]}" for key in SAMPLING if key in one) for one in kept})


def refuse_unlike(run: Run, verdicts: Sequence[Verdict], judges: Sequence[Judge]) -> None:
    """Raises RunError when the run holds verdicts of another judge: other wording, model or setting."""
    names = {judge.name for judge in judges}
    if other := sorted({v.judge for v in verdicts} - names):
        raise RunError(f"{run.path} holds verdicts of {other[0]}, this is {sorted(names)[0]}; choose another -o")
