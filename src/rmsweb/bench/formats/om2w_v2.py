"""Online-Mind2Web submissions in the second layout (`schema_version` "online-mind2web-v2"). Read and write.

`<root>/<task_id>/result.json`: `task`, `task_id`, `agent_final_answer`, `reference_length` (a number of the task file),
`action_history[]` of `step` (0, 1 ...), `screenshot` (a file in `trajectory/`, `0000.png`), `url`, `action`,
`action_status` (SUCCESS, FAILED or null; the action's line ends in `| FAILED` then), `thought`. The last step is
`TASK_COMPLETE -> ANSWER: <answer>`, the agent's own output. Upstream's script (`src/run.py`) leaves the last step out
of the action history whatever it says, and shows its picture. So an episode that did not end itself gets a last step
`STOPPED -> <why>` with the page after its last action, or that action would not be seen; and in a submission that ends
with another action, that one is kept apart as the script does. The rest of the schema is known from public writers and
their checks. They differ in whether a screenshot is the page before or after its action; here it is the page that the
action was decided on.

The format cannot hold: structured actions, replies that were no action, tokens, times, effects, viewport, attempt,
policy. A thought of null, which the script would show as `None`, is read as an empty one.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue

from rmsweb.actions import Answer, Terminate
from rmsweb.bench import reading
from rmsweb.bench.formats.attempts import UNSAID, Attempt, Move
from rmsweb.bench.formats.files import child, count, field, inside, json_bytes, one, read_json, texts
from rmsweb.bench.formats.om2w import PICTURES, RESULT, SECOND, dropped, input_pictures, second_layout
from rmsweb.bench.formats.pictures import Pictures, Shots, write_numbered
from rmsweb.bench.reading import ANSWER_FIELD, THOUGHTS_LISTED, Act
from rmsweb.bench.wording import counted
from rmsweb.errors import DataError
from rmsweb.records import INFRA_STOPS, Stop, Trajectory
from rmsweb.store import Images

COMPLETE, STOPPED = "TASK_COMPLETE", "STOPPED"
_ANSWER = re.compile(rf"{COMPLETE}\s*(?:->\s*ANSWER:\s*(.*))?\Z", re.DOTALL)
_STOPPED = re.compile(rf"{STOPPED}(?: -> (\w+))?\Z")
FAILED = "| FAILED"
"""How the line of a failed action ends."""
REASONS = frozenset(Stop) - INFRA_STOPS - {Stop.ANSWERED, Stop.DONE}
"""Stops that a last step may say: an answer has its own, and what a machine broke is no submission."""
_ID = re.compile(r"[A-Za-z0-9_-]+\Z")


def units(folder: Path, names: list[str]) -> list[Path]:
    """Attempts of this folder."""
    return [folder] if RESULT in names and second_layout(folder / RESULT) else []


def read(folder: Path, pictures: Pictures) -> Attempt:
    """One submission. Raises DataError: fields of a wrong type."""
    path = child(folder, RESULT)
    data = read_json(path, dict)
    task_id = field(data, "task_id", str, path, folder.name)
    notes = [] if task_id == folder.name else [f"task_id {task_id!r} lies in folder {folder.name!r}"]
    said = field(data, "agent_final_answer", str, path, "").strip() or None
    steps, stopped = _steps(data, path)
    moves, shots = [], Shots()
    for at, step in enumerate(steps):
        if step.get("step") not in (None, at):
            notes.append(f"entry {at} of action_history says that it is step {step['step']!r}")
        shots.append((at, _picture(field(step, "screenshot", str, path, ""), folder, pictures)))
        if stopped is None or at < len(steps) - 1:
            moves.append(_move(step, at, said, path))
    seen = [sha for _, sha in shots]
    if stopped is not None and len(steps) > 1 and steps[-1].get("screenshot") == steps[-2].get("screenshot"):
        seen[-1] = ""  # it stands for the page after the last action, which was not stored
    facts: dict[str, JsonValue] = {
        "reference_length": count(data.get("reference_length")), "layout": SECOND,
        THOUGHTS_LISTED: len(steps), ANSWER_FIELD: data.get("agent_final_answer"),
    }  # fmt: skip
    if inputs := input_pictures(folder, texts(data, "input_image_paths", path), pictures):
        facts["input_images"] = list(inputs)
    ends = [at for at, move in enumerate(moves) if isinstance(move.action, Answer | Terminate)]
    if ends and ends[0] < len(moves) - 1:
        notes.append(f"step {ends[0]} says {COMPLETE}, and steps follow it")
    if said is not None and not ends:
        moves.append(Move(action=Answer(text=said), raw=said))
        notes.append(f"it has an answer and no step {COMPLETE}")
    answer = next((m.action.text for m in reversed(moves) if isinstance(m.action, Answer)), None)
    ended = bool(ends) or said is not None
    return Attempt(
        task_id=task_id,
        goal=field(data, "task", str, path, ""),
        moves=moves,
        shots=shots,
        seen=seen,
        answer=answer or None,
        stop=stopped or (Stop.ANSWERED if ended else Stop.DONE),
        detail="" if ended or stopped in REASONS else UNSAID,
        start_url=moves[0].url if moves else "",
        facts=facts,
        notes=notes,
        viewport=pictures.size,
    )


def _steps(data: dict[str, Any], path: Path) -> tuple[list[dict[str, Any]], Stop | None]:
    """(entries of the action history, why the episode stopped where the last one says that it did). Raises DataError.

    A stop without a reason of ours is `Stop.DONE`, as of every attempt that does not say how it ended.
    """
    steps = field(data, "action_history", list, path)
    for at, step in enumerate(steps):
        if not isinstance(step, dict):
            raise DataError(f"action_history, entry {at} is no object", path)
    line = field(steps[-1], "action", str, path, "") if steps else ""
    found = _STOPPED.match(line.strip())
    if found is None:
        return steps, None
    return steps, next((reason for reason in REASONS if reason.value == found.group(1)), Stop.DONE)


def _picture(name: str, folder: Path, pictures: Pictures) -> str:
    if name.startswith("data:image/"):
        return pictures.add_base64(name, "in a data address")
    return pictures.add(inside(folder, name, folder / PICTURES), one(name)[:200] or "without a name")


def _move(step: dict[str, Any], at: int, said: str | None, path: Path) -> Move:
    """A step as a move, its line as the judge's script shows it; the last word where the task is complete."""
    line = field(step, "action", str, path, f"step {at}")
    thought, url = field(step, "thought", str, path, ""), field(step, "url", str, path, "")
    if found := _ANSWER.match(line.strip()):
        text = said or (found.group(1) or "").strip()
        action = Answer(text=text) if text else Terminate(status="success")
        return Move(action=action, thought=thought, raw=line, url=url)
    failed = step.get("action_status") == "FAILED" or line.rstrip().endswith(FAILED)
    return Move(intent=line, thought=thought, raw=line, url=url, error="FAILED" if failed else "")


