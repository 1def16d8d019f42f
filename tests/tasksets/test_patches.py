"""Date patches: applied with their provenance, refused for another text."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmsweb.errors import ConfigError, DataError
from rmsweb.tasksets import TaskSet, apply_patches, goal_hash, load, save, together

OLD = "Book a hotel in Paris for January 5, 2024."


def taskset(tmp_path: Path) -> TaskSet:
    rows = [
        {
            "web_name": "Booking",
            "id": f"Booking--{n}",
            "ques": OLD if n == 1 else f"Task {n}.",
            "web": "https://b.example/",
        }
        for n in range(3)
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load(path)


def entry(**changes: Any) -> dict[str, Any]:
    base = {
        "id": "Booking--1",
        "prev_sha": goal_hash(OLD)[:16],
        "new": OLD.replace("2024", "2027"),
        "reason": "the date has passed",
        "source": "own work",
        "date": "2026-12-02",
    }
    return {k: v for k, v in (base | changes).items() if v is not ...}


def patch_file(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "patches.json"
    path.write_text(json.dumps(value))
    return path


def test_a_patch_rewords_and_says_so(tmp_path: Path) -> None:
    before = taskset(tmp_path)
    removal = entry(id="Booking--2", prev_sha=goal_hash("Task 2."), new=..., remove=True, reason="cannot be done")
    after = apply_patches(before, patch_file(tmp_path, {"name": "x", "patches": [entry(), removal]}))
    assert [t.goal for t in after.tasks] == ["Task 0.", OLD.replace("2024", "2027")]
    assert after.version.startswith(f"{before.version}+patch:")
    assert (after.ids_hash, after.text_hash) != (before.ids_hash, before.text_hash) and after.sha256 == before.sha256
    assert after.excluded == {"Booking--2": "cannot be done (own work, 2026-12-02)"}
    assert after.notes[-1].startswith("1 task reworded and 1 removed by patches.json (sha256 ")
    assert after.tasks[1].meta["patched"] == {
        "prev_sha": goal_hash(OLD)[:16],
        "reason": "the date has passed",
        "source": "own work",
        "date": "2026-12-02",
    }
    assert before.tasks[1].goal == OLD
    with pytest.raises(ConfigError, match="two versions of webvoyager"):
        together([before, after])
    save(after, tmp_path / "patched.jsonl")
    assert load(tmp_path / "patched.jsonl").tasks == after.tasks


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([entry(prev_sha=goal_hash("another text"))], r"entry 1, Booking--1: the patch is for a text with hash"),
        ([entry(id="Booking--9")], "no such task in webvoyager"),
        ([entry(), entry()], "entry 2: Booking--1 is patched twice"),
        ([entry(new=OLD)], "`new` is the text that it replaces"),
        ([entry(remove=True)], "give either `new` or"),
        ([entry(new=...)], "give either `new` or"),
        ([entry(new=" ")], "new has to be a text"),
        ([entry(prev_sha="xyz")], "8 to 64 hex digits"),
        ([entry(date="tomorrow")], "date has to be YYYY-MM-DD"),
        ([entry(date="20261202")], "date has to be YYYY-MM-DD"),
        ([entry(date="2026-W49-3")], "date has to be YYYY-MM-DD"),
        ([entry(source="")], "source has to be a text"),
        ([entry(reason=...)], "reason has to be a text"),
        ([None], "entry 1: has to be an object"),
        ([], "is no patch file"),
        ({"patches": None}, "is no patch file"),
        ("text", "is no patch file"),
    ],
)
def test_a_patch_that_is_wrong_or_unfit_is_refused(tmp_path: Path, value: Any, message: str) -> None:
    before = taskset(tmp_path)
    with pytest.raises(DataError, match=message):
        apply_patches(before, patch_file(tmp_path, value))


def test_files_that_are_no_json(tmp_path: Path) -> None:
    before = taskset(tmp_path)
    (tmp_path / "bad.json").write_text('[\n{"id": }]')
    with pytest.raises(DataError, match=r"bad.json:2: is no JSON"):
        apply_patches(before, tmp_path / "bad.json")
    (tmp_path / "twice.json").write_text('[{"id": "Booking--1", "new": "a", "new": "b"}]')
    with pytest.raises(DataError, match=r"twice.json: the field 'new' is there twice"):
        apply_patches(before, tmp_path / "twice.json")
    (tmp_path / "latin.json").write_bytes(b'["\xe9"]')
    with pytest.raises(DataError, match="is not UTF-8"):
        apply_patches(before, tmp_path / "latin.json")
    gone = [
        entry(id=f"Booking--{n}", prev_sha=goal_hash(t.goal), new=..., remove=True) for n, t in enumerate(before.tasks)
    ]
    with pytest.raises(DataError, match="removes every task"):
        apply_patches(before, patch_file(tmp_path, gone))
