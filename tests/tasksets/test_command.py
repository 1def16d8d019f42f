"""What `rmsweb tasks` prints."""

import json
from datetime import date
from pathlib import Path

import pytest

from rmsweb.errors import ConfigError, DataError
from rmsweb.tasksets import goal_hash, load
from rmsweb.tasksets.command import command_check, command_list, command_make

DATA = (Path(__file__).parents[2] / ".." / "shared" / "data").resolve()
GOALS = ["Find a hotel for January 5, 2024.", "Read the news."]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        {"web_name": "Booking", "id": f"Allrecipes--{n}", "ques": goal, "web": "https://b.example/"}
        for n, goal in enumerate(GOALS)
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_the_list_of_what_is_known() -> None:
    said = command_list()
    assert "webvoyager/original " in said and "webvoyager-common-496: 496 ids" in said
    assert next(x for x in said.splitlines() if x.startswith("webvoyager/magnitude")).split()[1:3] == ["590", "none"]


def test_a_folder_is_listed_and_what_is_no_task_file_says_why(file: Path) -> None:
    (file.parent / "notes.json").write_text("{")
    said = command_list(file.parent).splitlines()
    assert said[0].split()[:2] == ["notes.json", "-"] and "is no JSON" in said[0]
    assert said[1].split()[:3] == ["tasks.jsonl", "2", "webvoyager"]
    with pytest.raises(DataError, match="is no JSON"):
        command_list(file.parent / "notes.json")
    empty = file.parent / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="has no file that ends in"):
        command_list(empty)


def test_a_check_names_dates_and_hashes(file: Path) -> None:
    said = command_check([file], today=date(2026, 12, 2))
    assert said.startswith("webvoyager unknown (2 tasks unlike ") and "  Booking 2\n" in said
    assert "dates before 2026-12-02 in 1 task: Allrecipes--0" in said and goal_hash(GOALS[0])[:16] in said
    assert "in no task" in command_check([file], today=date(2023, 1, 1))


def test_several_files_have_to_make_one_set(file: Path) -> None:
    other = file.parent / "other.jsonl"
    row = {"web_name": "A", "id": "A--1", "ques": "Look.", "web": "https://a.example/"}
    other.write_text(json.dumps(row))
    with pytest.raises(ConfigError, match=r"nothing says that these sets of webvoyager are parts of one version"):
        command_check([file, other])
    with pytest.raises(ConfigError, match="2 tasks in more than one of the sets: Allrecipes--0"):
        command_check([file, file])
    own = {"suite": "mine", "site": "", "template": "", "split": "exam", "start_url": "https://a.example/"}
    parts = [file.parent / "one.jsonl", file.parent / "two.jsonl"]
    for part in parts:
        part.write_text(json.dumps(own | {"id": part.stem, "goal": "Look."}))
    said = command_check(parts).splitlines()
    assert said[0] == f"{parts[0]}:" and said[-1].startswith("together: file own: 2 tasks, ids ")
    with pytest.raises(ConfigError, match="webvoyager and file are scored apart"):
        command_check([file, parts[0]])


def test_days_that_come_again_are_counted(file: Path) -> None:
    file.write_text(file.read_text().replace("January 5, 2024", "January 5"))
    said = command_check([file])
    assert "in no task" in said and "another date at each run, in 1 task: Allrecipes--0" in said


def test_stale_reference_answers_are_named(file: Path) -> None:
    assert "reference answers" not in command_check([file])
    answers = [{"id": n, "type": "golden", "ans": "x"} for n in range(2)]
    given = file.parent / "given.json"
    given.write_text(json.dumps({"Allrecipes": {"notice": "", "answers": answers}}))
    stale = "for 2 of 2 tasks (2 golden, 0 possible); 2 answer another text than the task's (stale): Allrecipes--0, "
    assert stale in command_check([file], references=given)
    given.rename(file.parent / "reference_answer.json")
    assert stale in command_check([file])


def test_a_patched_set_and_the_tasks_of_a_list(file: Path) -> None:
    entry = {"id": "Allrecipes--0", "prev_sha": goal_hash(GOALS[0]), "remove": True, "reason": "passed"}
    patches = file.parent / "p.json"
    patches.write_text(json.dumps([entry | {"source": "own", "date": "2026-12-02"}]))
    out = file.parent / "new" / "out.jsonl"
    said = command_make(file, out, patches=patches)
    assert "excluded: 1 task\n    passed (own, 2026-12-02): Allrecipes--0" in said and "+patch:" in said
    assert [task.id for task in load(out).tasks] == ["Allrecipes--1"]
    assert f"sha256 {load(out).sha256[:16]}" in said and load(file).sha256[:16] not in said
    assert said.splitlines()[1] == command_check([out]).splitlines()[0]
    listed = command_make(file, file.parent / "list.jsonl", ids="webvoyager-common-496")
    assert "webvoyager-common-496 of unknown" in listed and "494 of the 496 tasks" in listed
    with pytest.raises(ConfigError, match="is a list of webtailbench"):
        command_make(file, file.parent / "no.jsonl", ids="webtailbench-common-486")
    with pytest.raises(ConfigError, match="no list of ids is called 'mine'"):
        command_make(file, file.parent / "no.jsonl", ids="mine")


def test_the_public_folder() -> None:
    if not DATA.is_dir():
        pytest.skip(f"../shared/data is absent: {DATA}")
    said = command_list(DATA / "webvoyager")
    for name, version in (("fara-595.jsonl", "fara-2025-08"), ("original-643.jsonl", "original")):
        assert any(line.split()[0] == name and line.split()[3] == version for line in said.splitlines())
