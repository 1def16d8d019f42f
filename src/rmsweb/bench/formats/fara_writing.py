"""Writing a trajectory as a Fara webeval folder, so that upstream's loader and verifiers read it.

The names of Fara's own tool are used where ours mean the same; every event has `thoughts` and `action` among its
arguments, as the loader wants; screenshot k (from 1) is what action k was decided on. task_data.json says under
`rmsweb` that coordinates are pixels of the viewport.
"""

import json
from pathlib import Path
from typing import Any

from rmsweb import actions as act
from rmsweb.bench import reading
from rmsweb.bench.costs import use_of
from rmsweb.bench.formats.attempts import action_of, seen_by
from rmsweb.bench.formats.files import json_bytes, line, safe_name
from rmsweb.bench.formats.pictures import write_numbered
from rmsweb.records import INFRA_STOPS, Step, Trajectory
from rmsweb.store import Images

MARK = "rmsweb"
"""Key of task_data.json that says that we wrote the folder."""


def place(trajectory: Trajectory) -> tuple[str, ...]:
    """Folder of a trajectory below the root."""
    return ("traj", trajectory.task.id)


def write(trajectory: Trajectory, images: Images, folder: Path) -> list[str]:
    """Write one trajectory; returns what could not be written as it is."""
    names, notes = write_numbered(images, seen_by(trajectory), folder, "screenshot_{}.png", 1)
    rows = []
    for a in reading.acts(trajectory):
        name, arguments = call(trajectory.steps[a.index])
        event = {
            "timestamp": "",
            "type": "WebSurferEvent",
            "source": "WebSurfer",
            "message": line(name, arguments),
            "url": a.url,
            "action": name,
            "arguments": arguments,
        }
        rows.append(json.dumps(event))
    (folder / "web_surfer.log").write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    task = trajectory.task
    use, size = use_of(trajectory), reading.viewport_of(trajectory)
    usage = {"prompt_tokens": use.prompt_tokens, "completion_tokens": use.completion_tokens}
    final = {
        "final_answer": "<no_answer>" if trajectory.answer is None else trajectory.answer,
        "env_state_json": "<no_answer>",
        "env_state_raw": "<no_answer>",
        "screenshots": names,
        "is_aborted": trajectory.stop in INFRA_STOPS,
        "is_rel_paths": True,
        "token_usage": {trajectory.policy or "policy": usage} if use.prompt_tokens is not None else {},
    }
    (folder / f"{safe_name(task.id)}_final_answer.json").write_bytes(json_bytes(final))
    data: dict[str, Any] = {
        "id": task.id,
        "question": task.goal,
        "task_proposal": task.goal,
        "init_url": task.start_url,
        **({"viewport_width": size[0], "viewport_height": size[1]} if size else {}),
        MARK: {"coordinates": "pixels of the viewport", "stop": trajectory.stop.value},
    }
    rubric = task.meta.get("rubric") or task.meta.get("precomputed_rubric")
    (folder / "task_data.json").write_bytes(json_bytes({**data, **({"precomputed_rubric": rubric} if rubric else {})}))
    if trajectory.wall_s:
        times = {"start_time": 0.0, "end_time": trajectory.wall_s, "duration": trajectory.wall_s}
        (folder / "times.json").write_bytes(json_bytes(times))
    else:
        notes.append("no times are recorded: times.json is left out")
    (folder / "core.log").write_text(
        f"{task.id}: {len(rows)} actions, ended: {trajectory.stop.value}\n", encoding="utf-8"
    )
    return notes


def call(step: Step) -> tuple[str, dict[str, Any]]:
    """(action name, arguments) of an event."""
    action, thought = step.decision.action, step.decision.thought
    if action is None:
        name = step.decision.intent.partition("(")[0].strip().partition(" ")[0] or "action"
        return name, {"action": name, "thoughts": thought, "line": step.decision.intent}
    name, fields = _fields(action)
    return name, {"action": name, "thoughts": thought, **fields}


_OURS = {"visit_url": "goto", "history_back": "go_back", "pause_and_memorize_fact": "memorize"}
_NAMES = {"coordinate": "point", "start_coordinate": "start", "time": "seconds", "delete_existing_text": "clear_first"}


def action_in(name: str, arguments: dict[str, Any]) -> act.Action | None:
    """The action of an event that we wrote: the inverse of `call`. None where it is only a line."""
    fields = {_NAMES.get(key, key): value for key, value in arguments.items()}
    if name == "terminate" and isinstance(fields.get("answer"), str):
        return act.Answer(text=fields["answer"])
    if name == "scroll" and "pixels" in fields:
        pixels = fields.pop("pixels")
        fields["dy"] = -pixels if isinstance(pixels, int) else pixels
    for key in ("point", "start"):
        if isinstance(fields.get(key), list) and len(fields[key]) == 2:
            fields[key] = dict(zip("xy", fields[key], strict=True))
    return action_of({**fields, "action": _OURS.get(name, name)})


def _fields(action: act.Action) -> tuple[str, dict[str, Any]]:
    """Fara's name and arguments; a kind that Fara's tool has not keeps ours."""

    def at(point: act.Point | None) -> dict[str, Any]:
        return {} if point is None else {"coordinate": [point.x, point.y]}

    match action:
        case act.Answer():
            return "terminate", {"status": "success", "answer": action.text}
        case act.Terminate():
            return "terminate", {"status": action.status, **({"text": action.text} if action.text else {})}
        case act.Goto():
            return "visit_url", {"url": action.url}
        case act.GoBack():
            return "history_back", {}
        case act.Memorize():
            return "pause_and_memorize_fact", {"fact": action.fact}
        case act.Wait():
            return "wait", {"time": action.seconds}
        case act.Type():
            flags = {"press_enter": action.press_enter, "delete_existing_text": action.clear_first}
            return "type", {"text": action.text, **flags, **at(action.point)}
        case act.Scroll() if not action.dx:
            return "scroll", {"pixels": -action.dy, **at(action.point)}
        case act.LeftClick() | act.MouseMove() | act.DoubleClick() | act.TripleClick() | act.RightClick():
            return action.action, at(action.point)
    fields = action.model_dump(mode="json", exclude_defaults=True)
    for name in ("point", "start"):
        if name in fields:
            fields[f"{'start_' if name == 'start' else ''}coordinate"] = [*fields.pop(name).values()]
    return str(fields.pop("action")), fields
