"""Readers of the WebVoyager family, all pure: transcripts (`interact_messages.json`) and what each judge's reply says.

Promises: `Said.upstream_label` is what the named upstream script would store for the same text, quirks included;
`Said.success` is never True for a reply that says no in other letters (`UNSUCCESSFUL`, `NOT  SUCCESS`), and None where
the reply holds no verdict word of its protocol. Never asks a model, never touches a file.
"""

import re
from dataclasses import dataclass
from typing import Any

from rmsweb.errors import DataError

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
