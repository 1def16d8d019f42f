import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from foreign import trajectories
from made import run_with
from specimens import eval_run

from rmsweb.bench import reading
from rmsweb.bench.formats import export_runs, import_runs
from rmsweb.config import Config
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.records import Stop, Trajectory, Verdict
from rmsweb.store import Run

WRITABLE = ["om2w", "webvoyager", "fara"]


def made(task_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "goal": "g",
        "moves": [],
        "faults": set(),
        "end": "answer",
        "last": ("42", "t"),
        **fields,
    }


@pytest.mark.parametrize("format", WRITABLE)
def test_an_exam_is_exported_and_read_back(tmp_path: Path, format: str) -> None:
    run = eval_run(tmp_path / "eval", {"sft": 0.5}, count=4)
    summary = export_runs(format, run, tmp_path / "out")
    assert summary["trajectories"] == 4 and summary["roots"] == {".": 4}
    import_runs(format, tmp_path / "out", tmp_path / "back", model="sft")
    old = {t.task.goal: t for t in Run.read_only(run).read("trajectory", Trajectory)}
    new = {t.task.goal: t for t in trajectories(tmp_path / "back")}
    assert set(new) == set(old)
    for goal, back in new.items():
        lines = [a.line for a in reading.acts(old[goal]) if not a.final]
        kept = [" ".join(line.partition(" on ")[0].split()) for line in lines]
        assert [" ".join(a.line.partition(" on ")[0].split()) for a in reading.acts(back) if not a.final] == kept
        assert [a.before for a in reading.acts(back)][: len(lines)] == [a.before for a in reading.acts(old[goal])][
            : len(lines)
        ]
        # A step limit with an answer beside it: only a reply that answers is an answer to WebVoyager's script.
        assert back.answer == old[goal].answer or format == "webvoyager"


@pytest.mark.parametrize("format", WRITABLE)
def test_no_task_id_leaves_the_folder(tmp_path: Path, format: str) -> None:
    ids = ["../../up", "/abs", "a/b/c", "..", "x" * 300, "nul\0l", "a b", ".hidden", "é" * 200]
    run, _ = run_with(tmp_path / "run", [made(i) for i in ids])
    before = {p for p in tmp_path.rglob("*") if "out" not in p.parts}
    export_runs(format, run, tmp_path / "deep" / "er" / "out")
    written = [
        p
        for p in tmp_path.rglob("*")
        if p.is_dir() and list(p.glob("*.json")) and p.name != "out" and "run" not in p.parts
    ]
    root = tmp_path / "deep" / "er" / "out"
    assert len(written) == len(ids) and all(p.is_relative_to(root) for p in written)
    assert {p for p in tmp_path.rglob("*") if "out" not in p.parts} - before == {
        tmp_path / "deep",
        tmp_path / "deep" / "er",
    }
    import_runs(format, root, tmp_path / "back")
    if format != "webvoyager":  # its folder name is the id
        assert {t.task.id for t in trajectories(tmp_path / "back")} == set(ids)


def test_policies_and_attempts_get_roots_of_their_own(tmp_path: Path) -> None:
    run = eval_run(tmp_path / "eval", {"base": 0.1, "sft": 0.6}, count=3)
    summary = export_runs("om2w", run, tmp_path / "out")
    assert summary["roots"] == {"base/run1": 3, "sft/run1": 3}
    only = export_runs("om2w", run, tmp_path / "only", policy="sft")
    assert only["roots"] == {".": 3} and only["trajectories"] == 3
    with pytest.raises(DataError, match="no trajectory of 'other'"):
        export_runs("om2w", run, tmp_path / "none", policy="other")


