import hashlib
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from foreign import DATA, facts, imported, put, real, trajectories
from hypothesis import given, settings
from made import build, episodes, run_with
from specimens import picture

from rmsweb import exams
from rmsweb.actions import Answer, GoBack, Wait
from rmsweb.bench import compare, reading
from rmsweb.bench.formats import export_runs, import_runs
from rmsweb.bench.formats import webvoyager as layout
from rmsweb.bench.judges.webvoyager_parse import read_interact_messages
from rmsweb.bench.layout import stages_in
from rmsweb.config import Config
from rmsweb.errors import DataError
from rmsweb.records import Stop
from rmsweb.store import Images

OBSERVED = "Observation: a picture"


def folder_of(root: Path, replies: list[str], *, name: str = "taskBBC News--3", shots: int | None = None) -> Path:
    """A result folder; the task stands before the first reply, an observation before every other."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "be a robot"}]
    for number, reply in enumerate(replies):
        asked = (
            OBSERVED
            if number
            else "Now given a task: read it  Please interact with https://bbc.com/ and get the answer."
        )
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": reply}]
    put(root / name / "interact_messages.json", messages)
    for number in range(1, (len(replies) if shots is None else shots) + 1):
        put(root / name / f"screenshot{number}.png", picture(f"{number}"))
    return root / name


def test_the_real_runs(tmp_path: Path) -> None:
    import_runs("webvoyager", real("webvoyager"), tmp_path / "run")
    recipes, papers = trajectories(tmp_path / "run")
    assert (recipes.task.id, papers.task.id) == ("Allrecipes--4", "ArXiv--11")
    for found, count, site in ((recipes, 6, "https://www.allrecipes.com/"), (papers, 7, "https://arxiv.org/")):
        acts = reading.acts(found)
        assert len(acts) == count and [a.final for a in acts] == [False] * (count - 1) + [True]
        assert [n for n, _ in reading.decided_on(found)] == list(range(1, count + 1))
        assert [sha for _, sha in reading.decided_on(found)] == [a.before for a in acts]
        assert found.task.start_url == site and found.viewport == (1024, 768) and found.stop is Stop.ANSWERED
        assert all(a.thought for a in acts) and "notes" not in facts(found)
    assert [a.line for a in reading.acts(papers)][:3] == ["Click [5]", "Click [8]", "Click [9]"]


def test_a_folder_name_with_blanks_and_two_digit_numbers(tmp_path: Path) -> None:
    folder_of(tmp_path / "in", ["Thought: t\n\nAction: Click [1]"] * 11 + ["Thought: t\n\nAction: ANSWER; x"])
    found = imported("auto", tmp_path / "in", tmp_path / "run")
    assert found.task.id == "BBC News--3" and found.task.site == "BBC News"
    assert [n for n, _ in reading.screenshots(found)] == list(range(1, 13))


@pytest.mark.parametrize(
    ("last", "answer", "whole"),
    [
        ("Action: ANSWER; [a long [way]] off", "a long [way", "[a long [way]] off"),
        ("Action: ANSWER; plain", "plain", None),
        ("Action: ANSWER", None, ""),
        ("Action: Click [3]", None, None),
        ("Answer: yes", None, None),
    ],
)
def test_the_answer_is_what_upstreams_script_reads(
    tmp_path: Path, last: str, answer: str | None, whole: str | None
) -> None:
    folder_of(tmp_path / "in", ["Thought: a\n\nAction: Wait", f"Thought: b\n\n{last}"])
    found = imported("webvoyager", tmp_path / "in", tmp_path / "run")
    assert found.answer == answer and facts(found).get("whole_answer") == whole
    assert found.stop is (Stop.DONE if answer is None else Stop.ANSWERED)
    assert isinstance(found.steps[-1].decision.action, Answer) == (answer is not None)


def test_actions_without_a_label_map_and_others_are_lines(tmp_path: Path) -> None:
    replies = [f"Thought: t\n\nAction: {a}" for a in ("Wait", "GoBack", "Type [3]; a mug", "Scroll [WINDOW]; down")]
    found = imported("webvoyager", folder_of(tmp_path / "in", replies).parent, tmp_path / "run")
    assert [s.decision.action for s in found.steps] == [Wait(seconds=5), GoBack(), None, None]
    assert [s.decision.intent for s in found.steps] == ["", "", "Type [3]; a mug", "Scroll [WINDOW]; down"]


def test_a_refused_reply_takes_no_picture_and_a_lost_one_is_missing(tmp_path: Path) -> None:
    replies = ["no action at all", "Thought: t\n\nAction: Click [1]", "Thought: t\n\nAction: Click [2]"]
    folder = folder_of(tmp_path / "in", replies)
    messages = json.loads((folder / "interact_messages.json").read_text())
    messages[3]["content"] = "Format ERROR: Both 'Thought' and 'Action' should be included in your reply."
    put(folder / "interact_messages.json", messages)
    (folder / "screenshot2.png").unlink()
    found = imported("webvoyager", tmp_path / "in", tmp_path / "run")
    assert [n for n, _ in reading.screenshots(found)] == [1, 3] and "notes" not in facts(found)
    assert found.steps[1].before.image == found.steps[0].before.image
    (folder / "screenshot3.png").unlink()
    lost = imported("webvoyager", tmp_path / "in", tmp_path / "again")
    assert [(n, bool(sha)) for n, sha in reading.screenshots(lost)] == [(1, True), (3, False)]
    assert "screenshots 3 are missing" in facts(lost)["notes"]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ({"a": 1}, "holds an object"),
        ([], "transcript is empty"),
        (["x"], "no object with a role"),
        ([{"role": "system", "content": 3}], "neither text nor a list"),
        ([{"role": "system", "content": "x"}], "no task text"),
        ("not json", "not JSON"),
    ],
)
def test_bad_transcripts_are_named(tmp_path: Path, messages: Any, message: str) -> None:
    put(tmp_path / "in" / "taskA--1" / "interact_messages.json", messages)
    with pytest.raises(DataError, match=message):
        import_runs("webvoyager", tmp_path / "in", tmp_path / "run")


def test_a_task_in_several_lines_is_read_and_noted(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in", ["Thought: t\n\nAction: ANSWER; x"])
    text = (folder / "interact_messages.json").read_text().replace("read it", "read\\nit")
    put(folder / "interact_messages.json", text)
    found = imported("webvoyager", tmp_path / "in", tmp_path / "run")
    assert found.task.goal == "read it" and found.answer == "x"
    assert "upstream's script would stop here" in facts(found)["notes"][0]


def test_pictures_far_beyond_the_replies_only_order(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in", ["Thought: t\n\nAction: Click [1]"], shots=0)
    put(folder / "screenshot17000000000.png", picture("a"))
    found = imported("webvoyager", tmp_path / "in", tmp_path / "run")
    assert [(n, bool(sha)) for n, sha in reading.screenshots(found)] == [(1, False), (17000000000, True)]


def upstream(folder: Path) -> tuple[str, str | None, list[int]]:
    """Task, answer and screenshot numbers as MinorJerry/WebVoyager's evaluator takes them out of a folder."""
    messages = json.loads((folder / "interact_messages.json").read_text(encoding="utf-8"))
    said = read_interact_messages(messages)
    assert said.found != "unreadable_answer"
    numbers = [int(m.group(1)) for p in folder.iterdir() if (m := re.search(r"screenshot(\d+)\.png", p.name))]
    return said.task, said.answer, sorted(numbers)


