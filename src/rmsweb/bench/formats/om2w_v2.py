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
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from rmsweb.actions import ENDING, Answer, Terminate
from rmsweb.bench import reading
from rmsweb.bench.formats.attempts import UNSAID, Attempt, Move
from rmsweb.bench.formats.files import child, count, field, inside, json_bytes, one, read_json
from rmsweb.bench.formats.om2w import PICTURES, RESULT, SECOND, second_layout
from rmsweb.bench.formats.pictures import Pictures, Shots, write_numbered
from rmsweb.bench.reading import BLANK_ANSWER, OUTPUT_ENTRY, THOUGHTS_LISTED
from rmsweb.errors import DataError
from rmsweb.records import Stop, Trajectory
from rmsweb.store import Images

COMPLETE, STOPPED = "TASK_COMPLETE", "STOPPED"
_ANSWER = re.compile(rf"{COMPLETE}\s*(?:->\s*ANSWER:\s*(.*))?\Z", re.DOTALL)
_STOPPED = re.compile(rf"{STOPPED}(?: -> (\w+))?\Z")
_STATUS = re.compile(r"\s*\|\s*(SUCCESS|FAILED)\s*\Z")
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
    moves, shots = [], Shots()
    steps, stopped = _steps(data, path)
    for at, step in enumerate(steps):
        if step.get("step") not in (None, at):
            notes.append(f"entry {at} of action_history says that it is step {step['step']!r}")
        shots.append((at, _picture(field(step, "screenshot", str, path, ""), folder, pictures)))
        if stopped is None or at < len(steps) - 1:
            moves.append(_move(step, at, said, path))
    facts: dict[str, JsonValue] = {
        "reference_length": count(data.get("reference_length")), "layout": SECOND, THOUGHTS_LISTED: len(steps)
    }  # fmt: skip
    if data.get("agent_final_answer") == "":
        facts[BLANK_ANSWER] = True
    if moves and stopped is None and not isinstance(moves[-1].action, ENDING):
        facts[OUTPUT_ENTRY] = len(moves) - 1
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
        seen=[sha for _, sha in shots],
        answer=answer or None,
        stop=Stop.ANSWERED if ended else stopped or Stop.DONE,
        detail="" if ended or stopped else UNSAID,
        start_url=moves[0].url if moves else "",
        facts=facts,
        notes=notes,
        viewport=pictures.size,
    )


def _steps(data: dict[str, Any], path: Path) -> tuple[list[dict[str, Any]], Stop | None]:
    """(entries of the action history, why the episode stopped where the last one says so). Raises DataError."""
    steps = field(data, "action_history", list, path)
    for at, step in enumerate(steps):
        if not isinstance(step, dict):
            raise DataError(f"action_history, entry {at} is no object", path)
    line = field(steps[-1], "action", str, path, "") if steps else ""
    found = _STOPPED.match(line.strip())
    known = found is not None and found.group(1) in set(Stop) - {Stop.ANSWERED}
    return steps, None if found is None else Stop(found.group(1)) if known else Stop.DONE


def _picture(name: str, folder: Path, pictures: Pictures) -> str:
    if name.startswith("data:image/"):
        return pictures.add_base64(name, "in a data address")
    return pictures.add(inside(folder, name, folder / PICTURES), one(name)[:200] or "without a name")


def _move(step: dict[str, Any], at: int, said: str | None, path: Path) -> Move:
    """A step as a move; the last act of the agent where it says that the task is complete."""
    line = field(step, "action", str, path, f"step {at}").strip()
    status = _STATUS.search(line)
    thought, url = field(step, "thought", str, path, ""), field(step, "url", str, path, "")
    if found := _ANSWER.match(line):
        text = said or (found.group(1) or "").strip()
        action = Answer(text=text) if text else Terminate(status="success")
        return Move(action=action, thought=thought, raw=line, url=url)
    failed = "FAILED" in (step.get("action_status"), status.group(1) if status else "")
    plain = line[: status.start()] if status else line
    return Move(intent=plain or line, thought=thought, raw=line, url=url, error="FAILED" if failed else "")


def place(trajectory: Trajectory) -> tuple[str, ...]:
    """Folder of a trajectory below the root, before it is made safe."""
    return (trajectory.task.id,)


def write(trajectory: Trajectory, images: Images, folder: Path) -> list[str]:
    """Write one submission into `folder`; returns what could not be written as it is, or what upstream would refuse."""
    acts = reading.acts(trajectory)
    ended = bool(acts) and (acts[-1].final or acts[-1].apart)
    last = "" if ended else acts[-1].after if acts else next((step.before.image for step in trajectory.steps), "")
    shown = [*(act.before for act in acts), *([last] if last else [])]
    _, notes = write_numbered(images, shown, folder / PICTURES, "{:04d}.png", 0)
    errors = {step.index: step.effect.error for step in trajectory.steps}
    steps = []
    for number, act in enumerate(acts):
        failed = bool(errors.get(act.index)) and not act.final
        line = f"{COMPLETE} -> ANSWER: {trajectory.answer or ''}".strip() if act.final else act.line
        steps.append(
            {
                "step": number,
                "screenshot": f"{number:04d}.png",
                "url": act.url or None,
                "action": f"{line} | FAILED" if failed else line,
                "action_status": "FAILED" if failed else None,
                "thought": act.thought,
            }
        )
    if shown and not ended:
        steps.append(_stopped(trajectory, len(steps), len(shown) - 1))
    length = trajectory.task.meta.get("reference_length") or _stated(trajectory)
    if not isinstance(length, int) or length < 1:
        notes.append("reference_length is not known: run or import with Online-Mind2Web's task file")
    if not acts or not acts[-1].final:
        notes.append(f"there is no step {COMPLETE}: it did not end itself")
    if trajectory.stop is Stop.GAVE_UP:
        notes.append(f"it gave up: the layout knows only {COMPLETE}")
    if not _ID.match(trajectory.task.id):
        notes.append(f"task_id {trajectory.task.id!r} has letters that upstream's check refuses")
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


def _stopped(trajectory: Trajectory, number: int, page: int) -> dict[str, Any]:
    """The last step of an episode that did not end itself; `page`: number of the last picture that there is."""
    line = f"{STOPPED} -> {trajectory.stop.value}"
    shown = {
        "step": number,
        "screenshot": f"{page:04d}.png",
        "url": (trajectory.steps[-1].after.url if trajectory.steps else "") or None,
    }
    return {**shown, "action": line, "action_status": None, "thought": ""}


def _stated(trajectory: Trajectory) -> Any:
    """The number that an imported submission stated."""
    facts = trajectory.evidence.get("imported")
    return facts.get("reference_length") if isinstance(facts, dict) else None
