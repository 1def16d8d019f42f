"""The stage `samples`: kept successes -> supervised steps, as a policy that was never advised would have seen them.

Owns what is imitated: the shortest success of each task, its guidance stripped, detours cut out of the steps and of the
history alike, no-ops kept in the history and not imitated, replies that give the guidance away dropped or rewritten.
Promises that no sample carries a reflection and that every picture a sample needs lies in the run's own image store.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rmsweb.actions import Memorize
from rmsweb.config import Config, SamplesConfig
from rmsweb.errors import DataError
from rmsweb.records import Decision, Observation, Step, Stop, TrainSample, Trajectory, Verdict
from rmsweb.reflect.leaks import Leak, find_leaks, rewrite
from rmsweb.reflect.yields import by_task, kept, public_texts
from rmsweb.rollout import replayed
from rmsweb.store import Run

State = tuple[str, str, int, int]
OWN_ENDS = frozenset({Stop.ANSWERED, Stop.DONE, Stop.GAVE_UP})
"""Ends by which a policy (or the suite) says that the episode is over."""


@dataclass(slots=True)
class Tally:
    """What became of the steps."""

    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, what: str, n: int = 1) -> None:
        self.counts[what] += n


def run(config: Config, run: Run, sources: Sequence[Run]) -> dict[str, Any]:
    """Samples of all kept trajectories of the collect runs; returns the summary, also written to summary.json.

    A run that was interrupted goes on: samples that are there are not written again. Raises DataError when the
    collected coordinates or viewport are not the profile's.
    """
    have = {sample.id for sample in run.read("sample", TrainSample)}
    tally = Tally()
    trajectories = 0
    for source in sources:
        verdicts = {v.trajectory_id: v for v in source.read("verdict", Verdict)}
        attempts = by_task(source.read("trajectory", Trajectory))
        # By task: in which order episodes ended is chance, and what is trained on must not depend on it.
        for _, tries in sorted(attempts.items()):
            best = kept(tries, verdicts)
            if best is None:
                continue
            _check_profile(best, config, source)
            made = samples_of(best, config.samples, tally)
            trajectories += bool(made)
            for sample in made:
                if sample.id not in have:
                    _copy_pictures(sample, source, run)
                    run.append("sample", sample)
                    have.add(sample.id)
    result = _summary(tally, trajectories, len(have))
    run.write_json("summary.json", result)
    run.finish(samples=len(have))
    return result


def samples_of(trajectory: Trajectory, config: SamplesConfig, tally: Tally | None = None) -> list[TrainSample]:
    """The supervised steps of one success, in order. Empty for a tagged episode where those are left out."""
    tally = tally or Tally()
    if config.skip_tagged and trajectory.tagged:
        tally("tagged_trajectories")
        return []
    if trajectory.stop not in OWN_ENDS:
        # The server says that it was done, but the policy did not stop: its last steps are nothing to imitate.
        tally("unended_trajectories")
        return []
    steps = straightened(trajectory.steps) if config.skip_detours else list(trajectory.steps)
    states = _states(trajectory.steps)
    tally("steps", len(trajectory.steps))
    cleaned: list[Step] = []
    samples = []
    for position, step in enumerate(steps):
        leaks = _leaks(step.decision, trajectory, step.index)
        decision = _without_guidance(step.decision, leaks, trajectory, step.index, config, tally)
        if decision is None and leaks.fact:
            continue  # a fact that came from the guidance would stand in the memory of every later step
        # The history of a sample holds what was done; what leaks must not come back through it.
        gone = {"raw": "", **({"thought": ""} if leaks.thought else {}), **({"intent": ""} if leaks.line else {})}
        public = decision or step.decision.model_copy(update=gone)
        now = _after(cleaned[-1] if cleaned else None, steps[position - 1] if position else None, step)
        cleaned.append(step.model_copy(update={"index": len(cleaned), "decision": public, "before": now}))
        idle = states[step.index] == states[step.index + 1] and position < len(steps) - 1
        if decision is None or decision.action is None or replayed(step) or (config.skip_noops and idle):
            continue
        samples.append(
            TrainSample(
                id=f"{trajectory.id}@{step.index}",
                task=trajectory.task,
                history=tuple(_light(done) for done in cleaned[:-1]),
                now=now,
                decision=decision,
                source=trajectory.id,
            )
        )
    tally("skipped_steps", len(trajectory.steps) - len(samples))
    return samples


def straightened(steps: Sequence[Step]) -> list[Step]:
    """The steps without what lies between two visits of the same state.

    A state is URL, tab, picture and how many writes were made before it: a page that looks the same after the purchase
    is another state. Steps that changed nothing stay with the visit they belong to, since a policy sees them in its
    history, too.
    """
    states = _states(steps)
    visits: list[list[int]] = []
    for index in range(len(steps)):
        if index and states[index] == states[index - 1]:
            visits[-1].append(index)
        else:
            visits.append([index])
    last_visit = {states[visit[0]]: number for number, visit in enumerate(visits)}
    straight, number = [], 0
    while number < len(visits):
        number = last_visit[states[visits[number][0]]]
        straight += [steps[index] for index in visits[number]]
        number += 1
    return straight


def _states(steps: Sequence[Step]) -> list[State]:
    """The state before every step, and the one after the last."""
    writes, states = 0, []
    for step in steps:
        states.append(_state(step.before, writes))
        writes += sum(not write.stopped for write in step.effect.writes)
    return [*states, _state(steps[-1].after, writes)] if steps else []


def _state(now: Observation, writes: int) -> State:
    return now.url, now.image, now.tab, writes


def _after(cleaned: Step | None, previous: Step | None, step: Step) -> Observation:
    """What is seen before the step; where steps were cut out before it, with the messages of the last kept one."""
    if step.index == (previous.index + 1 if previous else 0):
        return step.before
    return step.before.model_copy(update={"messages": cleaned.after.messages if cleaned else ()})


class _Leaks(NamedTuple):
    """Where a reply gives the guidance away."""

    thought: list[Leak]
    line: bool
    """Its `Action:` line, by a phrase: that it names what the plan named, too, is what following a plan looks like."""
    fact: bool
    """A memorized fact, by a phrase or by words that only the guidance said."""


def _leaks(decision: Decision, trajectory: Trajectory, index: int) -> _Leaks:
    advice, public = trajectory.advice, public_texts(trajectory, index)
    thought = find_leaks(decision.thought, advice, public) if decision.thought else []
    if not advice:
        return _Leaks(thought, False, False)
    shown = "\n".join(public).casefold()
    fact = decision.action.fact if isinstance(decision.action, Memorize) else ""
    line, noted = (
        [leak for leak in find_leaks(text, advice, public) if leak.text.casefold() not in shown]
        for text in (decision.intent, fact)
    )
    return _Leaks(thought, any(leak.kind == "phrase" for leak in line), bool(noted))


def _without_guidance(
    decision: Decision, leaks: _Leaks, trajectory: Trajectory, index: int, config: SamplesConfig, tally: Tally
) -> Decision | None:
    """The decision as an unadvised policy may say it, without `raw` and token ids; None when it is left out.

    A thought can be rewritten; the `Action:` line and a memorized fact cannot, so a leak there costs the sample.
    """
    tally("thoughts", bool(decision.thought))
    tally("leaks", bool(leaks.thought))
    for leak in leaks.thought:
        tally(f"leaks_{leak.kind}")
    tally("action_leaks", leaks.line or leaks.fact)
    bare = decision.model_copy(update={"raw": "", "token_ids": None, "logprobs": None})
    if config.leaks == "keep" or not any(leaks):
        return bare
    if config.leaks == "drop" or leaks.line or leaks.fact:
        return None
    said = rewrite(decision.thought, trajectory.advice, public_texts(trajectory, index))
    return bare.model_copy(update={"thought": said})


def _light(step: Step) -> Step:
    """A history step without what no prompt shows: element lists, and the observation after it but for its URL."""
    bare = {"elements": None}
    return step.model_copy(
        update={"before": step.before.model_copy(update=bare), "after": step.after.model_copy(update=bare)}
    )


def _check_profile(trajectory: Trajectory, config: Config, source: Run) -> None:
    profile = config.profile
    here = (trajectory.coordinates, tuple(trajectory.viewport))
    wanted = (profile.coordinates, tuple(profile.viewport))
    # What was imported holds actions in pixels and no model's numbers: only the pictures' size has to be the profile's.
    if here not in (wanted, ("pixels", wanted[1])):
        raise DataError(
            f"{trajectory.id} was collected with {here[0]} at {here[1]}, the profile says {wanted[0]} at {wanted[1]}",
            source.file("trajectory"),
        )


def _copy_pictures(sample: TrainSample, source: Run, run: Run) -> None:
    for image in {sample.now.image, *(step.before.image for step in sample.history)}:
        if image not in run.images:
            run.images.put(source.images[image])


def _summary(tally: Tally, trajectories: int, samples: int) -> dict[str, Any]:
    counts = tally.counts
    thoughts = counts["thoughts"]
    return {
        "samples": samples,
        "trajectories": trajectories,
        "steps": counts["steps"],
        "skipped_steps": counts["skipped_steps"],
        "tagged_trajectories": counts["tagged_trajectories"],
        "unended_trajectories": counts["unended_trajectories"],
        "thoughts": thoughts,
        "leaks": counts["leaks"],
        "leaks_phrase": counts["leaks_phrase"],
        "leaks_overlap": counts["leaks_overlap"],
        "action_leaks": counts["action_leaks"],
        "leak_rate": round(counts["leaks"] / thoughts, 4) if thoughts else 0.0,
    }
