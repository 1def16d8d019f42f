"""MolmoWeb trajectory folders: `<task_id>/trajectory.json`, `images/screenshot_<n>.png`, metadata.json. Read only.

trajectory.json maps a step number to `screenshot` (what the step was decided on), `other_obs`, `action` {`action_str`,
`action_description`, `action_output` {`thought`, `action`, `action_name`}}, `error`, `raw_output`; metadata.json has
`goal` and `eps_name`. Points are pixels of the viewport (allenai/molmoweb, agent/actions.py), so pointer actions map
onto ours; a click on an element id does not. The answer is upstream's: the last message tagged [ANSWER], else the last
message, else the last thought. `<judge>_verdict.json` is read as that judge's verdict.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmsweb import actions as act
from rmsweb.actions import Action
from rmsweb.bench.formats.attempts import UNSAID, Attempt, Move, action_of, stored_verdict
from rmsweb.bench.formats.files import child, field, inside, number, read_json
from rmsweb.bench.formats.pictures import Pictures, Shots
from rmsweb.errors import DataError
from rmsweb.records import Stop, Verdict

STEPS = "trajectory.json"
ANSWER, EXIT = "[ANSWER]", "[EXIT]"
NOOP_S = 5.0
"""Seconds that upstream's `noop` waits."""


def units(folder: Path, names: list[str]) -> list[Path]:
    """Attempts of this folder."""
    return [folder] if STEPS in names else []


def read(folder: Path, pictures: Pictures) -> Attempt:
    """One trajectory. Raises DataError: step numbers that are none, fields of a wrong type."""
    path = child(folder, STEPS)
    steps = _ordered(read_json(path, dict), path)
    about = read_json(child(folder, "metadata.json"), dict) if (folder / "metadata.json").exists() else {}
    moves, shots, messages, thoughts = [], Shots(), [], []
    for at, step in steps:
        move, said = _move(step, at, path)
        name = field(step, "screenshot", str, path, "")
        if move is not None:
            moves.append(move)
            thoughts += [move.thought] if move.thought else []
            messages += [said] if said is not None else []
        if name:
            shots.append((at, pictures.add(inside(folder, name, folder / "images"), name)))
    answer, source = _answer(messages, thoughts)
    error = _error(steps[-1][1]) if steps else ""
    last = moves[-1].action if moves else None
    stop, detail = Stop.DONE, UNSAID
    if error:
        stop, detail = Stop.MODEL_ERROR if "PREDICTION" in error else Stop.BROWSER_ERROR, error
    elif isinstance(last, act.Terminate) and last.status == "failure":
        stop, detail = Stop.GAVE_UP, ""
    elif source == "answer" or isinstance(last, act.ENDING):
        stop, detail = Stop.ANSWERED, ""
    return Attempt(
        task_id=folder.name if folder.name != "errors" else folder.parent.name,
        goal=next((about[k] for k in ("goal", "instruction", "prompt") if isinstance(about.get(k), str)), ""),
        moves=moves,
        shots=shots,
        seen=[sha for _, sha in shots],
        answer=answer,
        stop=stop,
        detail=detail,
        start_url=moves[0].url if moves else "",
        facts={"answer_from": source},
        verdicts=_verdicts(folder, pictures.notes),
        viewport=pictures.size,
        prefixed=True,
    )


