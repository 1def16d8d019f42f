"""The stage `samples`: kept successes -> supervised steps, as a policy that was never advised would have seen them.

Owns what is imitated: the shortest success of each task, its guidance stripped, no-ops and detours cut out of the
steps and of the history alike, thoughts that give the guidance away dropped or rewritten. Promises that no sample
carries a reflection and that every picture a sample needs lies in the run's own image store.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rmsweb.config import Config, SamplesConfig
from rmsweb.errors import DataError
from rmsweb.records import Decision, Observation, Step, TrainSample, Trajectory, Verdict
from rmsweb.reflect.leaks import find_leaks, rewrite
from rmsweb.reflect.yields import by_task, kept, public_texts
from rmsweb.rollout import replayed
from rmsweb.store import Run


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
        for tries in attempts.values():
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
    steps = straightened(trajectory.steps, noops=config.skip_noops, detours=config.skip_detours)
    tally("steps", len(trajectory.steps))
    tally("skipped_steps", len(trajectory.steps) - len(steps))
    cleaned: list[Step] = []
    samples = []
    for position, step in enumerate(steps):
        decision = _without_guidance(step.decision, trajectory, step.index, config, tally)
        # The history of a sample holds what was done; a leaking thought must not come back through it.
        public = decision or step.decision.model_copy(update={"thought": "", "raw": ""})
        cleaned.append(step.model_copy(update={"index": position, "decision": public}))
        if decision is None or decision.action is None or replayed(step):
            continue
        samples.append(
            TrainSample(
                id=f"{trajectory.id}@{step.index}",
                task=trajectory.task,
                history=tuple(_light(done) for done in cleaned[:-1]),
                now=step.before,
                decision=decision,
                source=trajectory.id,
            )
        )
    return samples


def straightened(steps: Sequence[Step], *, noops: bool = True, detours: bool = True) -> list[Step]:
    """The steps without those that changed nothing and without what lies between two visits of the same state.

    A state is URL, tab and picture. The last step, which ends the episode, always stays. To come back to the same
    state at once is a detour too: `detours` covers `noops`.
    """
    left = list(steps)
    if noops:
        left = [s for i, s in enumerate(left) if i == len(left) - 1 or _state(s.before) != _state(s.after)]
    if not detours:
        return left
    last_visit = {_state(step.before): index for index, step in enumerate(left)}
    straight = []
    index = 0
    while index < len(left):
        index = last_visit[_state(left[index].before)]
        straight.append(left[index])
        index += 1
    return straight


def _state(now: Observation) -> tuple[str, str, int]:
    return now.url, now.image, now.tab


def _without_guidance(
    decision: Decision, trajectory: Trajectory, index: int, config: SamplesConfig, tally: Tally
) -> Decision | None:
    """The decision as an unadvised policy may say it, without `raw` and token ids; None when it is left out."""
    public = public_texts(trajectory, index)
    leaks = find_leaks(decision.thought, trajectory.advice, public) if decision.thought else []
    tally("thoughts", bool(decision.thought))
    bare = decision.model_copy(update={"raw": "", "token_ids": None, "logprobs": None})
    if not leaks:
        return bare
    tally("leaks")
    for leak in leaks:
        tally(f"leaks_{leak.kind}")
    if config.leaks == "drop":
        return None
    if config.leaks == "rewrite":
        return bare.model_copy(update={"thought": rewrite(decision.thought, trajectory.advice, public)})
    return bare


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
    if here != wanted:
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
        "thoughts": thoughts,
        "leaks": counts["leaks"],
        "leaks_phrase": counts["leaks_phrase"],
        "leaks_overlap": counts["leaks_overlap"],
        "leak_rate": round(counts["leaks"] / thoughts, 4) if thoughts else 0.0,
    }
