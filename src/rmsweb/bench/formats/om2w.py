"""Online-Mind2Web submissions: `<root>/<task_id>/result.json`, `trajectory/<n>_screenshot.png`. Read and write.

result.json: `task_id`, `task`, `action_history`, `thoughts` (as long), `final_result_response`, `input_image_paths`.
Rule of the leaderboard kept by the writer: `action_history` states facts only, the act that ends the episode is not in
it. Picture k is what action k was decided on, the last one the page after the last action.

Others' files of this layout: `result_status` (theredsix/abp-online-mind2web-results; what the agent said of itself) is
kept as a fact, never a verdict; `judge` of `score` (0 to 100) and `reasoning` (browser-use/online-mind2web, whose files
hold no actions and no pictures) is the stored verdict `imported:result.json`: 100 is success, 0 failure, and what
lies between is not decided, since no threshold is published.

The format cannot hold: structured actions (an action comes back as its line), the thought of the final act, replies
that were no action, how an episode without an answer ended, URLs, tokens, times, effects, viewport, attempt, policy.
"""

import re
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from rmsweb.actions import Answer
from rmsweb.bench import reading
from rmsweb.bench.formats.attempts import UNSAID, Attempt, Move, seen_by, stored_verdict
from rmsweb.bench.formats.files import MOST_BYTES, child, field, inside, json_bytes, number, read_json, texts
from rmsweb.bench.formats.pictures import Pictures, numbered, stored, write_numbered
from rmsweb.errors import DataError
from rmsweb.records import Stop, Trajectory, Verdict
from rmsweb.store import Images

RESULT = "result.json"
PICTURES = "trajectory"


SECOND = "online-mind2web-v2"
"""`schema_version` of the second layout, which has a module of its own."""
_SECOND = re.compile(rb'"schema_version"\s*:\s*"' + SECOND.encode() + rb'"')


def units(folder: Path, names: list[str]) -> list[Path]:
    """Attempts of this folder."""
    return [folder] if RESULT in names and not second_layout(folder / RESULT) else []


def second_layout(path: Path) -> bool:
    """Whether a result.json says that it is of the second layout, wherever in the file."""
    try:
        if path.is_symlink() or not path.is_file():
            return False
        return path.stat().st_size <= MOST_BYTES and bool(_SECOND.search(path.read_bytes()))
    except OSError:
        return False


def read(folder: Path, pictures: Pictures) -> Attempt:
    """One submission. Raises DataError: fields of a wrong type, pictures whose order is not known."""
    path = child(folder, RESULT)
    data = read_json(path, dict)
    if (version := data.get("schema_version")) is not None:
        raise DataError(f"schema_version {version!r} is not known; known are none and {SECOND}", path)
    task_id = field(data, "task_id", str, path, folder.name)
    judged = data.get("judge")
    actions = texts(data, "action_history", path, needed=not isinstance(judged, dict))
    thoughts = texts(data, "thoughts", path)
    answer = field(data, "final_result_response", str, path, "")
    notes = [] if task_id == folder.name else [f"task_id {task_id!r} lies in folder {folder.name!r}"]
    if thoughts and len(thoughts) not in (len(actions), len(actions) + bool(answer)):
        notes.append(f"{len(thoughts)} thoughts for {len(actions)} actions; matched from the first")
    moves = [
        Move(intent=line, thought=thoughts[k] if k < len(thoughts) else "", raw=line) for k, line in enumerate(actions)
    ]
    if answer:
        last = thoughts[len(actions)] if len(thoughts) > len(actions) else ""
        moves.append(Move(intent="", action=Answer(text=answer), thought=last, raw=answer))
    place = folder / PICTURES
    names = [p.name for p in place.iterdir()] if place.is_dir() and not place.is_symlink() else []
    shots = stored(numbered(names, place), place, pictures)
    if not shots:
        notes.append(f"no screenshots in {PICTURES}/")
    elif len(shots) not in (len(actions), len(actions) + 1):
        notes.append(f"{len(shots)} screenshots for {len(actions)} actions; matched from the first")
    facts: dict[str, JsonValue] = {reading.ANSWER_FIELD: data.get("final_result_response")}
    if isinstance(data.get("thoughts"), list):
        facts[reading.THOUGHTS_LISTED] = len(thoughts)
    if inputs := input_pictures(folder, texts(data, "input_image_paths", path), pictures):
        facts["input_images"] = list(inputs)
    if isinstance(status := data.get("result_status"), str | int):
        facts["result_status"] = status
    return Attempt(
        task_id=task_id,
        goal=field(data, "task", str, path, ""),
        moves=moves,
        shots=shots,
        seen=[sha for _, sha in shots],
        answer=answer or None,
        stop=Stop.ANSWERED if answer else Stop.DONE,
        detail="" if answer else UNSAID,
        facts=facts,
        notes=notes,
        verdicts=[_verdict(judged)] if isinstance(judged, dict) else [],
        viewport=pictures.size,
    )


def _verdict(judged: dict[str, Any]) -> Verdict:
    """What a judge beside the result said."""
    score, why = number(judged.get("score")), judged.get("reasoning")
    label = {100.0: 1.0, 0.0: 0.0}.get(score) if score is not None else None
    return stored_verdict(RESULT, label, why if isinstance(why, str) else "", score=score)


def input_pictures(folder: Path, names: list[str], pictures: Pictures) -> list[str]:
    """Pictures that belong to the task itself, from within the folder."""
    return [pictures.add(inside(folder, name), name) for name in names]


def dropped(trajectory: Trajectory) -> list[str]:
    """Notes on what an imported submission holds beside the attempt, and an export does not write."""
    facts = trajectory.evidence.get("imported")
    held = [name for name in ("input_images", "result_status") if isinstance(facts, dict) and facts.get(name)]
    said = {"input_images": "pictures of the task are not written", "result_status": "result_status is not written"}
    return [said[name] for name in held]


def place(trajectory: Trajectory) -> tuple[str, ...]:
    """Folder of a trajectory below the root, before it is made safe."""
    return (trajectory.task.id,)


def write(trajectory: Trajectory, images: Images, folder: Path) -> list[str]:
    """Write one submission into `folder`; returns what could not be written as it is."""
    every = [act for act in reading.acts(trajectory) if not act.final]
    acts = [act for act in every if not act.apart]
    _, notes = write_numbered(images, seen_by(trajectory), folder / PICTURES, "{}_screenshot.png", 0)
    result = {
        "task_id": trajectory.task.id,
        "task": trajectory.task.goal,
        "action_history": [act.line for act in acts],
        "final_result_response": trajectory.answer or "",
        "input_image_paths": [],
    }
    _, thoughts = reading.history_of(trajectory)
    if thoughts is not None:  # a list of blanks would be shown to a judge, and none was stored
        result["thoughts"] = thoughts[: len(acts)]
    (folder / RESULT).write_bytes(json_bytes(result))
    notes += dropped(trajectory)
    if len(acts) < len(every):
        notes.append("its last step, which the second layout keeps apart from the actions, is left out")
    return notes
