"""Readers of the WebVoyager family, all pure: transcripts (`interact_messages.json`) and what each judge's reply says.

Promises: `Said.upstream_label` is what the named upstream script would store for the same text, quirks included;
`Said.success` is never True for a reply that says no in other letters (`UNSUCCESSFUL`, `NOT  SUCCESS`), and None where
the reply holds no verdict word of its protocol. Never asks a model, never touches a file.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rmsweb.bench.judges.verdicts import Said
from rmsweb.chat import Reply
from rmsweb.errors import DataError
from rmsweb.judge import read_verdict

TASK_FROM, TASK_TO = "Now given a task:", "Please interact with"
"""The marks between which the original script finds the task in the second message (MinorJerry/WebVoyager)."""
ANSWER_ACTION = "Action: ANSWER"
"""Stands in the last message of a transcript that ends with an answer."""

_TASK = re.compile(rf"{re.escape(TASK_FROM)}(.+?){re.escape(TASK_TO)}")
_ANSWER = re.compile(r"ANSWER[; ]+\[?(.[^\]]*)\]?")


@dataclass(slots=True, frozen=True)
class Interact:
    """What the original judge takes out of a transcript."""

    task: str
    """Empty where the transcript holds only the system message."""
    answer: str | None
    """None: the script stores 0 without asking its model."""
    found: str
    """`answer`, or why there is none: `only_system`, `no_answer`, `unreadable_answer` (the script would crash)."""


def read_interact_messages(messages: object) -> Interact:
    """Task and answer of a WebVoyager transcript, by the rules of the original script (evaluation/auto_eval.py).

    The answer is searched in the last message only: the text behind the first `ANSWER` that blanks or semicolons
    follow (one in the thought wins over the action's), without one leading `[`, up to the first `]`, line breaks kept.
    Raises DataError where the script would stop: no list of messages, no task between its two marks in one line.
    """
    if not isinstance(messages, list) or not messages:
        raise DataError("the transcript is not a list of messages")
    if len(messages) == 1:
        return Interact("", None, "only_system")
    opening = _content(messages[1], "second")
    if isinstance(opening, list):
        first = opening[0] if opening else None
        opening = first.get("text") if isinstance(first, dict) else None
    if not isinstance(opening, str) or (match := _TASK.search(opening)) is None:
        raise DataError(f"the second message has no task between {TASK_FROM!r} and {TASK_TO!r} in one line")
    task, last = match.group(1).strip(), _content(messages[-1], "last")
    # A list (a message with a picture) holds parts, not letters: the script's `in` finds no answer there.
    if not isinstance(last, str) or ANSWER_ACTION not in last:
        return Interact(task, None, "no_answer")
    answer = answer_in(last)
    return Interact(task, answer, "unreadable_answer" if answer is None else "answer")


def answer_in(text: str) -> str | None:
    """The answer in an agent's last reply by the original script's pattern; None where it has none."""
    match = _ANSWER.search(text)
    return match.group(1).strip() if match else None


def _content(message: Any, which: str) -> Any:
    if not isinstance(message, dict) or "content" not in message:
        raise DataError(f"the {which} message has no content")
    return message["content"]


_THINKING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_OPEN_THINKING = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_SPACE = r"[ \t*_`\"'()\[\]-]"
_GAP = rf"(?:{_SPACE}|\s)+"
_FILLERS = r"(?i:an?|the|yet|fully|quite|really|full|complete|to|be|been|as|considered|counted|deemed|judged)"
_NO = re.compile(
    rf"(?<![A-Za-z])UN{_SPACE}*SUCCESS"
    rf"|(?i:\bnot|cannot|n['’]t|\bnever|\bnon){_GAP}(?:{_FILLERS}{_GAP})*SUCCESS"
    rf"|\b(?i:no|without){_SPACE}+SUCCESS"
)
"""Ways to say no that hold the letters SUCCESS."""
_YES = re.compile(r"(?<![A-Za-z])SUCCESS(?:FUL)?(?![A-Za-z])")
_FAILED = re.compile(r"(?<![A-Za-z])(?:FAILURES?|FAILED|FAIL|INCORRECT)(?![A-Za-z])")
_LABELLED = re.compile(
    rf"(?i:\bverdict)(?:{_SPACE}|[:=]|(?i:is\b))*(?:(?P<no>(?i:not){_SPACE}+SUCCESS|UNSUCCESSFUL|FAILURE)|SUCCESS(?:FUL)?)"
    rf"(?![\w/])[*_`\"')\]]*\s*(?:$|[.;!(—–]|\n)",
)
"""A verdict behind its label, wherever that stands; nothing follows that could take it back in the same breath."""
_ALONE = re.compile(
    rf"^{_SPACE}*(?:(?P<no>(?i:not){_SPACE}+SUCCESS|UNSUCCESSFUL|FAILURE)|SUCCESS(?:FUL)?)[*_`\"')\].!]*[ \t\r]*$",
    re.MULTILINE,
)
"""A verdict that is the whole of a line."""
_NOT_BEFORE = re.compile(rf"(?i:\bnot|cannot|n['’]t|\bnever|\bnon|\bno|\bwithout|\bun)(?:{_SPACE}|\s)*\Z")
"""A no that the next word would belong to."""
_FIELD = re.compile(r"\"verdict\"\s*:\s*\"([A-Z]+)\"")
_FENCE = re.compile(r"^\s*```[A-Za-z]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)


def spoken(text: str) -> str:
    """What a reply says behind the model's own thinking; empty where the thinking was never ended."""
    body = _THINKING.split(text)[-1]
    return "" if _OPEN_THINKING.match(body) else body.strip()


def read_original(reply: Reply) -> Said:
    """WebVoyager: NOT SUCCESS anywhere is 0, else SUCCESS anywhere is 1, neither is None (auto_eval.py)."""
    label = 0 if "NOT SUCCESS" in reply.text else 1 if "SUCCESS" in reply.text else None
    return _said(reply, label, failure=False)


def read_fara(reply: Reply) -> Said:
    """Fara: as the original, but neither is 0 (gpt_eval.py)."""
    label = 1 if "SUCCESS" in reply.text and "NOT SUCCESS" not in reply.text else 0
    return _said(reply, label, failure=False)


def by_final_verdict(reply: Reply, upstream: Callable[[Reply], Said]) -> Said:
    """Our own wording's reading: of a reply that weighs both words the final verdict, else what `upstream` reads.

    Final is the last word behind `Verdict:`, without such a label the last one that has a line for itself. One that a
    later word contradicts, or that ends a "not" of the line before, is not final, and a cut reply has none: then
    `upstream` decides. `upstream_label` stays upstream's.
    """
    said, body = upstream(reply), spoken(reply.text)
    marks = list(_LABELLED.finditer(body)) or list(_ALONE.finditer(body))
    if not marks or reply.finish == "length":
        return said
    last = marks[-1]
    success = last["no"] is None
    before, after = body[: last.start()], body[last.end() :]
    taken_back = (_NO.search(after) or _FAILED.search(after)) if success else _YES.search(_NO.sub("", after))
    if taken_back or (success and _NOT_BEFORE.search(before)):
        return said
    return replace(said, success=success)


def read_osu(reply: Reply) -> Said:
    """OSU's copy: FAILURE anywhere is 0, everything else is 1, an empty reply too (Online-Mind2Web utils.py)."""
    return _said(reply, 0 if "FAILURE" in reply.text else 1, failure=True)


def read_molmoweb(reply: Reply) -> Said:
    """MolmoWeb: an object with `thought` (text) and `verdict` (SUCCESS or FAILURE), enforced by the endpoint.

    A reply that is no such object is one that upstream never gets: its label is None. What it says is read all the
    same: the field `verdict` of an object that is fenced or was cut, else the words.
    """
    label, thought = _enforced(reply.text)
    body = spoken(reply.text)
    if label is not None:
        return Said(bool(label), label, thought)
    fields = set(_FIELD.findall(body)) & {"SUCCESS", "FAILURE"}
    if len(fields) == 1:
        fenced = _FENCE.match(body)
        return Said(fields == {"SUCCESS"}, None, _enforced(fenced.group(1))[1] if fenced else body)
    return Said(None, None, body) if fields else _said(reply, None, failure=True)


def _enforced(text: str) -> tuple[int | None, str]:
    """(label, thought) of a reply that fits MolmoWeb's schema; (None, text) of any other."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None, text
    if not isinstance(value, dict) or not isinstance(value.get("thought"), str):
        return None, text
    label = {"SUCCESS": 1, "FAILURE": 0}.get(value["verdict"]) if isinstance(value.get("verdict"), str) else None
    return label, value["thought"] if label is not None else text


def _said(reply: Reply, label: int | None, *, failure: bool) -> Said:
    """`failure`: FAILURE is the protocol's word for no; elsewhere it only spoils a yes.

    Of a cut reply only a verdict that stands by itself counts (its first line, or behind `Verdict:`): a word within
    reasoning that has not come to its end is none.
    """
    body = spoken(reply.text)
    success = _words(body, failure=failure)
    if success is not None and reply.finish == "length":
        alone = read_verdict(body)
        success = success if alone is not None and alone.success is success else None
    return Said(success, label, body)


def _words(body: str, *, failure: bool) -> bool | None:
    """What a text says in a protocol's own capitals; None where it says neither, or both at once."""
    if "NOT SUCCESS" in body and not failure:
        return False
    if "FAILURE" in body and failure:
        return False
    rest = _NO.sub(" ", body)
    yes = bool(_YES.search(rest))
    if yes and (rest != body or _FAILED.search(rest)):
        return None
    return True if yes else False if rest != body else None
