"""browser-use history files (`AgentHistoryList` as JSON). Read only.

`history[]` of `model_output` (thinking, memory, next_goal, `action[]`), `result[]` (one for each action that was
carried out), `state` (url, title, tabs, screenshot_path; older dumps: screenshot as base64), `metadata`. A step with
several actions becomes several moves: the first has the screenshot, no picture was taken between them. Actions name
elements by index, so only those without a place map onto ours. The files hold no task text: it has to come from a task
set, by the name of the file or of its folder. A judgement of the trace is read as the stored verdict
`imported:judgement`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmsweb import actions as act
from rmsweb.actions import Action
from rmsweb.bench.formats.attempts import UNSAID, Attempt, Move, action_of, stored_verdict
from rmsweb.bench.formats.files import field, head_of, inside, line, number, one, read_json
from rmsweb.bench.formats.pictures import Pictures, Shots
from rmsweb.errors import DataError
from rmsweb.records import Stop, Verdict

PLAIN = ("history", "agent_history", "AgentHistory", "AgentHistoryList", "trajectory")
"""File names that say nothing of the task: the folder's name is the task id."""


def units(folder: Path, names: list[str]) -> list[Path]:
    """History files of this folder: JSON objects that name `history` before their first list."""
    return [folder / name for name in names if name.endswith(".json") and _is_history(folder / name)]


def _is_history(path: Path) -> bool:
    head = head_of(path)
    return head.startswith(b"{") and b'"history"' in head and b'"history"' in head[: head.find(b"[") + 1 or None]


def read(path: Path, pictures: Pictures) -> Attempt:
    """One history. Raises DataError: a history that is no list of steps."""
    data = read_json(path, dict)
    steps = field(data, "history", list, path)
    folder = path.parent
    moves, shots, seen, results = [], Shots(), [], []
    for at, step in enumerate(steps):
        if not isinstance(step, dict):
            raise DataError(f"history, entry {at} is no object", path)
        state = field(step, "state", dict, path, {})
        sha = _picture(state, folder, at, pictures)
        done = _results(step, at, path)
        made = _moves(step, state, done, at, path)
        results += done
        if sha is not None:
            shots.append((at, sha))
        seen += [sha or "", *[""] * (len(made) - 1)] if made else []
        moves += made
    answer, stop, detail = _end(results)
    said = data.get("task")
    return Attempt(
        task_id=folder.name if path.stem in PLAIN else path.stem,
        goal=said if isinstance(said, str) else "",
        moves=moves,
        shots=shots,
        seen=seen,
        answer=answer,
        stop=stop,
        detail=detail,
        start_url=moves[0].url if moves else "",
        facts={"steps": len(steps)},
        verdicts=_judgements(results),
        viewport=pictures.size,
        wall_s=_seconds(steps),
    )


def _picture(state: Mapping[str, Any], folder: Path, at: int, pictures: Pictures) -> str | None:
    """SHA-256 of the screenshot; empty where it is named but missing, None where the step has none."""
    name, embedded = state.get("screenshot_path"), state.get("screenshot")
    if isinstance(name, str) and name:
        return pictures.add(inside(folder, name), one(name))
    if isinstance(embedded, str) and embedded:
        return pictures.add_base64(embedded, f"of step {at}")
    return None


def _results(step: Mapping[str, Any], at: int, path: Path) -> list[dict[str, Any]]:
    found = field(step, "result", list, path, [])
    if not all(result is None or isinstance(result, dict) for result in found):
        raise DataError(f"history, entry {at}: a result is no object", path)
    return [result or {} for result in found]


def _moves(
    step: Mapping[str, Any], state: Mapping[str, Any], results: list[dict[str, Any]], at: int, path: Path
) -> list[Move]:
    """The actions of a step that were carried out: those with a result; all where nothing says so. Raises DataError."""
    output = step.get("model_output")
    if not isinstance(output, dict):
        error = next((str(r["error"]) for r in results if r.get("error")), "")
        return [Move(error=error[:500], **_page(state))] if error else []
    actions = field(output, "action", list, path, [])
    if results and len(results) < len(actions):
        actions = actions[: len(results)]  # the rest was dropped when the page changed
    thought = _thought(output)
    moves: list[Move] = []
    for k, given in enumerate(actions):
        if not isinstance(given, dict):
            raise DataError(f"history, entry {at}: action {k} is no object", path)
        name, fields = next(((str(n), f) for n, f in given.items() if n != "interacted_element"), ("", None))
        arguments: dict[str, Any] = fields if isinstance(fields, dict) else {}
        if not name:
            continue
        ours = _action(name, arguments)
        failed = results[k].get("error") if k < len(results) else None
        moves.append(
            Move(
                intent="" if ours else line(name, {a: v for a, v in arguments.items() if v is not None}),
                action=ours,
                thought=thought if not moves else "",
                raw=json.dumps(given, ensure_ascii=False),
                error=str(failed)[:500] if failed else "",
                **_page(state),
            )
        )
    return moves


