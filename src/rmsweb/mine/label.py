"""Which failure mode a located step is: rules over what was recorded. Pure; the chat labeller is in ask.py.

The rules know no site. They read the action, what it got, the page's element list, the goal's words and, where there
is one, the verified reference at the same state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rmsweb.actions import POINTING, Answer, Goto, Key, NewTab, Scroll, SelectOption, Terminate, Type
from rmsweb.mine.locate import Mark, better_in_sight, goal_words, is_no_op, wrong_act
from rmsweb.mine.meaning import element_at, hit_of, plain, target, words
from rmsweb.mine.taxonomy import UNKNOWN
from rmsweb.records import Decision, Effect, Element, Observation, ReferenceAction, Step, Stop, Trajectory

DONE_WORDS = frozenset({"done", "ok", "success", "finished", "completed"})
READABLE = ("text", "other", "link", "button", "input", "select", "checkbox")


@dataclass(slots=True, frozen=True)
class Case:
    """A located step, or a reply that was only sampled there (then `taken` is False and there is no effect)."""

    trajectory: Trajectory
    step: Step
    marks: tuple[Mark, ...] = ()
    reference: ReferenceAction | None = None
    taken: bool = True

    @property
    def signs(self) -> frozenset[str]:
        return frozenset(mark.sign for mark in self.marks)


def sampled(
    trajectory: Trajectory, at: Step, said: Decision, marks: Sequence[Mark], a_plus: ReferenceAction | None
) -> Case:
    """A case for a wrong reply that was drawn at a state and never carried out."""
    effect = Effect(hit=element_at(at.before, target(said.action)), changed=True)
    step = Step(index=at.index, before=at.before, decision=said, effect=effect, after=at.before)
    return Case(trajectory, step, tuple(marks), a_plus, taken=False)


def label(case: Case) -> str:
    """Code of the failure mode (`group.name` of taxonomy.toml); `unknown.unknown` when no rule fits."""
    for rule in (_world, _reply, _doubt, _loop, _end, _aim, _content, _choice, _rest):
        code = rule(case)
        if code:
            return code
    return UNKNOWN


def _world(case: Case) -> str:
    """The world failed, not the agent."""
    if case.trajectory.stop is Stop.BLOCKED:
        return "environment.blocked"
    if case.trajectory.stop is Stop.INVALID_TASK:
        return "invalid_task.impossible"
    if case.taken and (case.step.after.status or 0) >= 500:
        return "environment.error"
    return "environment.blank" if case.step.before.blank else ""


def _reply(case: Case) -> str:
    """The reply is no action, or one that is refused."""
    decision, effect = case.step.decision, case.step.effect
    if decision.truncated:
        return "tool_misuse.truncated"
    if decision.action is None:
        return "tool_misuse.unreadable"
    if any(write.stopped for write in effect.writes):
        return "permission.write"
    if effect.error:
        refused = isinstance(decision.action, (Goto, NewTab)) and "refused" in effect.error
        return "permission.address" if refused else "tool_misuse.illegal"
    return ""


def _doubt(case: Case) -> str:
    """Only unstable, and nothing is known to be right there: the step that was taken may be the right one."""
    shaky = case.marks and all(mark.detector == "instability" for mark in case.marks)
    return UNKNOWN if shaky and case.taken and case.reference is None else ""


def _loop(case: Case) -> str:
    if "repeat" in case.signs:
        return "loop.repeat"
    return "loop.cycle" if "cycle" in case.signs else ""


def _end(case: Case) -> str:
    """An answer or a stop."""
    action = case.step.decision.action
    if isinstance(action, Terminate) and action.status == "failure":
        return "premature_stop.gave_up"
    if not isinstance(action, (Answer, Terminate)):
        return ""
    said, reference = plain(action.text), case.reference
    right = reference.action if reference else None
    goes_on = right is not None and not isinstance(right, (Answer, Terminate))
    if not said or said in DONE_WORDS:
        if goes_on or "premature" in case.signs or not isinstance(right, Answer):
            return "premature_stop.claimed_done"
        return "answer.missing"
    if isinstance(right, Answer) and words(right.text) and words(right.text) <= words(action.text):
        return "answer.form"
    if not any(said in shown for shown in _seen(case.trajectory, case.step)):
        return "hallucination.unseen_answer"
    return "premature_stop.early_answer" if goes_on or "premature" in case.signs else "answer.wrong"


def _seen(trajectory: Trajectory, step: Step) -> list[str]:
    """All texts that the pages showed up to a step; everything counts as seen where no element list was recorded."""
    looks: list[Observation] = [s.before for s in trajectory.steps[: step.index]] + [step.before]
    if any(look.elements is None for look in looks):
        return [plain(step.decision.action.text)] if isinstance(step.decision.action, Answer | Terminate) else []
    texts = [text for look in looks for e in look.elements or () for text in (e.name, e.value)]
    return [plain(text) for text in texts] + [plain(word) for text in texts for word in text.split()]


def _aim(case: Case) -> str:
    """The point does not fit the intention."""
    step = case.step
    action, hit = step.decision.action, hit_of(step)
    if not isinstance(action, (*POINTING, Type, SelectOption)):
        return "loop.no_effect" if case.taken and is_no_op(step) else ""
    if isinstance(action, Type) and case.taken and step.effect.value is None and not step.effect.changed:
        return "grounding.no_field"
    if hit is not None and any("covered" in m or "layer" in m for m in step.after.messages) and not step.effect.changed:
        return "grounding.covered"
    named = _named(step.decision.intent, step.before)
    if named is not None and hit is not None and plain(hit.name) and not words(hit.name) & words(named.name):
        return "grounding.beside"
    if named is None and _names_nothing(step.decision.intent, step.before):
        return "hallucination.unseen_target"
    if target(action) is not None and (hit is None or hit.role in ("text", "other")) and not step.effect.changed:
        return "grounding.missed"
    return "loop.no_effect" if case.taken and is_no_op(step) else ""


def _named(intent: str, now: Observation) -> Element | None:
    """The element whose name the reply's naming line is."""
    said = plain(intent)
    return next((e for e in now.elements or () if said and plain(e.name) == said), None)


