"""Where a trajectory goes wrong: named, switchable detectors whose findings are united. Pure.

`mechanical`   loops (A-A-A, A-B-A-B and longer), no-ops, unreadable replies, premature ends, the step limit
`divergence`   the last state shared with a success of the same task at which the action means something else
`first_error`  the first harmful step, as the verdict names it, else by rule
`instability`  replies drawn again at the state disagree, or agree too little with its references (see probe.py)
`flip`         the reference in place of the action turns the outcome (see flip.py)

Infra errors and trajectories without a verdict are no business of this module: callers leave them out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rmsweb.actions import ENDING, Memorize, Scroll, Viewport, Wait
from rmsweb.mine.align import Successes, state_keys
from rmsweb.mine.meaning import hit_of, same_action, words
from rmsweb.records import Element, Step, Stop, Trajectory, Verdict

LONGEST_CYCLE = 4
CONSENT = words("accept agree allow reject decline cookies close dismiss got ok")
"""Writes of cookie layers and the like are no wrong acts."""
FUNCTION_WORDS = words("the a an to of in for on about with by and or is are at from it this that me")
POINTED = ("link", "button", "checkbox", "select", "input")


@dataclass(slots=True, frozen=True)
class Mark:
    """One finding."""

    step: int
    detector: str
    sign: str
    """repeat, cycle, no_effect, unreadable, premature, step_cap, diverged, first_error, unstable, flipped, ended."""
    why: str = ""


def locate(trajectory: Trajectory, verdict: Verdict, known: Successes, detectors: Sequence[str]) -> list[Mark]:
    """The union of the switched-on detectors that need no model, by step."""
    if trajectory.stop in (Stop.BLOCKED, Stop.INVALID_TASK):
        return [Mark(max(0, len(trajectory.steps) - 1), "mechanical", "ended", trajectory.stop.value)]
    marks: list[Mark] = []
    failed = verdict.success is False
    if "mechanical" in detectors:
        marks += mechanical(trajectory, failed, known.fewest(trajectory.task.id))
    if failed and "divergence" in detectors:
        marks += divergence(trajectory, known)
    if failed and "first_error" in detectors:
        marks += first_error(trajectory, verdict, known)
    return sorted(marks, key=lambda mark: (mark.step, mark.detector, mark.sign))


def mechanical(trajectory: Trajectory, failed: bool, fewest: int | None = None) -> list[Mark]:
    """What can be seen without knowing the task. `fewest`: steps of the shortest known success of it."""
    steps = trajectory.steps
    marks = [Mark(s.index, "mechanical", "unreadable", _fault(s)) for s in steps if s.decision.action is None]
    marks += [Mark(s.index, "mechanical", "no_effect") for s in steps if is_no_op(s)]
    marks += loops(trajectory)
    if failed and steps:
        last = steps[-1]
        if trajectory.stop in (Stop.STEP_LIMIT, Stop.NO_PROGRESS):
            marks.append(Mark(last.index, "mechanical", "step_cap", trajectory.stop.value))
        if trajectory.stop is Stop.GAVE_UP:
            marks.append(Mark(last.index, "mechanical", "premature", "gave up"))
        elif trajectory.stop is Stop.ANSWERED and len(steps) < (fewest or 2):
            marks.append(Mark(last.index, "mechanical", "premature", f"{len(steps)} of {fewest or 2} steps"))
    return marks


def is_no_op(step: Step) -> bool:
    """An action that was carried out and left everything as it was."""
    action, effect = step.decision.action, step.effect
    if action is None or isinstance(action, (*ENDING, Wait, Memorize)) or effect.writes or effect.downloads:
        return False
    return not effect.changed and not (isinstance(action, Scroll) and effect.moved)


def loops(trajectory: Trajectory) -> list[Mark]:
    """The first step that goes round again: the same action on the same state thrice, or a cycle passed twice."""
    steps, view = trajectory.steps, Viewport(*trajectory.viewport)
    keys = state_keys(steps)

    def same(i: int, j: int) -> bool:
        a, b = steps[i], steps[j]
        return keys[i] == keys[j] and same_action(a.decision.action, b.decision.action, view, hit_of(a), hit_of(b))

    marks: list[Mark] = []
    covered = -1
    for start in range(len(steps)):
        for period in range(1, LONGEST_CYCLE + 1):
            rounds = 3 if period == 1 else 2
            end = start + period * rounds
            if start <= covered or end > len(steps):
                continue
            if all(same(i, i + period) for i in range(start, end - period)):
                sign = "repeat" if period == 1 else "cycle"
                marks.append(Mark(start + period, "mechanical", sign, f"period {period}"))
                while end < len(steps) and same(end - period, end):
                    end += 1
                covered = end - 1
    return marks


def as_known(trajectory: Trajectory, known: Successes) -> dict[int, bool]:
    """For each step at a state that a success shares: whether its action means what a success did there."""
    keys, view = state_keys(trajectory.steps), Viewport(*trajectory.viewport)
    found = {}
    for step in trajectory.steps:
        references = known.at(trajectory.task.id, keys[step.index])
        action, hit = step.decision.action, hit_of(step)
        if references:
            found[step.index] = any(same_action(action, r.action, view, hit, r.hit) for r in references)
    return found


def divergence(trajectory: Trajectory, known: Successes) -> list[Mark]:
    """The last state shared with a success whose action means something else there (at most one)."""
    others = [index for index, same in as_known(trajectory, known).items() if not same]
    return [Mark(others[-1], "divergence", "diverged", "a success went another way")] if others else []


def first_error(trajectory: Trajectory, verdict: Verdict, known: Successes) -> list[Mark]:
    """The first harmful step: what the verdict names, else the earliest that a rule can blame (at most one).

    Rules, in this order: a wrong act (a write that is no consent) or a worse choice than one in sight, whichever is
    earlier; a wrong answer; the step that began a detour; the last step. What a success did, too, is no error.
    """
    steps = trajectory.steps
    if not steps:
        return []
    if verdict.first_error is not None and 0 <= verdict.first_error < len(steps):
        return [Mark(verdict.first_error, "first_error", "first_error", f"named by {verdict.judge}")]
    goal, same = goal_words(trajectory.task.goal), as_known(trajectory, known)
    for step in steps:
        if same.get(step.index):
            continue
        if wrong_act(step):
            return [Mark(step.index, "first_error", "first_error", "changed something")]
        better = better_in_sight(step, goal)
        if better is not None:
            return [Mark(step.index, "first_error", "first_error", f"{better.name!r} was in sight")]
    if trajectory.stop in (Stop.ANSWERED, Stop.GAVE_UP):
        return [Mark(steps[-1].index, "first_error", "first_error", "the end was wrong")]
    keys = state_keys(steps)
    for index in range(len(steps)):
        if keys[index] in keys[index + 1 :]:
            return [Mark(index, "first_error", "first_error", "led back to the same state")]
    return [Mark(steps[-1].index, "first_error", "first_error", "nothing earlier can be blamed")]


def goal_words(goal: str) -> frozenset[str]:
    """Content words of a task text."""
    return words(goal) - FUNCTION_WORDS


def wrong_act(step: Step) -> bool:
    """Whether the step changed something on a server by what is no consent button."""
    hit = hit_of(step)
    sent = any(write.method.upper() not in ("GET", "HEAD") and not write.stopped for write in step.effect.writes)
    return sent and not (hit is not None and words(hit.name) & CONSENT)


def better_in_sight(step: Step, goal: frozenset[str]) -> Element | None:
    """An element of the same role that shares more words with the goal, and all that the one taken shares."""
    hit = hit_of(step)
    if hit is None or hit.role not in POINTED:
        return None
    mine = words(hit.name) & goal
    if not mine:
        return None
    for element in step.before.elements or ():
        if element.role == hit.role and not element.covered and words(element.name) & goal > mine:
            return element
    return None


def _fault(step: Step) -> str:
    return step.decision.fault.kind if step.decision.fault else ""
