"""Fara webeval folders: `traj/<task_id>/` with web_surfer.log, one `*_answer.json`, screenshots. Read and write.

Read by upstream's rules: exactly one `*_answer.json`; actions are the log's events with an action, or, where no event
has one, thought/action pairs in the messages; stop actions are `terminate`; screenshots in the order of their last
number, picture k seen before action k. Coordinates in foreign logs are in the model's own scheme and so stay in the
action line; in a folder that we wrote they are pixels and come back as actions.

The format cannot hold: replies that were no action, intents beside an action, URLs after the last act, effects, titles,
token counts of single steps (the sum stands on the last one), attempt, scale factor, seed, why it stopped beyond
answered / gave up / over the limit / aborted.

A stored rubric score is added up again from its own items; where the two differ, the notes say both numbers, and the
verdict stays the stored one (`details.rubric_differences`).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmsweb import actions as act
from rmsweb.actions import Action
from rmsweb.bench.formats.attempts import Attempt, Move, action_of, stored_verdict, with_tokens
from rmsweb.bench.formats.fara_writing import MARK, action_in, place, write
from rmsweb.bench.formats.files import (
    child,
    clean,
    count,
    field,
    inside,
    line,
    number,
    one,
    parse_json,
    read_json,
    read_text,
)
from rmsweb.bench.formats.pictures import SUFFIXES, Pictures, Shots
from rmsweb.bench.judges.rubric_score import recompute
from rmsweb.errors import DataError
from rmsweb.records import Stop, Verdict
from rmsweb.tasksets.rubrics import read_rubric

__all__ = ["place", "read", "units", "write"]

LOGS = ("web_surfer.log", "websurfer.log")
NO_ANSWER = "<no_answer>"
STOPS = ("terminate", "stop", "stop_execution", "stop_and_answer_question")
ASIDE = ("thoughts", "action", "state_description", "reasoning")
"""Arguments that are no part of what was done."""
_PAIR = re.compile(r"Thought #\d+:\s*(.*?)\s*\n\s*Action #", re.DOTALL)
_CALL = re.compile(r"with arguments\s+(\{.+\})", re.DOTALL)
_LAST = re.compile(r"(\d+)\D*\Z")
_THRESHOLD = re.compile(r"mmrubric_(0?\.\d+|1(?:\.0+)?)-")
"""The share of points from which a rubric's score file passes stands in its name."""


def units(folder: Path, names: list[str]) -> list[Path]:
    """Attempts of this folder."""
    return [folder] if any(n in LOGS for n in names) or any(n.endswith("_final_answer.json") for n in names) else []


def read(folder: Path, pictures: Pictures) -> Attempt:
    """One trajectory. Raises DataError: not exactly one answer file, a log or field that cannot be read."""
    answers = sorted(folder.glob("*_answer.json"))
    if len(answers) != 1:
        names = ", ".join(p.name for p in answers[:5])
        raise DataError(
            f"{len(answers)} answer files (*_answer.json: {names or 'none'}); exactly one is needed", folder
        )
    path = child(folder, answers[0].name)
    final = read_json(path, dict)
    data = read_json(child(folder, "task_data.json"), dict) if (folder / "task_data.json").exists() else {}
    said = field(final, "final_answer", str, path, NO_ANSWER)
    answer = None if said == NO_ANSWER else said
    ours = isinstance(data.get(MARK), dict)
    notes: list[str] = []
    moves = [_move(event, answer, ours) for event in _events(folder, notes)]
    usage = _usage(final.get("token_usage"))
    shots = _shots(folder, [n for n in field(final, "screenshots", list, path, []) if isinstance(n, str)], pictures)
    if abs(len(shots) - len(moves)) > 1:
        notes.append(f"{len(shots)} screenshots for {len(moves)} actions; matched from the first")
    aborted = field(final, "is_aborted", bool, path, False)
    stop, detail = _stop(moves, aborted)
    if ours and data[MARK].get("stop") in [end.value for end in Stop]:
        stop, detail = Stop(data[MARK]["stop"]), ""
    times = read_json(child(folder, "times.json"), dict) if (folder / "times.json").exists() else {}
    prefix = answers[0].name.removesuffix("_answer.json").removesuffix("_final")
    size = (count(data.get("viewport_width")), count(data.get("viewport_height")))
    return Attempt(
        task_id=data["id"] if isinstance(data.get("id"), str) and data["id"] else prefix or folder.name,
        goal=_first(data, "question", "task_proposal", "initial_task_proposal", "ques", "confirmed_task"),
        moves=with_tokens(moves, *usage),
        shots=shots,
        seen=[sha for _, sha in shots],
        answer=answer,
        stop=stop,
        detail=detail,
        start_url=_first(data, "init_url", "web", "url"),
        facts={"aborted": aborted, "token_usage": final.get("token_usage"), "rmsweb": ours},
        meta=_rubric(data.get("precomputed_rubric"), notes),
        notes=notes,
        verdicts=_scores(folder, notes),
        viewport=size if all(size) else pictures.size,
        wall_s=max(0.0, number(times.get("duration")) or 0.0),
    )


