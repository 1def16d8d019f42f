"""WebVoyager result folders: `task<id>/interact_messages.json` and `screenshot<n>.png` from 1. Read and write.

The transcript: system message, task, then replies `Thought: ...` / `Action: ...` in turn with observations; a final
reply `Action: ANSWER; text`. Reply k saw screenshot k; where a reply was refused as malformed no picture was taken
before the next one, so a number may be left out without a picture being lost. What upstream's judge takes for the
answer (up to the first `]`) is the attempt's answer; the whole text is kept beside it where it differs.

The format cannot hold: structured actions (an action comes back as its line), several lines in a task or an action, `]`
or a leading `[` in an answer (written as round brackets), how an episode without an answer ended, addresses of pages,
tokens, times, effects, viewport, attempt, policy, a task id that is no file name.
"""

import re
from pathlib import Path
from typing import Any

from rmsweb.actions import Action, Answer, GoBack, Goto, Wait
from rmsweb.bench import reading
from rmsweb.bench.formats.attempts import UNSAID, Attempt, Move, seen_by
from rmsweb.bench.formats.files import child, inside, json_bytes, one, read_json
from rmsweb.bench.formats.pictures import SUFFIXES, Pictures, Shots, numbered, write_numbered
from rmsweb.bench.judges.webvoyager_parse import ANSWER_ACTION, TASK_FROM, TASK_TO, read_interact_messages
from rmsweb.errors import DataError
from rmsweb.records import Stop, Trajectory
from rmsweb.store import Images

MESSAGES = "interact_messages.json"
SYSTEM = (
    "A web agent's transcript, written by rmsweb. Each reply holds a thought and one action; points are pixels of the "
    "screenshot. The last reply holds the answer, if there is one."
)
OBSERVATION = "Observation: screenshot {number}, in the file beside."

_LOOSE_TASK = re.compile(rf"{TASK_FROM}(.+?){TASK_TO}\s*(\S*)", re.DOTALL)
_SITE = re.compile(rf"{TASK_TO}\s+(https?://\S+|www\.\S+)")
_SHOT = re.compile(r"screenshot(\d+)\.png")
_CUE = re.compile(r"ANSWER(?=[; ])")


def units(folder: Path, names: list[str]) -> list[Path]:
    """Attempts of this folder."""
    return [folder] if MESSAGES in names else []


def read(folder: Path, pictures: Pictures) -> Attempt:
    """One result folder. Raises DataError: no list of messages, two screenshots of one number."""
    path = child(folder, MESSAGES)
    messages = read_json(path, list)
    turns = [_turn(message, number, path) for number, message in enumerate(messages)]
    if not turns:
        raise DataError("the transcript is empty", path)
    goal, answer, notes = _task_and_answer(messages, path)
    if turns[-1][0] != "assistant":
        answer = None  # the last message is no reply, whatever it holds
    task = _text(turns, 1)
    moves, expected = [], []
    for position, (role, text) in enumerate(turns):
        if role == "assistant":
            moves.append(_move(text))
            asked = turns[position - 1][1] if position else ""
            expected.append(asked.lstrip().startswith(("Observation", TASK_FROM)) or position <= 2)
    shots = _shots(folder, expected, pictures)
    whole = _whole_answer(turns[-1]) if turns[-1][0] == "assistant" else None
    if answer is not None and moves:
        moves[-1].action, moves[-1].intent = Answer(text=answer), ""
    site = _SITE.search(task)
    start = site.group(1).rstrip(",.;") if site else ""
    return Attempt(
        task_id=folder.name.removeprefix("task"),
        goal=goal,
        moves=moves,
        shots=shots,
        seen=_seen(shots, expected),
        answer=answer,
        stop=Stop.ANSWERED if answer is not None else Stop.DONE,
        detail="" if answer is not None else UNSAID,
        site=folder.name.removeprefix("task").partition("--")[0],
        start_url=start,
        facts={"whole_answer": whole} if whole is not None and whole != answer else {},
        notes=notes,
        viewport=pictures.size,
    )


def _text(turns: list[tuple[str, str]], number: int) -> str:
    return turns[number][1] if number < len(turns) else ""


def _turn(message: Any, number: int, path: Path) -> tuple[str, str]:
    """(role, text) of a message; the texts of its parts, without pictures. Raises DataError."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise DataError(f"message {number} is no object with a role", path)
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(text for text in parts if isinstance(text, str))
    if content is not None and not isinstance(content, str):
        raise DataError(f"message {number}: content is neither text nor a list of parts", path)
    return message["role"], content or ""


def _task_and_answer(messages: list[Any], path: Path) -> tuple[str, str | None, list[str]]:
    """By the rules of upstream's script; a task that it could not read is looked for in several lines, and noted."""
    try:
        said = read_interact_messages(messages)
    except DataError as error:
        found = _LOOSE_TASK.search(_turn(messages[1], 1, path)[1]) if len(messages) > 1 else None
        last = read_interact_messages([{}, {"content": f"{TASK_FROM} x {TASK_TO}"}, messages[-1]])
        goal = one(found.group(1)) if found else ""
        return goal, last.answer, [f"upstream's script would stop here: {error}"]
    notes = [] if said.found in ("answer", "no_answer") else [f"no answer: {said.found}"]
    return said.task, said.answer, notes


