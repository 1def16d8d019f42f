"""From rollouts, findings and known successes to the pool of states, each with its references and its mode. Pure.

A located step whose own action is a verified one is no failure. A step of a success that was only unstable, or that was
wasted, is hard too: its reference is what worked. Everything else that is verified is routine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rmsweb.actions import Action, Viewport
from rmsweb.mine.align import Successes, shortest_path, state_keys
from rmsweb.mine.fix import Continuation, Located
from rmsweb.mine.label import Case, label, sampled
from rmsweb.mine.locate import Mark
from rmsweb.mine.meaning import hit_of, same_action
from rmsweb.mine.probe import Probe, unstable, usual_mistake
from rmsweb.mine.taxonomy import ROUTINE, Taxonomy
from rmsweb.records import CriticalState, Decision, FailureMode, ReferenceAction, Step, Trajectory

EXAMPLES = 5


@dataclass(slots=True, frozen=True)
class Found:
    """One state of the pool."""

    state: CriticalState
    key: str
    case: Case | None = None
    """What was labelled; None for routine states."""
    kind: str = "routine"
    """hard, routine, off_path (verified, but the policy did something else and was not blamed), continuation (on a
    teacher's way), unverified."""


def mark_unstable(
    located: Sequence[Located], probes: Mapping[str, Probe], known: Successes, agreement: float
) -> list[Located]:
    """The findings plus the instability marks that the probes give with what is known by now."""
    marked = []
    for one in located:
        trajectory, extra = one.trajectory, list[Mark]()
        keys = state_keys(trajectory.steps)
        for step in trajectory.steps:
            probe = probes.get(f"{trajectory.id}@{step.index}")
            if probe is None:
                continue
            references = known.at(trajectory.task.id, keys[step.index], trajectory.id)
            mark = unstable(probe, step, references, Viewport(*trajectory.viewport), agreement)
            extra += [mark] if mark else []
        marked.append(replace(one, marks=(*one.marks, *extra)))
    return marked


def states_of(
    located: Located, known: Successes, probes: Mapping[str, Probe], rates: Mapping[str, float]
) -> list[Found]:
    """Every visited state of one rollout. `rates`: the policy's success by task id."""
    trajectory = located.trajectory
    keys, view = state_keys(trajectory.steps), Viewport(*trajectory.viewport)
    found = []
    for step in trajectory.steps:
        references = known.at(trajectory.task.id, keys[step.index], trajectory.id)
        marks = tuple(mark for mark in located.marks if mark.step == step.index)
        action, hit = step.decision.action, hit_of(step)
        right = any(same_action(action, r.action, view, hit, r.hit) for r in references)
        case, failing = _case(trajectory, step, marks, references, right, probes, view)
        kind = "hard" if case else "routine" if right else "off_path" if references else "unverified"
        state = CriticalState(
            id=f"{trajectory.id}@{step.index}",
            task=trajectory.task,
            history=tuple(map(lean, trajectory.steps[: step.index])),
            now=step.before,
            references=references,
            failing=failing,
            mode=ROUTINE,
            detectors=tuple(sorted({mark.detector for mark in marks})) if case else (),
            success=rates.get(trajectory.task.id),
        )
        found.append(Found(state, keys[step.index], case, kind))
    return found


def states_on_the_way(job: Continuation, trajectory: Trajectory, known: Successes, rate: float | None) -> list[Found]:
    """The verified states along a successful teacher continuation, behind the state that it was asked for."""
    keys = state_keys(trajectory.steps)
    found = []
    for index in shortest_path(keys, job.own):
        references = known.at(trajectory.task.id, keys[index])
        if index == job.own or not references:
            continue
        state = CriticalState(
            id=f"{trajectory.id}@{index}",
            task=trajectory.task,
            history=tuple(map(lean, trajectory.steps[:index])),
            now=trajectory.steps[index].before,
            references=references,
            success=rate,
        )
        found.append(Found(state, keys[index], None, "continuation"))
    return found


def named(found: Sequence[Found], codes: Mapping[str, str]) -> list[Found]:
    """Hard states with their mode: the code given for their id, else the rules' one."""
    result = []
    for one in found:
        if one.case is not None:
            code = codes.get(one.state.id) or label(one.case)
            one = replace(one, state=one.state.model_copy(update={"mode": code}))
        result.append(one)
    return result


def distinct(found: Sequence[Found]) -> list[Found]:
    """Each state of a task once; hard before routine, those with a verified action first."""
    rank = {"hard": 0, "routine": 1, "off_path": 2, "continuation": 3, "unverified": 4}
    best: dict[tuple[str, str], Found] = {}
    for one in sorted(found, key=lambda f: (not f.state.references, rank[f.kind], f.state.id)):
        # The prompt shows the last actions: one state reached in two ways is two states to the policy.
        last = "|".join(s.decision.intent for s in one.state.history[-2:])
        best.setdefault((one.state.task.id, f"{one.key}|{last}"), one)
    return sorted(best.values(), key=lambda f: f.state.id)


def summarize(found: Sequence[Found], outcomes: Mapping[str, bool], taxonomy: Taxonomy) -> list[FailureMode]:
    """Failure modes, most frequent first. `outcomes`: success by trajectory id.

    A mode counts once for a trajectory and a state; its share is of all counted. Its success is that of the
    trajectories in which it occurs: harmless slips weigh less in the draw than fatal ones.
    """
    by_mode: dict[str, dict[tuple[str, str], Found]] = {}
    for one in found:
        if one.case is not None:
            place = (one.case.trajectory.id, one.key)
            by_mode.setdefault(one.state.mode, {}).setdefault(place, one)
    total = sum(map(len, by_mode.values()))
    modes = []
    for code, cases in by_mode.items():
        ids = {trajectory_id for trajectory_id, _ in cases}
        surest = sorted(cases.values(), key=lambda f: (-len(f.state.detectors), not f.state.references, f.state.id))
        modes.append(
            FailureMode(
                code=code,
                count=len(cases),
                share=len(cases) / total,
                success=sum(outcomes[i] for i in ids) / len(ids),
                examples=tuple(f.state.id for f in surest[:EXAMPLES]),
                trained=taxonomy.trained(code),
            )
        )
    return sorted(modes, key=lambda mode: (-mode.count, mode.code))


def lean(step: Step) -> Step:
    """A step of the past without what no prompt shows: element lists, token ids."""
    bare: Decision = step.decision.model_copy(update={"token_ids": None, "logprobs": None})
    before = step.before.model_copy(update={"elements": None})
    after = step.after.model_copy(update={"elements": None})
    return step.model_copy(update={"decision": bare, "before": before, "after": after})


def _case(
    trajectory: Trajectory,
    step: Step,
    marks: tuple[Mark, ...],
    references: tuple[ReferenceAction, ...],
    right: bool,
    probes: Mapping[str, Probe],
    view: Viewport,
) -> tuple[Case | None, Action | None]:
    """What failed here, if anything: the step's own action, else the usual mistake among the drawn replies."""
    others = tuple(mark for mark in marks if mark.detector != "instability")
    best = references[0] if references else None
    if others and not right:
        return Case(trajectory, step, marks, best), step.decision.action
    shaky = tuple(mark for mark in marks if mark.detector == "instability")
    if not shaky:
        return None, None
    if references and not right:
        return Case(trajectory, step, marks, best), step.decision.action
    probe = probes[f"{trajectory.id}@{step.index}"]
    wrong = usual_mistake(probe, step, references, view) if references else None
    if wrong is None:
        # Unstable, and nothing is known to be right: the step itself stands for it.
        return Case(trajectory, step, marks, best), None
    return sampled(trajectory, step, wrong, shaky, best), wrong.action
