"""A foreign attempt before it has a task, and how it becomes a Trajectory. Pure.

A reader of a format gives an `Attempt`: moves in order, screenshots with the numbers of their files, the answer, why it
ended as far as the format says, verdicts that lie beside it, and notes on what was odd. Picture k is what move k was
decided on; one more is the page after the last move. What our record has no place for goes to `evidence["imported"]`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from rmsweb.actions import ENDING, Action
from rmsweb.bench import reading
from rmsweb.bench.formats.files import one
from rmsweb.bench.formats.pictures import Shots
from rmsweb.records import Decision, Effect, Observation, Step, Stop, Task, Trajectory, Verdict

_ACTION: TypeAdapter[Action] = TypeAdapter(Action)
UNSAID = "how it ended is not stored"
"""Detail of an attempt whose format does not say why it ended."""
STAND_IN = (1280, 800)
"""`Trajectory.viewport` where none is recorded (`reading.viewport_of` says None then): geometry needs some size."""


@dataclass(slots=True)
class Move:
    """One foreign decision that was carried out: an `action` where it maps onto ours for certain, else a line."""

    intent: str = ""
    action: Action | None = None
    thought: str = ""
    raw: str = ""
    url: str = ""
    title: str = ""
    tabs: tuple[str, ...] = ()
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(slots=True)
class Attempt:
    """What a reader gives."""

    task_id: str
    goal: str
    """Empty where the format holds no task text."""
    moves: list[Move]
    shots: Shots
    """Every screenshot as numbered by its file."""
    seen: list[str]
    """SHA-256 of what move k was decided on, one more for the page after the last; empty where there is none."""
    answer: str | None
    stop: Stop
    detail: str = ""
    site: str = ""
    start_url: str = ""
    facts: dict[str, JsonValue] = field(default_factory=dict)
    meta: dict[str, JsonValue] = field(default_factory=dict)
    """For the task: what of it stands beside the attempt (a rubric)."""
    notes: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    """Judge name `imported:<file>`; the trajectory id is set later."""
    viewport: tuple[int, int] | None = None
    """None: the format does not say it and there is no picture that would."""
    wall_s: float = 0.0
    """Seconds; 0: not recorded."""
    stated: int | None = None
    """Steps as the format states them, the final act included."""
    listed: bool = True
    """False where nothing but an answer is stored and the format does not keep answers apart (`reading.lists_acts`)."""
    prefixed: bool = False
    """The task's text has the start site put before it."""
    agent: str = ""
    """Who acted, where the format names it."""
    seed: int | None = None
    """Where the seed makes another instance of the task `task_id`: every seed is a task of its own."""

    @property
    def instance(self) -> str:
        """Id of the task that was attempted."""
        return self.task_id if self.seed is None else reading.with_seed(self.task_id, self.seed)


def action_of(fields: dict[str, Any]) -> Action | None:
    """One of our actions from its fields; None when they are none."""
    try:
        return _ACTION.validate_python(fields)
    except ValidationError:
        return None


def steps_of(attempt: Attempt) -> tuple[Step, ...]:
    """Moves and pictures as steps. Pictures beyond the last move become steps without an act, so that none is lost."""
    moves, seen = attempt.moves, attempt.seen
    extra = max(0, len(seen) - len(moves) - 1) if moves else max(len(seen) - 1, bool(seen))
    every = [*moves, *(Move() for _ in range(extra))]
    pages = [
        Observation(
            image=seen[k] if k < len(seen) else "",
            url=every[k].url if k < len(every) else "",
            title=every[k].title if k < len(every) else "",
            tabs=every[k].tabs if k < len(every) else (),
        )
        for k in range(len(every) + 1)
    ]
    steps = []
    for index, move in enumerate(every):
        before, after = pages[index], pages[index + 1]
        if index + 1 >= len(seen) and (isinstance(move.action, ENDING) or not moves):
            after = before  # nothing was done to the page
        decision = Decision(
            thought=move.thought,
            intent=move.intent,
            action=move.action,
            raw=move.raw,
            prompt_tokens=move.prompt_tokens,
            completion_tokens=move.completion_tokens,
        )
        changed = bool(before.image and after.image and before.image != after.image)
        effect = Effect(changed=changed, error=move.error)
        steps.append(Step(index=index, before=before, decision=decision, effect=effect, after=after))
    return tuple(steps)