def place(trajectory: Trajectory) -> tuple[str, ...]:
    """Folder of a trajectory below the root, before it is made safe."""
    return (trajectory.task.id,)


def write(trajectory: Trajectory, images: Images, folder: Path) -> list[str]:
    """Write one submission into `folder`; returns what could not be written as it is, or what upstream would refuse."""
    acts = reading.acts(trajectory)
    done = [act for act in acts if not act.final and not act.apart]
    last = _last(trajectory, acts)
    shown = [act.before for act in done] + ([last.picture] if last and last.picture else [])
    _, notes = write_numbered(images, shown, folder / PICTURES, "{:04d}.png", 0)
    errors = {step.index: step.effect.error for step in trajectory.steps}
    steps = []
    for number, act in enumerate(done):
        failed = bool(errors.get(act.index))
        line = act.line if not failed or act.line.rstrip().endswith(FAILED) else f"{act.line} {FAILED}"
        steps.append(_step(number, number, act.url, line, act.thought, failed))
    if last:
        page = max(len(shown) - 1, 0)
        steps.append(_step(len(done), page, last.url, last.line, last.thought, bool(errors.get(last.act))))
        if not last.picture:
            notes.append("the page after its last action is not stored: the last step names the one before it")
    notes += [*dropped(trajectory), *_refused(trajectory, acts, last)]
    if (left := len(reading.stored_screenshots(trajectory)) - len(steps)) > 0:
        notes.append(f"{counted(left, 'screenshot')} that belong to no step are not written")
    length = trajectory.task.meta.get("reference_length") or _stated(trajectory)
    if not isinstance(length, int) or length < 1:
        notes.append("reference_length is not known: run or import with Online-Mind2Web's task file")
    result = {
        "schema_version": SECOND,
        "task": trajectory.task.goal,
        "task_id": trajectory.task.id,
        "agent_final_answer": trajectory.answer or None,
        "reference_length": length if isinstance(length, int) else None,
        "action_history": steps,
    }
    (folder / RESULT).write_bytes(json_bytes(result))
    return notes