def test_the_same_command_goes_on_and_foreign_folders_are_left_alone(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path / "run", [made("a"), made("b")])
    first = export_runs("om2w", run, tmp_path / "out")
    (tmp_path / "out" / "b" / "result.json").unlink()
    (tmp_path / "out" / "b" / "trajectory" / "0_screenshot.png").unlink()
    (tmp_path / "out" / "b" / "trajectory").rmdir()
    (tmp_path / "out" / "b").rmdir()
    assert export_runs("om2w", run, tmp_path / "out") == first
    assert (tmp_path / "out" / "b" / "result.json").exists()
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]
    with pytest.raises(RunError, match="holds another export"):
        export_runs("fara", run, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(RunError, match="not made by an export"):
        export_runs("om2w", run, tmp_path / "mine")


def test_a_picture_that_is_not_stored_is_named(tmp_path: Path) -> None:
    run, (found,) = run_with(tmp_path / "run", [made("a")])
    Run.read_only(run).images.path(found.steps[0].before.image).unlink()
    summary = export_runs("om2w", run, tmp_path / "out")
    assert summary["changed"] == {"m/a#0": ["0_screenshot.png is not in the image store"]}


def test_formats_that_are_only_read_and_runs_without_trajectories(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path / "run", [])
    with pytest.raises(ConfigError, match="'molmoweb' cannot be written; choose om2w, om2w_v2, webvoyager, fara, chat"):
        export_runs("molmoweb", run, tmp_path / "out")
    with pytest.raises(DataError, match="no trajectory to export"):
        export_runs("om2w", run, tmp_path / "out")
    with pytest.raises(RunError, match="is no run directory"):
        export_runs("om2w", tmp_path, tmp_path / "out")


@pytest.mark.parametrize("format", WRITABLE)
def test_a_folder_of_another_record_is_written_again(tmp_path: Path, format: str) -> None:
    run, _ = run_with(tmp_path / "run", [made("a"), made("b")])
    first = export_runs(format, run, tmp_path / "out")
    files = {p: p.stat().st_ino for p in (tmp_path / "out").rglob("*") if p.is_file() and p.name != "export.json"}
    assert export_runs(format, run, tmp_path / "out") == first
    assert {p: p.stat().st_ino for p in files} == files, "what is the same is left as it is"
    run.rename(tmp_path / "old")
    run_with(run, [made("a", last=("new answer", "t")), made("b")])
    export_runs(format, run, tmp_path / "out")
    import_runs(format, tmp_path / "out", tmp_path / "back")
    assert {t.task.id: t.answer for t in trajectories(tmp_path / "back")} == {"a": "new answer", "b": "42"}


def test_what_a_killed_export_left_is_removed_and_a_failed_one_claims_nothing(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path / "run", [made("a")])
    with pytest.raises(DataError, match="no trajectory of 'typo'"):
        export_runs("om2w", run, tmp_path / "out", policy="typo")
    assert not (tmp_path / "out").exists()
    export_runs("om2w", run, tmp_path / "out")
    dead = subprocess.Popen(["true"])
    dead.wait()
    for name, pid in ((".b", dead.pid), (".c", os.getppid())):
        (tmp_path / "out" / f"{name}.{pid}.part").mkdir()
    export_runs("om2w", run, tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").glob(".*")] == [f".c.{os.getppid()}.part"]


@pytest.mark.parametrize("format", WRITABLE)
def test_what_the_machine_broke_is_no_submission(tmp_path: Path, format: str) -> None:
    _, found = run_with(tmp_path / "run", [made("a"), made("b", end="none")])
    with Run.open(tmp_path / "second", "eval", Config()) as second:
        second.append("trajectory", found[0])
        second.append("trajectory", found[1].model_copy(update={"stop": Stop.BROWSER_ERROR, "detail": "gone"}))
    summary = export_runs(format, tmp_path / "second", tmp_path / "out")
    assert summary["broken"] == 1
    if format == "fara":
        assert summary["trajectories"] == 2 and summary["left_out"] == {}
        final = json.loads((tmp_path / "out" / "traj" / "b" / "b_final_answer.json").read_text())
        assert final["is_aborted"] is True
    else:
        assert summary["trajectories"] == 1 and summary["left_out"] == {"m/b#0": "browser_error: gone"}
        assert not list((tmp_path / "out").glob("*b"))


@pytest.mark.parametrize("format", [*WRITABLE, "om2w_v2"])
def test_verdicts_that_are_not_written_are_counted_by_judge(tmp_path: Path, format: str) -> None:
    run, found = run_with(tmp_path / "run", [made("a"), made("b"), made("c", end="none")])
    broken = found[2].model_copy(update={"stop": Stop.BROWSER_ERROR, "detail": "gone"})
    with Run.open(tmp_path / "second", "eval", Config()) as second:
        for trajectory in (*found[:2], broken):
            second.append("trajectory", trajectory)
        for ident, judge in (("m/a#0", "one"), ("m/a#0", "one"), ("m/b#0", "one"), ("m/c#0", "two"), ("m/d#0", "two")):
            second.append("verdict", Verdict(success=True, judge=judge, trajectory_id=ident))
        for judge in ("one", "imported:scores/x.json"):
            second.append("imported_verdict", Verdict(success=False, judge=judge, trajectory_id="m/a#0"))
    counts = {"imported:scores/x.json": 1, "one": 2} | ({"two": 1} if format == "fara" else {})
    assert export_runs(format, tmp_path / "second", tmp_path / "out")["verdicts_not_written"] == counts
    back = import_runs(format, tmp_path / "out", tmp_path / "back", model="m")
    assert back["stored_verdicts"] == {}, "what is counted is indeed not there"
    assert export_runs(format, run, tmp_path / "none")["verdicts_not_written"] == {}