def join(attempt: Attempt, tasks: dict[str, Task]) -> tuple[Task, str]:
    """(task, `joined`, `unknown`, `other_goal` or empty): the task set's task where its text is the attempt's.

    Where the text differs the attempt keeps its own: it was another task under the same id. A seed that the task set
    does not list takes the text of its task, which the attempt's notes say.
    """
    known = tasks.get(attempt.instance)
    if known is None and attempt.seed is not None and (known := tasks.get(attempt.task_id)) is not None:
        attempt.notes.append(f"the text is that of {attempt.task_id}; its seed {attempt.seed} may have another")
        known = known.model_copy(update={"id": attempt.instance, "seed": attempt.seed})
    own = Task(
        id=attempt.instance,
        suite="imported",
        site=attempt.site,
        template="imported" if attempt.seed is None else attempt.task_id,
        seed=attempt.seed or 0,
        split="exam",
        goal=attempt.goal,
        start_url=attempt.start_url,
        max_steps=max(15, len(attempt.moves)),
        meta=attempt.meta,
    )
    if known is None:
        return own, "unknown" if tasks else ""
    goal, wanted = one(attempt.goal), one(known.goal)
    if goal and goal != wanted and not (attempt.prefixed and goal.endswith(wanted)):
        return own, "other_goal"
    return known.model_copy(update={"meta": {**attempt.meta, **known.meta}}), "joined"


def trajectory_of(
    attempt: Attempt, task: Task, *, format: str, path: str, model: str, number: int, converted: Sequence[str] = ()
) -> Trajectory:
    """The record. Raises DataError-free ValueError only where a reader broke its own promise."""
    imported: dict[str, JsonValue] = {
        "format": format,
        "path": path,
        "screenshots": [[shot, sha] for shot, sha in attempt.shots],
        **attempt.facts,
        **_unsaid(attempt),
    }
    if notes := [*attempt.notes, *_counted_otherwise(attempt)]:
        imported["notes"] = list(notes)
    if converted:
        imported["converted"] = list(converted)
    return Trajectory(
        id=f"{model}/{task.id}#{number}" if model else f"{task.id}#{number}",
        task=task,
        attempt=number,
        policy=model,
        steps=steps_of(attempt),
        answer=attempt.answer,
        stop=attempt.stop,
        detail=attempt.detail,
        evidence={"imported": imported},
        viewport=attempt.viewport or STAND_IN,
        coordinates="pixels",
        wall_s=attempt.wall_s if math.isfinite(attempt.wall_s) and attempt.wall_s > 0 else 0.0,
    )


def _unsaid(attempt: Attempt) -> dict[str, JsonValue]:
    """Facts on how long the attempt was and how large its pages, or that nobody knows."""
    found: dict[str, JsonValue] = {} if attempt.stated is None else {"n_steps": attempt.stated}
    if not attempt.listed:
        found[reading.ACTS_LISTED] = False
    if attempt.viewport is None:
        found[reading.VIEWPORT_RECORDED] = False
    return found


def _counted_otherwise(attempt: Attempt) -> list[str]:
    """A note where acts are listed and another number of steps is stated."""
    acts = sum(move.action is not None or bool(move.intent) for move in attempt.moves)
    if not attempt.listed or not acts or not attempt.stated or attempt.stated == acts:
        return []
    return [f"{attempt.stated} steps are stated, {acts} acts are listed; the stated number counts"]


def stored_verdict(file: str, label: float | None, reason: str, **details: JsonValue) -> Verdict:
    """A verdict that was stored beside an attempt: 1 or more than a half is a success, None says nothing."""
    success = None if label is None else label >= 0.5
    plain = int(label) if label is not None and label == int(label) else label
    facts: dict[str, JsonValue] = {"upstream_label": plain, **details}
    return Verdict(
        success=success,
        judge=f"imported:{file}",
        reason=one(reason)[:1000],
        unjudged="" if success is not None else "no_verdict",
        details=facts,
    )


def seen_by(trajectory: Trajectory) -> list[str]:
    """Pictures for a writer: what each act was decided on, and the page after the last one unless it ended the episode.

    Of an imported attempt: all its pictures, in order.
    """
    if listed := reading.stored_screenshots(trajectory):
        return [sha for _, sha in listed]
    acts = reading.acts(trajectory)
    if not acts:
        return [step.before.image for step in trajectory.steps[:1]]
    return [*(act.before for act in acts), *([] if acts[-1].final else [acts[-1].after])]


def with_tokens(moves: Sequence[Move], prompt: int, completion: int) -> list[Move]:
    """Moves with an attempt's totals on the last one: the sum over steps is right, the single steps are not known."""
    if not moves or not (prompt or completion):
        return list(moves)
    return [*moves[:-1], replace(moves[-1], prompt_tokens=prompt, completion_tokens=completion)]