class _Last(NamedTuple):
    """The one step that upstream's script leaves out of the action history."""

    line: str
    picture: str
    """SHA-256; empty where the page is not stored."""
    url: str = ""
    thought: str = ""
    act: int = -1
    """Of the act that it is; -1 where it is none."""


def _last(trajectory: Trajectory, acts: Sequence[Act]) -> _Last | None:
    """What stands last: the step that was kept apart, the last word, or the stop; None before any page."""
    kept = next((act for act in reversed(acts) if act.apart and not act.final), None)
    if kept is not None:
        return _Last(kept.line, kept.before, kept.url, kept.thought, kept.index)
    word = f"{COMPLETE} -> ANSWER: {trajectory.answer or ''}".strip()
    final = next((act for act in reversed(acts) if act.final), None)
    if final is not None:
        return _Last(word, final.before, final.url, final.thought)
    if not trajectory.steps or not (acts or trajectory.steps[0].before.image):
        return None
    step = next((one for one in trajectory.steps if acts and one.index == acts[-1].index), None)
    page = step.after if step else trajectory.steps[0].before
    if trajectory.answer is None:
        known = trajectory.stop in REASONS and trajectory.detail != UNSAID
        word = f"{STOPPED} -> {trajectory.stop.value}" if known else STOPPED
    url = page.url if page.image or step is None else step.before.url
    return _Last(word, page.image, url)


def _step(number: int, page: int, url: str, line: str, thought: str, failed: bool) -> dict[str, Any]:
    return {
        "step": number,
        "screenshot": f"{page:04d}.png",
        "url": url or None,
        "action": line,
        "action_status": "FAILED" if failed else None,
        "thought": thought,
    }


def _refused(trajectory: Trajectory, acts: Sequence[Act], last: _Last | None) -> list[str]:
    """What upstream's check may refuse, and last words that are one here."""
    notes = []
    if last is None or not last.line.startswith(COMPLETE):
        notes.append(f"the last step is no {COMPLETE}")
    words = sum(act.final for act in acts)
    if words > 1 or (words and last is not None and not last.line.startswith(COMPLETE)):
        notes.append(f"{counted(words, 'last word')} that stood before other steps did not stay where they were")
    if trajectory.stop is Stop.GAVE_UP:
        notes.append(f"it gave up: the layout knows only {COMPLETE}")
    if not _ID.match(trajectory.task.id):
        notes.append(f"task_id {trajectory.task.id!r} has letters that upstream's check refuses")
    return notes


def _stated(trajectory: Trajectory) -> Any:
    """The number that an imported submission stated."""
    facts = trajectory.evidence.get("imported")
    return facts.get("reference_length") if isinstance(facts, dict) else None
