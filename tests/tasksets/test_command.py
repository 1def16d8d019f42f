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
    said = command_check(file, today=date(2026, 12, 2))
    assert said.startswith("webvoyager unknown (2 tasks unlike ") and "  Booking 2\n" in said
    assert "dates before 2026-12-02 in 1 task: Allrecipes--0" in said and goal_hash(GOALS[0])[:16] in said
    assert "in no task" in command_check(file, today=date(2023, 1, 1))


def test_a_patched_set_and_the_tasks_of_a_list(file: Path) -> None:
    entry = {"id": "Allrecipes--0", "prev_sha": goal_hash(GOALS[0]), "remove": True, "reason": "passed"}
    patches = file.parent / "p.json"
    patches.write_text(json.dumps([entry | {"source": "own", "date": "2026-12-02"}]))
    out = file.parent / "new" / "out.jsonl"
    said = command_make(file, out, patches=patches)
    assert "excluded: 1 task\n    passed (own, 2026-12-02): Allrecipes--0" in said and "+patch:" in said
    assert [task.id for task in load(out).tasks] == ["Allrecipes--1"]
    assert f"sha256 {load(out).sha256[:16]}" in said and load(file).sha256[:16] not in said
    assert said.splitlines()[1] == command_check(out).splitlines()[0]
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