def _rubric(value: Any, notes: list[str]) -> dict[str, Any]:
    """Fields of the task's meta: the rubric as task sets have it; one that is none keeps its foreign name."""
    if not value:
        return {}
    try:
        rubric = read_rubric(value)
    except ValueError as error:
        notes.append(clean(str(error)))
        return {"precomputed_rubric": value}
    return {"rubric": rubric} if rubric else {}


def _first(data: Mapping[str, Any], *names: str) -> str:
    return next((data[name] for name in names if isinstance(data.get(name), str) and data[name].strip()), "")


def _events(folder: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Events with an action, structured ones first choice, else those that a message spells out. Raises DataError."""
    name = next((n for n in LOGS if (folder / n).exists()), None)
    if name is None:
        notes.append("no web_surfer.log: no actions")
        return []
    path = child(folder, name)
    text = read_text(path)
    lines = text.split("\n")
    events = []
    for position, row in enumerate(lines, 1):
        if not row.strip():
            continue
        try:
            event = parse_json(row, path, position)
        except DataError:
            if position < len(lines):
                raise
            notes.append(f"{name}: the last line was cut")
            break
        if not isinstance(event, dict):
            raise DataError("an event is no object", path, position)
        events.append(event)
    structured = [event for event in events if event.get("action") is not None]
    return structured or [parsed for event in events if (parsed := _spelled(event, path)) is not None]


def _spelled(event: Mapping[str, Any], path: Path) -> dict[str, Any] | None:
    """A thought/action pair in a message, as upstream's loader takes it; None for every other message."""
    message = event.get("message")
    if not isinstance(message, str) or "Thought #" not in message or "Action #" not in message:
        return None
    thought, call = _PAIR.search(message), _CALL.search(message)
    try:
        arguments = parse_json(call.group(1), path) if call else None
    except DataError:
        return None
    if not isinstance(arguments, dict):
        return None
    name = arguments.get("action")
    said = {**arguments, "thoughts": thought.group(1) if thought else ""}
    return {**event, "action": name if isinstance(name, str) else "unknown", "arguments": said}


def _move(event: Mapping[str, Any], answer: str | None, ours: bool) -> Move:
    """One event as a move."""
    given = event.get("arguments")
    arguments: dict[str, Any] = given if isinstance(given, dict) else {}
    inner = arguments.get("action")
    name = str(inner if isinstance(inner, str) and inner else event.get("action"))
    thought = arguments.get("thoughts")
    if not isinstance(thought, str):
        aside = [arguments.get("state_description"), arguments.get("reasoning")]
        thought = " ".join(text for text in aside if isinstance(text, str) and text)
    fields = {key: value for key, value in arguments.items() if key not in ASIDE}
    action = _action(name, fields, answer, ours)
    url, message = event.get("url"), event.get("message")
    plain = fields.get("line") if ours and isinstance(fields.get("line"), str) else line(name, fields)
    return Move(
        intent="" if action else str(plain),
        action=action,
        thought=thought,
        raw=message if isinstance(message, str) else "",
        url=url if isinstance(url, str) else "",
    )


def _action(name: str, fields: Mapping[str, Any], answer: str | None, ours: bool) -> Action | None:
    """One of our actions where the foreign one means exactly that; None else."""
    if ours:
        return action_in(name, dict(fields))
    if name in STOPS:
        return act.Terminate(status="failure" if fields.get("status") == "failure" else "success", text=answer or "")
    match name:
        case "visit_url":
            return action_of({"action": "goto", "url": fields.get("url")})
        case "web_search":
            return action_of({"action": "web_search", "query": fields.get("query")})
        case "history_back":
            return act.GoBack()
        case "pause_and_memorize_fact":
            return action_of({"action": "memorize", "fact": fields.get("fact")})
        case "wait" | "sleep":
            seconds = number(fields.get("time", fields.get("duration", 3.0)))
            return action_of({"action": "wait", "seconds": seconds})
        case "key" | "keypress":
            return action_of({"action": "key", "keys": fields.get("keys")})
    return None


def _stop(moves: list[Move], aborted: bool) -> tuple[Stop, str]:
    """Why it ended: aborted attempts are left out of upstream's means, so they are infra errors here."""
    if aborted:
        return Stop.BROWSER_ERROR, "aborted"
    last = moves[-1].action if moves else None
    if isinstance(last, act.Answer):
        return Stop.ANSWERED, ""
    if isinstance(last, act.Terminate):
        return (Stop.GAVE_UP if last.status == "failure" else Stop.ANSWERED), ""
    return Stop.STEP_LIMIT, "the last action does not end the task (over the budget of steps)"


def _shots(folder: Path, listed: list[str], pictures: Pictures) -> Shots:
    """Screenshots that the answer file lists, else those in the folder; by the last number in their name."""
    names = listed or [p.name for p in folder.iterdir() if p.name.startswith("screenshot")]
    found: list[tuple[int, str]] = []
    for position, name in enumerate(names):
        plain = name.replace("\\", "/").rpartition("/")[2]
        digits = _LAST.search(Path(plain).stem)
        if plain.lower().endswith(SUFFIXES) and (digits or listed):
            found.append((int(digits.group(1)[:18]) if digits else position, name))
    found.sort(key=lambda pair: pair[0])
    numbers = [n for n, _ in found]
    if len(set(numbers)) != len(numbers):
        twice = next(n for n in numbers if numbers.count(n) > 1)
        raise DataError(f"two screenshots have the number {twice}; their order is not known", folder)
    return [(n, pictures.add(inside(folder, name), one(name))) for n, name in found]


def _usage(usage: Any) -> tuple[int, int]:
    """(prompt, completion) tokens over all components."""
    parts = [part for part in usage.values() if isinstance(part, dict)] if isinstance(usage, dict) else []
    return sum(count(p.get("prompt_tokens")) for p in parts), sum(count(p.get("completion_tokens")) for p in parts)


def _scores(folder: Path, notes: list[str]) -> list[Verdict]:
    """Verdicts of scores/*.json; a score of null is a verifier that failed and says nothing."""
    verdicts = []
    for path in sorted((folder / "scores").glob("*.json")):
        try:
            data = read_json(child(folder, f"scores/{path.name}"), dict)
        except DataError as error:
            notes.append(str(error))
            continue
        if "score" not in data:
            continue
        text = data.get("gpt_response_text")
        said: Any = None
        try:
            said = parse_json(text, path) if isinstance(text, str) and text.lstrip().startswith("{") else None
        except DataError:
            notes.append(f"scores/{path.name}: gpt_response_text is no JSON")
        facts = {
            key: said[key]
            for key in (
                "rubric_is_success",
                "outcome_success",
                "rubric_total_earned_points",
                "rubric_total_max_points",
                "success_criterion",
                "verifier_reasoning",
            )
            if isinstance(said, dict) and key in said
        }
        if differences := _recomputed(data, said, path.name):
            notes += differences
            facts["rubric_differences"] = differences
        reason = said.get("outcome_reasoning") if isinstance(said, dict) else text
        verdicts.append(
            stored_verdict(
                f"scores/{path.name}", number(data["score"]), reason if isinstance(reason, str) else "", **facts
            )
        )
    return verdicts


def _recomputed(data: Mapping[str, Any], said: Any, name: str) -> list[str]:
    """What a rubric's items say against the stored numbers; nothing where they agree, or where there are no items."""
    if not isinstance(said, dict) or not said.keys() & {"rubric_items", "items"}:
        return []
    where, found = f"scores/{name}", _THRESHOLD.match(name)
    try:
        again = recompute(data, where, float(found.group(1))) if found else recompute(data, where)
    except DataError as error:
        return [clean(f"{error}; the stored score is taken as it is")]
    return [f"scores/{name}: {difference}; the stored one is kept" for difference in again.differences]