def _names_nothing(intent: str, now: Observation) -> bool:
    """Whether a short naming line (a label, not a sentence) shares no word with anything on the page."""
    said = words(intent)
    if not said or len(said) > 3 or not now.elements:
        return False
    return not any(said & words(f"{e.name} {e.value}") for e in now.elements)


def _content(case: Case) -> str:
    """The right control with the wrong content."""
    action = case.step.decision.action
    right = case.reference.action if case.reference else None
    if isinstance(action, Type) and (isinstance(right, Type) or right is None):
        return "wrong_value.text"
    if isinstance(action, SelectOption) and (isinstance(right, SelectOption) or right is None):
        return "wrong_value.option"
    hit = case.reference.hit if case.reference else None
    if isinstance(right, Type | SelectOption) or (hit is not None and hit.role in ("input", "select", "checkbox")):
        return "wrong_value.missed_control"
    if isinstance(right, Scroll):
        return "navigation.not_scrolled"
    return ""


def _choice(case: Case) -> str:
    """Another element than the right one."""
    step, reference = case.step, case.reference
    action, hit = step.decision.action, hit_of(step)
    if case.taken and wrong_act(step):
        return "wrong_element.wrong_act"
    if not isinstance(action, POINTING) or hit is None:
        return ""
    if reference is not None and reference.hit is not None:
        shared = words(hit.name) & words(reference.hit.name)
        if shared and hit.role == reference.hit.role:
            return "wrong_element.near_miss"
        if isinstance(reference.action, Answer | Terminate):
            return "navigation.left_page"
    elif reference is not None and isinstance(reference.action, Answer | Terminate):
        return "navigation.left_page"
    elif better_in_sight(step, goal_words(case.trajectory.task.goal)):
        return "wrong_element.near_miss"
    return "navigation.wrong_page" if hit.role == "link" else "wrong_element.other"


def _rest(case: Case) -> str:
    action = case.step.decision.action
    if case.taken and is_no_op(case.step):
        return "loop.no_effect"
    if "step_cap" in case.signs:
        return "loop.step_cap"
    return "navigation.wrong_page" if isinstance(action, Scroll | Key | Goto) or action is not None else ""
