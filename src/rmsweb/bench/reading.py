"""What a judge protocol or a format sees of a trajectory, ours or imported: acts, screenshots, answer. Pure.

An act is one decision that was carried out. The act that ends the episode (answer, terminate) is marked `final`: some
protocols show it, others must not.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rmsweb.actions import ENDING
from rmsweb.records import Step, Trajectory

_SEED = re.compile(r"/seed-\d+\Z")
QUOTED = 80
"""Most letters of an element's name in an action line."""
ANSWER_APART = frozenset({"om2w", "om2w_v2"})
"""Formats whose last word is a field of its own (`final_result_response`) or a step that their judge leaves out of the
action history (`TASK_COMPLETE`)."""


VIEWPORT_RECORDED, ACTS_LISTED = "viewport_recorded", "acts_listed"
"""Facts of an import, false where its files hold no size of the page, or no list of what was done."""
THOUGHTS_LISTED, ANSWER_FIELD = "thoughts_listed", "answer_field"
"""Facts of submissions, by which the Online-Mind2Web scripts lay out their questions: how many thoughts are listed; the
answer as it is stored, text or null."""


@dataclass(slots=True, frozen=True)
class Act:
    """One action as others may see it."""

    index: int
    """Step index in the trajectory."""
    line: str
    """What was done, one line, facts only."""
    thought: str
    before: str
    """SHA-256 of the screenshot it was decided on; empty where it is missing."""
    after: str
    url: str
    """Address that was shown when it was decided."""
    final: bool
    """It ended the episode."""
    apart: bool = False
    """Its format keeps it apart from the actions (the last word, the last entry): no action history of it holds one."""


def imported(trajectory: Trajectory) -> str:
    """Format that the trajectory was read from; empty for our own."""
    facts = trajectory.evidence.get("imported")
    return str(facts.get("format", "")) if isinstance(facts, dict) else ""


def viewport_of(trajectory: Trajectory) -> tuple[int, int] | None:
    """CSS pixels of the page as recorded; None where an imported attempt does not say them (`Trajectory.viewport` then
    holds a stand-in, by which no picture was taken)."""
    facts = trajectory.evidence.get("imported")
    unsaid = isinstance(facts, dict) and facts.get(VIEWPORT_RECORDED) is False
    return None if unsaid else trajectory.viewport


def lists_acts(trajectory: Trajectory) -> bool:
    """Whether an imported attempt lists what was done: a last word that stands apart is no list of acts."""
    facts, found = trajectory.evidence.get("imported"), acts(trajectory)
    unlisted = isinstance(facts, dict) and facts.get(ACTS_LISTED) is False
    # The second layout lists its last word too, with a picture; in the first one it is no entry.
    entries = imported(trajectory) == "om2w_v2" and bool(stored_screenshots(trajectory))
    return bool(found) and not unlisted and (entries or not all(act.apart and act.final for act in found))


def history_of(trajectory: Trajectory) -> tuple[list[Act], list[str] | None]:
    """(acts but for what the format keeps apart, thoughts as listed): what the Online-Mind2Web scripts would read.

    Thoughts are None where the format lists none; they may be fewer than the acts, as in a submission.
    """
    listed = [act for act in acts(trajectory) if not act.apart]
    thoughts = [act.thought for act in listed]
    facts = trajectory.evidence.get("imported")
    if not isinstance(facts, dict):
        return listed, thoughts
    count = facts.get(THOUGHTS_LISTED)
    if isinstance(count, int):
        return listed, [act.thought for act in listed if act.index < count]
    return listed, thoughts if any(thoughts) else None


def with_seed(task_id: str, seed: int) -> str:
    """Id of the instance of a task that a seed makes."""
    return f"{task_id}/seed-{seed}"


def without_seed(task_id: str) -> str:
    """Id of the task that an instance is one of; an id without a seed stays as it is."""
    return _SEED.sub("", task_id)


def stored_screenshots(trajectory: Trajectory) -> list[tuple[int, str]]:
    """(number of its file, SHA-256) of every screenshot of an imported attempt, in order; empty for our own."""
    facts = trajectory.evidence.get("imported")
    listed = facts.get("screenshots") if isinstance(facts, dict) else None
    pairs = listed if isinstance(listed, list) else []
    return [(int(str(pair[0])), str(pair[1])) for pair in pairs if isinstance(pair, list) and len(pair) == 2]


def acts(trajectory: Trajectory) -> list[Act]:
    """Its actions in order; replies that were no action are left out (they did nothing)."""
    apart = imported(trajectory) in ANSWER_APART
    # The second layout has a picture for each entry, and its judge leaves the last entry out whatever it says.
    output = len(stored_screenshots(trajectory)) - 1 if imported(trajectory) == "om2w_v2" else None
    return [
        Act(
            index=step.index,
            line=line_of(step),
            thought=step.decision.thought,
            before=step.before.image,
            after=step.after.image,
            url=step.before.url,
            final=isinstance(step.decision.action, ENDING),
            apart=apart and (isinstance(step.decision.action, ENDING) or step.index == output),
        )
        for step in trajectory.steps
        if step.decision.action is not None or (step.decision.fault is None and step.decision.intent)
    ]


def line_of(step: Step) -> str:
    """One action in one line: name, arguments in pixels, and what it reached where that is known."""
    action = step.decision.action
    if action is None:
        return step.decision.intent
    fields = action.model_dump(mode="json", exclude_defaults=True)
    for name in ("point", "start"):
        if name in fields:
            fields[name] = [fields[name]["x"], fields[name]["y"]]
    given = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in fields.items() if name != "action"
    )
    hit = step.effect.hit
    reached = f' on {hit.role} "{" ".join(hit.name.split())[:QUOTED]}"' if hit else ""
    return f"{action.action}({given}){reached}"


def screenshots(trajectory: Trajectory) -> list[tuple[int, str]]:
    """(number, SHA-256) in order: 0 before the first step, k + 1 after step k. A missing picture is empty.

    Of an imported attempt: the pictures that its format stores, with the numbers of their files.
    """
    if listed := stored_screenshots(trajectory):
        return listed
    if not trajectory.steps:
        return []
    first = trajectory.steps[0].before.image
    return [(0, first), *((step.index + 1, step.after.image) for step in trajectory.steps)]


def decided_on(trajectory: Trajectory) -> list[tuple[int, str]]:
    """(number, SHA-256) of the screenshots that decisions were made on: one for each act, the final one included.

    Of an imported attempt: the pictures that its format stores, with the numbers of their files.
    """
    if listed := stored_screenshots(trajectory):
        return listed
    return [(act.index, act.before) for act in acts(trajectory)]


def missing(pictures: Sequence[tuple[int, str]], stored: object) -> list[int]:
    """Numbers of the pictures that `stored` (a container of SHA-256) does not hold."""
    return [number for number, image in pictures if image not in stored]  # type: ignore[operator]