def _seen(shots: Shots, expected: list[bool]) -> list[str]:
    """What each reply saw: the screenshot of its number; the one before it where none was taken."""
    by_number = dict(shots)
    last = max(by_number, default=0)
    if not shots or last > len(expected) + len(shots) + 1:  # no step numbers, only an order
        return [sha for _, sha in shots]
    seen: list[str] = []
    for number in range(1, max(len(expected), last) + 1):
        own = number in by_number or number > len(expected) or expected[number - 1] or not seen
        seen.append(by_number.get(number, "") if own else seen[-1])
    return seen


def _whole_answer(turn: tuple[str, str]) -> str | None:
    """All that stands behind the answer action of a reply; None where there is none."""
    _, found, said = turn[1].partition(ANSWER_ACTION)
    return said.lstrip("; ").strip() if found else None


def _move(text: str) -> Move:
    """One reply: thought, action line, and the action where it is one of ours for certain."""
    at = text.find(ANSWER_ACTION)
    if at < 0:
        at = text.rfind("\nAction:") + 1 or (0 if text.startswith("Action:") else -1)
    if at < 0:
        return Move(thought=_thought(text), raw=text)
    said = text[at:].removeprefix("Action:").strip()
    action = _ACTIONS.get(said)
    return Move(thought=_thought(text[:at]), intent="" if action else said, action=action, raw=text)


_ACTIONS: dict[str, Action] = {
    "Wait": Wait(seconds=5),
    "GoBack": GoBack(),
    "Google": Goto(url="https://www.google.com/"),
}
"""Upstream's actions that need no label of a marked screenshot."""


def _thought(text: str) -> str:
    return text.strip().removeprefix("Thought:").strip()


def _shots(folder: Path, expected: list[bool], pictures: Pictures) -> Shots:
    """The screenshots; one that a reply must have seen and that is not there is missing, other gaps are none."""
    names = [p.name for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.stem.startswith("screenshot")]
    plain = [name for name in names if _SHOT.fullmatch(name)] or names
    found = numbered(plain, folder)
    shots = [(number, pictures.add(inside(folder, name), name)) for number, name in found.files]
    there = {number for number, _ in shots}
    lost = [number for number, seen in enumerate(expected, 1) if seen and number not in there]
    if lost and there:
        pictures.notes.append(f"screenshots {', '.join(map(str, lost[:20]))} are missing")
    return sorted([*shots, *((number, "") for number in lost)]) if there else []


def place(trajectory: Trajectory) -> tuple[str, ...]:
    """Folder of a trajectory below the root; the id's own blanks are kept."""
    return (f"task{trajectory.task.id}",)


def write(trajectory: Trajectory, images: Images, folder: Path) -> list[str]:
    """Write one result folder; returns what could not be written as it is."""
    shown = seen_by(trajectory)
    _, notes = write_numbered(images, shown, folder, "screenshot{}.png", 1)
    goal, changed = _goal(trajectory.task.goal)
    notes += changed
    site = trajectory.task.start_url or "the page that is shown"
    opening = f"{TASK_FROM} {goal}  {TASK_TO} {site} and get the answer. {OBSERVATION.format(number=1)}"
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": opening}]
    acts = reading.acts(trajectory)
    if not acts:
        messages[-1]["content"] = _plain(opening)  # the task is the last message then
    answer, changed = _answer(trajectory.answer if acts else None)
    notes += changed
    for number, act in enumerate(acts, 1):
        final = act.final and answer is not None
        said = f"{ANSWER_ACTION}; {answer}" if final else _plain(f"Action: {one(act.line)}")
        thought = _plain(act.thought.strip())
        if number > 1:
            messages.append({"role": "user", "content": OBSERVATION.format(number=number)})
        messages.append({"role": "assistant", "content": f"Thought: {thought}\n\n{said}"})
        if thought != act.thought.strip():
            notes.append(
                f"thought {number}: ANSWER is written as Answer, upstream's script would take it for the answer"
            )
    if answer is not None and not acts[-1].final:  # as with MolmoWeb's, whose answer is no act
        messages.append({"role": "user", "content": OBSERVATION.format(number=len(acts) + 1)})
        messages.append({"role": "assistant", "content": f"Thought: \n\n{ANSWER_ACTION}; {answer}"})
        notes.append("the answer is no act of its own; it is written as a last reply, without a screenshot")
    (folder / MESSAGES).write_bytes(json_bytes(messages))
    return notes


def _goal(goal: str) -> tuple[str, list[str]]:
    """The task in one line, since upstream reads it between two marks in one line."""
    plain = one(goal)
    notes = [] if plain == goal.strip() else ["the task's line breaks are written as blanks"]
    if TASK_TO in plain:
        plain = plain.replace(TASK_TO, TASK_TO.replace(" ", "-", 1))
        notes.append(f"the task holds {TASK_TO!r}, which would end it for upstream's script; a hyphen is put in")
    return plain, notes


def _answer(answer: str | None) -> tuple[str | None, list[str]]:
    """The answer as upstream's script reads it whole; None where there is none that it could read."""
    plain = (answer or "").strip("; \t\n\r")
    if not plain:
        return None, []
    if "]" not in plain and not plain.startswith("["):
        return plain, []
    return plain.replace("[", "(").replace("]", ")"), ["[ ] in the answer are written as ( ): upstream cuts it at ]"]


def _plain(text: str) -> str:
    """Text in which upstream's script finds no answer."""
    return _CUE.sub("Answer", text).replace(ANSWER_ACTION, "Action: Answer")