def _ordered(data: Mapping[str, Any], path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Steps by number, not by the order or spelling of the keys. Raises DataError."""
    found: dict[int, dict[str, Any]] = {}
    for key, step in data.items():
        if not key.isdecimal() or len(key) > 9:
            raise DataError(f"step {key!r} is no number", path)
        if not isinstance(step, dict):
            raise DataError(f"step {key} is no object", path)
        if int(key) in found:
            raise DataError(f"step {int(key)} is there twice", path)
        found[int(key)] = step
    return sorted(found.items())


def _move(step: Mapping[str, Any], at: int, path: Path) -> tuple[Move | None, str | None]:
    """(move, message to the user) of a step; no move where it failed before it had an action. Raises DataError."""
    action = step.get("action")
    if not isinstance(action, dict):
        return None, None
    output = action.get("action_output")
    output = output if isinstance(output, dict) else {}
    given = output.get("action")
    fields: dict[str, Any] = given if isinstance(given, dict) else {}
    name = output.get("action_name")
    name = name if isinstance(name, str) and name else _called(action.get("action_str"))
    message = fields.get("msg") if isinstance(fields.get("msg"), str) else None
    ours = _action(name, fields)
    where = step.get("other_obs")
    seen: dict[str, Any] = where if isinstance(where, dict) else {}
    thought, text, raw = (
        x if isinstance(x, str) else ""
        for x in (output.get("thought"), action.get("action_str"), step.get("raw_output"))
    )
    if ours is None and not text and not name:
        raise DataError(f"step {at} has an action without action_str and action_name", path)
    titles = seen.get("open_pages_titles")
    return Move(
        intent="" if ours else text or name,
        action=ours,
        thought=thought,
        raw=raw or text,
        url=seen["url"] if isinstance(seen.get("url"), str) else "",
        tabs=tuple(t for t in titles if isinstance(t, str)) if isinstance(titles, list) else (),
        error=_error(step),
    ), message


def _called(text: Any) -> str:
    return text.partition("(")[0].strip() if isinstance(text, str) else ""


def _error(step: Mapping[str, Any]) -> str:
    error = step.get("error")
    if isinstance(error, dict):
        return "; ".join(f"{key}: {value}" for key, value in error.items())[:500]
    return str(error)[:500] if error else ""


def _answer(messages: list[str], thoughts: list[str]) -> tuple[str | None, str]:
    """(answer, where it stood), by upstream's rule; the last tagged message counts."""
    tagged = [m for m in messages if ANSWER in m]
    if tagged:
        return tagged[-1][len(ANSWER) + 1 :], "answer"
    plain = [m for m in messages if EXIT not in m]
    if plain:
        return plain[-1], "message"
    return (thoughts[-1], "thought") if thoughts else (None, "")


def _action(name: str, fields: Mapping[str, Any]) -> Action | None:
    """One of our actions where the foreign one means exactly that; None else."""
    point = _point(fields, "x", "y")
    match name:
        case "mouse_click" | "mouse_dblclick" | "click" if point:
            twice = name == "mouse_dblclick" or fields.get("click_type") == "double"
            kinds = {("left", False): "left_click", ("left", True): "double_click", ("right", False): "right_click"}
            kind = kinds.get((str(fields.get("button", "left")), twice))
            return action_of({"action": kind, "point": point}) if kind else None
        case "mouse_move" | "hover_at" if point:
            return action_of({"action": "mouse_move", "point": point})
        case "scroll" | "scroll_at":
            dx, dy = number(fields.get("delta_x")), number(fields.get("delta_y"))
            if dx is None or dy is None:
                return None
            return action_of({"action": "scroll", "dx": round(dx), "dy": round(dy), "point": point})
        case "mouse_drag_and_drop":
            start, end = _point(fields, "from_x", "from_y"), _point(fields, "to_x", "to_y")
            return action_of({"action": "left_click_drag", "start": start, "point": end}) if start and end else None
        case "keyboard_type":
            return action_of({"action": "type", "text": fields.get("text")})
        case "gemini_type_text_at" if point:
            flags = {
                "press_enter": fields.get("press_enter", True),
                "clear_first": fields.get("clear_before_typing", True),
            }
            return action_of({"action": "type", "text": fields.get("text"), "point": point, **flags})
        case "keyboard_press":
            key = fields.get("key")
            keys = ["+"] if key == "+" else [k for k in key.split("+") if k] if isinstance(key, str) else None
            return action_of({"action": "key", "keys": keys})
        case "goto":
            return action_of({"action": "goto", "url": fields.get("url")})
        case "noop":
            return act.Wait(seconds=NOOP_S)
        case "report_infeasible":
            return act.Terminate(status="failure", text=str(fields.get("infeasibility_reason") or ""))
    return _message(fields) if name == "send_msg_to_user" else _navigation(name, fields)


def _message(fields: Mapping[str, Any]) -> Action | None:
    """[ANSWER] is an answer, [EXIT] the end; any other message is none of our actions."""
    text = fields.get("msg")
    if not isinstance(text, str):
        return None
    if ANSWER in text:
        return act.Answer(text=text[len(ANSWER) + 1 :])
    return act.Terminate(status="success") if text.startswith(EXIT) else None


def _navigation(name: str, fields: Mapping[str, Any]) -> Action | None:
    kind = fields.get("nav_type") if name in ("browser_nav", "go_back", "new_tab", "tab_focus") else None
    if kind == "tab_focus":
        return action_of({"action": "switch_tab", "tab": fields.get("index")})
    return act.GoBack() if kind == "go_back" else act.NewTab() if kind == "new_tab" else None


def _point(fields: Mapping[str, Any], across: str, down: str) -> dict[str, int] | None:
    x, y = number(fields.get(across)), number(fields.get(down))
    return None if x is None or y is None or abs(x) > 1e6 or abs(y) > 1e6 else {"x": round(x), "y": round(y)}


def _verdicts(folder: Path, notes: list[str]) -> list[Verdict]:
    """Verdicts of `<judge>_verdict.json`."""
    verdicts = []
    for path in sorted(folder.glob("*_verdict.json")):
        try:
            data = read_json(child(folder, path.name), dict)
        except DataError as error:
            notes.append(str(error))
            continue
        said = data.get("verdict")
        label = {"SUCCESS": 1.0, "FAILURE": 0.0}.get(said) if isinstance(said, str) else None
        thought = data.get("thought")
        verdicts.append(stored_verdict(path.name, label, thought if isinstance(thought, str) else ""))
    return verdicts
