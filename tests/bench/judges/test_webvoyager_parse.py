"""Transcripts and replies of the WebVoyager family: every edge of the upstream readers (WV-2, S36, S38, S41)."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmsweb.bench.judges.webvoyager_parse import Interact, answer_in, read_interact_messages
from rmsweb.errors import DataError

RUNS = Path(__file__).parents[3] / ".." / "shared" / "data" / "trajectories" / "webvoyager"


def transcript(last: Any, *, task: str = "find the red mug") -> list[dict[str, Any]]:
    opening = f"Now given a task: {task}  Please interact with https://shop.example/ and get the answer."
    return [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": opening},
        {"role": "assistant", "content": "Thought: look.\n\nAction: Click [2]"},
        {"role": "assistant", "content": last},
    ]


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        ("Thought: seen.\n\nAction: ANSWER; The mug costs 4 dollars.", "The mug costs 4 dollars."),
        ("Action: ANSWER; [4 dollars]", "4 dollars"),
        ("Action: ANSWER [4 dollars]", "4 dollars"),
        ("Action: ANSWER; the [first] one", "the [first"),
        ("Action: ANSWER; [[a] and b]", "[a"),
        ("Action: ANSWER; two\nlines] and a rest", "two\nlines"),
        ("Thought: I can ANSWER; now.\nAction: ANSWER; 7", "now.\nAction: ANSWER; 7"),
        ("Action: ANSWER; []", "]"),
        ("Action: ANSWER; ", ""),
    ],
)
def test_the_answer_ends_at_the_first_closing_bracket(last: str, answer: str) -> None:
    assert read_interact_messages(transcript(last)) == Interact("find the red mug", answer, "answer")


@pytest.mark.parametrize(
    "last",
    [
        "Thought: done.\nAction: Click [3]",
        "ANSWER; 4 dollars",
        "Action:  ANSWER; two blanks",
        "action: answer; 4",
        "",
        [{"type": "text", "text": "Action: ANSWER; in a list"}],
        None,
    ],
)
def test_a_last_message_without_the_answer_action_has_none(last: Any) -> None:
    assert read_interact_messages(transcript(last)) == Interact("find the red mug", None, "no_answer")


def test_an_answer_that_the_script_cannot_read_is_named() -> None:
    assert read_interact_messages(transcript("Action: ANSWER: 4")).found == "unreadable_answer"
    assert answer_in("Action: ANSWER;") is None


def test_only_the_last_message_is_looked_at() -> None:
    messages = [*transcript("Action: ANSWER; 4"), {"role": "user", "content": "Observation: a picture"}]
    assert read_interact_messages(messages).answer is None


def test_a_transcript_of_the_system_message_alone_has_no_answer() -> None:
    assert read_interact_messages([{"role": "system", "content": "rules"}]) == Interact("", None, "only_system")


def test_the_task_stands_between_two_marks_in_text_or_in_the_first_part() -> None:
    messages = transcript("Action: ANSWER; 4", task="  a Please and thank you ")
    assert read_interact_messages(messages).task == "a Please and thank you"
    messages[1]["content"] = [{"type": "text", "text": messages[1]["content"]}, {"type": "image_url"}]
    assert read_interact_messages(messages).task == "a Please and thank you"


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "not a list of messages"),
        ({}, "not a list of messages"),
        (None, "not a list of messages"),
        ([{"role": "system", "content": "x"}, "text"], "second message has no content"),
        ([{"role": "system", "content": "x"}, {"role": "user"}], "second message has no content"),
        ([{"role": "system", "content": "x"}, {"role": "user", "content": "hello"}], "no task between"),
        ([{"role": "system", "content": "x"}, {"role": "user", "content": None}], "no task between"),
        ([{"role": "system", "content": "x"}, {"role": "user", "content": []}], "no task between"),
        ([{"role": "system", "content": "x"}, {"role": "user", "content": [{"text": 3}]}], "no task between"),
        (transcript("Action: ANSWER; 4", task="two\nlines"), "no task between"),
        ([*transcript("x"), 7], "last message has no content"),
    ],
)
def test_what_the_script_would_stop_at_is_an_error_with_a_reason(messages: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_interact_messages(messages)


@pytest.mark.parametrize(("name", "messages", "length"), [("Allrecipes--4", 13, 119), ("ArXiv--11", 15, 14)])
def test_the_two_real_transcripts(name: str, messages: int, length: int) -> None:
    path = RUNS / f"task{name}" / "interact_messages.json"
    if not path.exists():
        pytest.skip("../shared/data is absent: the real WebVoyager runs cannot be read")
    stored = json.loads(path.read_text(encoding="utf-8"))
    said = read_interact_messages(stored)
    assert len(stored) == messages and said.found == "answer"
    assert said.task.endswith(".") and not said.task.startswith("Now")
    assert said.answer is not None and len(said.answer) == length
