"""Magnitude's WebVoyager results: `<task_id>.json` and, where it was judged, `<task_id>.eval.json`. Read only.

`<id>.json` (magnitudedev/webvoyager, wv-runner.ts): `time` in milliseconds, `actionCount` (the answer counts),
`totalInputTokens`, `totalOutputTokens`, `memory.observations[]` of `source`, `timestamp`, `data`, and where the run
broke `error` and `timedOut`. A source is `connector:<name>` (pages, with the screenshot as base64),
`thought`, `action:taken:<name>` or `action:result:<name>`; data wraps texts as `{type: primitive, content}`. An action
was decided on the last screenshot before it; of several in a row only the first has one. `<id>.eval.json` holds
`result` (SUCCESS, NOT SUCCESS) and `reasoning`, read as the stored verdict `imported:eval.json`. The answer is the last
`action:taken:answer`. Points are pixels of a screen whose size is not stored, so pointer actions stay lines. There is
no task text: it has to come from a task set.
"""

import json
from pathlib import Path
from typing import Any

from rmsweb.actions import Action, Answer, GoBack
from rmsweb.bench.formats.attempts import UNSAID, Attempt, Move, action_of, stored_verdict, with_tokens
from rmsweb.bench.formats.files import count, field, head_of, inside, line, number, read_json
from rmsweb.bench.formats.pictures import Pictures, Shots
from rmsweb.errors import DataError
from rmsweb.halves import cleaned
from rmsweb.records import Stop, Verdict

JUDGED = ".eval.json"
TAKEN = "action:taken:"
_DEEPEST = 6
_LABELS = {"SUCCESS": 1.0, "NOT SUCCESS": 0.0}


def units(folder: Path, names: list[str]) -> list[Path]:
    """Result files of this folder."""
    found = [folder / name for name in names if name.endswith(".json") and not name.endswith(JUDGED)]
    return [path for path in found if b'"actionCount"' in head_of(path).partition(b'"memory"')[0]]


def read(path: Path, pictures: Pictures) -> Attempt:
    """One result. Raises DataError: fields of a wrong type."""
    data = read_json(path, dict)
    memory = field(data, "memory", dict, path, {})
    moves, shots, seen = _moves(field(memory, "observations", list, path, []), path, pictures)
    answer = next((m.action.text for m in reversed(moves) if isinstance(m.action, Answer)), None)
    stop, detail = _end(data, answer)
    tokens = count(data.get("totalInputTokens")), count(data.get("totalOutputTokens"))
    return Attempt(
        task_id=path.stem,
        goal="",
        moves=with_tokens(moves, *tokens),
        shots=shots,
        seen=seen,
        answer=answer,
        stop=stop,
        detail=detail,
        facts={
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
        },
        verdicts=_verdicts(path, pictures.notes),
        stated=count(data.get("actionCount")) or None,
        viewport=pictures.size,
        wall_s=(number(data.get("time")) or 0.0) / 1000,
    )


def _moves(observations: list[Any], path: Path, pictures: Pictures) -> tuple[list[Move], Shots, list[str]]:
    """(moves, pictures, what each move was decided on and the page after the last). Raises DataError."""
    moves, shots, seen = [], Shots(), []
    thoughts: list[str] = []
    page: str | None = None
    for at, entry in enumerate(observations):
        if not isinstance(entry, dict):
            raise DataError(f"memory.observations, entry {at} is no object", path)
        source = field(entry, "source", str, path, "")
        data = _plain(entry.get("data"))
        if source == "thought" and isinstance(data, str):
            thoughts.append(data)
        elif source.startswith(TAKEN):
            seen.append(page or "")
            moves.append(_move(source.removeprefix(TAKEN), data, "\n".join(thoughts)))
            page, thoughts = None, []
        elif source.startswith("connector:"):
            for text in _media(entry.get("data")):
                page = pictures.add_base64(text, f"of observation {at}")
                shots.append((len(shots), page))
    return moves, shots, [*seen, page] if page is not None else seen


def _plain(data: Any, depth: int = 0) -> Any:
    """Data without its wrapping; pictures are left out."""
    if isinstance(data, dict) and depth < _DEEPEST:
        if data.get("type") == "primitive":
            return data.get("content")
        if data.get("type") == "media":
            return None
        return {key: _plain(value, depth + 1) for key, value in data.items()}
    return [_plain(value, depth + 1) for value in data] if isinstance(data, list) and depth < _DEEPEST else data


def _media(data: Any, depth: int = 0) -> list[str]:
    """Pictures within data, as base64, in order."""
    if depth >= _DEEPEST:
        return []
    if isinstance(data, dict):
        if data.get("type") == "media":
            text = data.get("base64")
            return [text] if isinstance(text, str) else []
        return [found for value in data.values() for found in _media(value, depth + 1)]
    return [found for value in data for found in _media(value, depth + 1)] if isinstance(data, list) else []


def _move(name: str, data: Any, thought: str) -> Move:
    """An action from its arguments: an object, or the object as JSON text."""
    raw = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    if isinstance(data, str):
        try:
            given = cleaned(json.loads(data))
        except (ValueError, RecursionError):
            given = None
        data = given if isinstance(given, dict) else {"input": data}
    arguments = {k: v for k, v in data.items() if k != "variant"} if isinstance(data, dict) else {}
    ours = _action(name, arguments)
    return Move(intent="" if ours else line(name, arguments), action=ours, thought=thought, raw=raw)


def _action(name: str, given: dict[str, Any]) -> Action | None:
    """One of our actions where Magnitude's means exactly that."""
    match name:
        case "answer":
            said = given.get("input", given)
            return Answer(text=said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))
        case "browser:nav":
            return action_of({"action": "goto", "url": given.get("url")})
        case "browser:nav:back":
            return GoBack()
        case "browser:tab:switch":
            return action_of({"action": "switch_tab", "tab": given.get("index")})
        case "browser:tab:close":
            return action_of({"action": "close_tab", "tab": given.get("index")})
        case "browser:tab:new":
            return action_of({"action": "new_tab"})
        case "keyboard:type":
            return action_of({"action": "type", "text": given.get("content")})
        case "keyboard:enter" | "keyboard:tab" | "keyboard:backspace":
            return action_of({"action": "key", "keys": (name.partition(":")[2].capitalize(),)})
        case "wait":
            return action_of({"action": "wait", "seconds": given.get("seconds")})
    return None


def _end(data: dict[str, Any], answer: str | None) -> tuple[Stop, str]:
    """An answer counts even where the run broke after it, as in upstream's own counting of what is unfinished."""
    error = data.get("error")
    said = str(error)[:1000] if error else ""
    if answer is not None:
        return Stop.ANSWERED, said
    if data.get("timedOut") is True:
        return Stop.STEP_LIMIT, said or "timed out"
    return (Stop.BROWSER_ERROR, said) if said else (Stop.DONE, UNSAID)


def _verdicts(path: Path, notes: list[str]) -> list[Verdict]:
    """What lies in `<id>.eval.json`; a file that is none is noted, not trusted."""
    file = inside(path.parent, f"{path.stem}{JUDGED}")
    if file is None:
        return []
    try:
        judged = read_json(file, dict)
    except DataError as error:
        notes.append(f"no verdict: {error}")
        return []
    said, why = judged.get("result"), judged.get("reasoning")
    label = _LABELS.get(said) if isinstance(said, str) else None
    return [stored_verdict("eval.json", label, why if isinstance(why, str) else "")]