def _page(state: Mapping[str, Any]) -> dict[str, Any]:
    url, title, tabs = state.get("url"), state.get("title"), state.get("tabs")
    names = [t.get("title") or t.get("url") for t in tabs if isinstance(t, dict)] if isinstance(tabs, list) else []
    return {
        "url": url if isinstance(url, str) else "",
        "title": title if isinstance(title, str) else "",
        "tabs": tuple(n for n in names if isinstance(n, str)),
    }


def _thought(output: Mapping[str, Any]) -> str:
    """What the model said beside its actions; older dumps put it into `current_state`."""
    brain = output.get("current_state")
    said: dict[str, Any] = {**(brain if isinstance(brain, dict) else {}), **output}
    names = ("thinking", "evaluation_previous_goal", "memory", "next_goal")
    return "\n".join(said[n] for n in names if isinstance(said.get(n), str) and said[n].strip())


def _action(name: str, fields: Mapping[str, Any]) -> Action | None:
    """One of our actions where the foreign one means exactly that; None else (elements by index, scrolls by pages)."""
    match name:
        case "go_to_url" | "navigate":
            kind = "new_tab" if fields.get("new_tab") is True else "goto"
            return action_of({"action": kind, "url": fields.get("url")})
        case "open_tab":
            return action_of({"action": "new_tab", "url": fields.get("url")})
        case "go_back":
            return act.GoBack()
        case "wait":
            return action_of({"action": "wait", "seconds": number(fields.get("seconds", 3))})
        case "search_google" | "search":
            return action_of({"action": "web_search", "query": fields.get("query")})
        case "switch_tab" if isinstance(fields.get("page_id"), int):
            return action_of({"action": "switch_tab", "tab": fields["page_id"]})
        case "close_tab" if isinstance(fields.get("page_id"), int):
            return action_of({"action": "close_tab", "tab": fields["page_id"]})
        case "done":
            text = fields.get("text")
            text = text if isinstance(text, str) else json.dumps(fields.get("data", ""), ensure_ascii=False)
            if fields.get("success") is False:
                return act.Terminate(status="failure", text=text)
            return act.Answer(text=text)
    return None


def _end(results: list[dict[str, Any]]) -> tuple[str | None, Stop, str]:
    """(answer, stop, detail): the last result says whether the agent was done."""
    last = results[-1] if results else {}
    text = last.get("extracted_content")
    if last.get("is_done") is True:
        answer = text if isinstance(text, str) else None
        return (answer, Stop.GAVE_UP, "") if last.get("success") is False else (answer, Stop.ANSWERED, "")
    error = last.get("error")
    return None, Stop.DONE, f"{UNSAID}; last error: {str(error)[:300]}" if error else UNSAID


def _judgements(results: list[dict[str, Any]]) -> list[Verdict]:
    """The last judgement of the trace, if there is one."""
    for result in reversed(results):
        judgement = result.get("judgement")
        if isinstance(judgement, dict):
            said = judgement.get("verdict")
            why = judgement.get("failure_reason") or judgement.get("reasoning")
            flags = {k: judgement.get(k) is True for k in ("impossible_task", "reached_captcha")}
            label = float(said) if isinstance(said, bool) else None
            return [stored_verdict("judgement", label, why if isinstance(why, str) else "", **flags)]
    return []


def _seconds(steps: list[Any]) -> float:
    """Seconds over all steps that say when they began and ended."""
    total = 0.0
    for step in steps:
        about = step.get("metadata") if isinstance(step, dict) else None
        if isinstance(about, dict):
            start, end = number(about.get("step_start_time")), number(about.get("step_end_time"))
            total += max(0.0, end - start) if start is not None and end is not None else 0.0
    return total