def plain(text: str) -> str:
    return " ".join(text.split())


def held(text: str) -> str:
    """A thought or line as the format holds it."""
    return re.sub(r"ANSWER(?=[; ])", "Answer", text).replace("Action: ANSWER", "Action: Answer")


@settings(max_examples=40, deadline=None)
@given(episodes())
def test_round_trip_and_what_upstream_reads(made: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        run, (given_,) = run_with(Path(temporary) / "run", [made])
        summary = export_runs("webvoyager", run, Path(temporary) / "out")
        (folder,) = [p for p in (Path(temporary) / "out").iterdir() if p.is_dir()]
        task, answer, numbers = upstream(folder)
        acts = reading.acts(given_)
        goal = plain(given_.task.goal).replace("Please interact with", "Please-interact with")
        goal = goal if acts else held(goal)
        assert task == goal
        wanted = (given_.answer or "").strip("; \t\n\r") or None
        if wanted and ("]" in wanted or wanted.startswith("[")):
            wanted = wanted.replace("[", "(").replace("]", ")")
            assert any("cuts it" in note for note in summary["changed"][given_.id])
        assert answer == (wanted.strip() if wanted else None)
        back = imported("webvoyager", Path(temporary) / "out", Path(temporary) / "back")
        assert (back.task.id, back.task.goal, back.answer, back.task.start_url) == (
            given_.task.id,
            goal,
            answer,
            given_.task.start_url,
        )
        new = reading.acts(back)
        old = [a for a in acts if not (a.final and answer is None)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert [a.thought for a in new[: len(old)]] == [held(a.thought.strip()) for a in old]
        assert [a.line for a in new if not a.final] == [
            held(f"Action: {plain(a.line)}")[8:] for a in acts if not (a.final and answer is not None)
        ]
        assert [a.before for a in new[: len(old)]] == [a.before for a in old]


def test_an_answer_in_the_thought_is_not_taken_for_the_answer(tmp_path: Path) -> None:
    images = Images(tmp_path / "images")
    made = {
        "task_id": "t",
        "goal": "g",
        "moves": [],
        "faults": set(),
        "end": "answer",
        "last": ("42", "the ANSWER; is 41"),
    }
    notes = layout.write(build(images, made), images, tmp_path)
    assert upstream(tmp_path)[1] == "42" and "upstream's script would take it" in notes[0]


def test_an_answer_that_is_no_act_is_written_and_said(tmp_path: Path) -> None:
    images = Images(tmp_path / "images")
    made = {"task_id": "t", "goal": "g", "moves": [], "faults": set(), "end": "answer", "last": ("x", "")}
    answered = build(images, made)
    last = answered.steps[-1].model_copy(
        update={"decision": answered.steps[-1].decision.model_copy(update={"action": Wait(), "intent": "wait"})}
    )
    other = answered.model_copy(update={"steps": (*answered.steps[:-1], last), "answer": "42"})
    notes = layout.write(other, images, tmp_path)
    assert upstream(tmp_path)[1] == "42" and "no act of its own" in notes[-1]


def test_scores_of_an_import_name_the_task_file_that_was_given(tmp_path: Path) -> None:
    file = DATA / "webvoyager" / "original-643.jsonl"
    exams.import_runs(real("webvoyager"), "auto", tmp_path / "run", file, "m", "", Config())
    (asked,) = json.loads((tmp_path / "run" / "exam.json").read_text()).values()
    assert (asked["version"], asked["task_file"], asked["tasks_of"]) == (
        "original",
        hashlib.sha256(file.read_bytes()).hexdigest()[:16],
        643,
    )
    (group,) = compare.examined(stages_in({"m": tmp_path / "run"})).groups
    assert "643 tasks of webvoyager original (ids 731c8013764a75cf" in group.numbers()["what"][0]
