import os
import shutil
from pathlib import Path

import pytest
from foreign import facts, jpeg, om2w, put, run_of, trajectories
from specimens import picture

from rmsweb.bench.formats import FORMATS, import_runs, names
from rmsweb.bench.formats.registry import find
from rmsweb.bench.setting import Asked, read_asked
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.records import Task, Verdict
from rmsweb.store import Run


def task(id: str, goal: str = "buy a mug") -> Task:
    return Task(id=id, suite="om2w", site="shop", template="t", split="exam", goal=goal, meta={"level": "easy"})


def test_names() -> None:
    read_only = ["molmoweb", "browser_use", "agentlab", "magnitude", "bu_bench"]
    assert names() == list(FORMATS) and set(FORMATS) == {"om2w", "om2w_v2", "webvoyager", "fara", *read_only}
    assert names(writable=True) == ["om2w", "om2w_v2", "webvoyager", "fara", "chat"]


def test_auto_refuses_a_mixture_and_names_it(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "a")
    put(tmp_path / "in" / "b" / "summary_info.json", {})
    with pytest.raises(ConfigError, match="holds om2w and agentlab"):
        import_runs("auto", tmp_path / "in", tmp_path / "run")
    assert find("om2w", tmp_path / "in") == ("om2w", [tmp_path / "in" / "a"])


def test_nothing_to_import_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(DataError, match="no attempt of any known format"):
        import_runs("auto", tmp_path / "in", tmp_path / "run")
    with pytest.raises(DataError, match="no attempt of the format fara"):
        import_runs("fara", tmp_path / "in", tmp_path / "run")
    with pytest.raises(ConfigError, match="is no folder"):
        import_runs("fara", tmp_path / "gone", tmp_path / "run")
    with pytest.raises(ConfigError, match="'har' cannot be read; choose auto, om2w"):
        import_runs("har", tmp_path / "in", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_odd_attempt_never_ends_the_rest_and_the_same_command_goes_on(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        om2w(tmp_path / "in" / name)
    put(tmp_path / "in" / "b" / "result.json", "{")
    first = import_runs("om2w", tmp_path / "in", tmp_path / "run", model="m")
    assert first["trajectories"] == 2 and first["skipped"][0]["path"] == "b"
    om2w(tmp_path / "in" / "b")
    second = import_runs("om2w", tmp_path / "in", tmp_path / "run", model="m")
    assert second["trajectories"] == 3 and second["skipped"] == []
    assert [t.id for t in trajectories(tmp_path / "run")] == ["m/a#0", "m/c#0", "m/b#0"]
    assert import_runs("om2w", tmp_path / "in", tmp_path / "run", model="m") == second
    assert (tmp_path / "run" / "trajectories.jsonl").read_bytes().count(b"\n") == 3
    assert run_of(tmp_path / "run").manifest["status"] == "finished"


def test_a_torn_line_is_read_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        om2w(tmp_path / "in" / name)
    import_runs("om2w", tmp_path / "in", tmp_path / "run")
    records = tmp_path / "run" / "trajectories.jsonl"
    records.write_bytes(records.read_bytes()[:-30])
    import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert [t.task.id for t in trajectories(tmp_path / "run")] == ["a", "b"]


def test_a_task_file_that_no_attempt_belongs_to_is_refused(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "t1")
    other = Task(id="other", suite="s", site="s", template="t", split="exam", goal="g")
    with pytest.raises(DataError, match=r"none of 1 attempts is at a task of the given file: .*'t1', .*'other'"):
        import_runs("auto", tmp_path / "in", tmp_path / "run", tasks=[other])


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "t1")
    for name in ("t2/result.json", "x.json", "t2/web_surfer.log"):
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / "in" / name)
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert summary["trajectories"] == 1


def test_several_attempts_of_a_task_are_numbered(tmp_path: Path) -> None:
    for run in ("run1", "run2"):
        om2w(tmp_path / "in" / run / "t", thoughts=["open it", run])
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert (summary["trajectories"], summary["tasks"]) == (2, 1)
    assert [(t.id, facts(t)["path"]) for t in trajectories(tmp_path / "run")] == [("t#0", "run1/t"), ("t#1", "run2/t")]


def test_a_copy_of_an_attempt_is_named_and_is_no_run(tmp_path: Path) -> None:
    first = om2w(tmp_path / "in" / "run1" / "t")
    shutil.copytree(first, tmp_path / "in" / "run1 (copy)" / "t")
    om2w(tmp_path / "in" / "run2" / "t", action_history=["<a> -> CLICK", "<input> -> TYPE: cup"])
    om2w(tmp_path / "in" / "run3" / "t", shots=["0_screenshot.png", "1_screenshot.png", "3_screenshot.png"])
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert summary["copies"] == [{"path": "run1 (copy)/t", "of": "run1/t", "trajectory": "t#0"}]
    assert [t.id for t in trajectories(tmp_path / "run")] == ["t#0", "t#1", "t#2"]
    assert import_runs("om2w", tmp_path / "in", tmp_path / "run") == summary, "and the same when it goes on"


def test_what_stores_too_little_is_never_a_copy_and_another_task_id_is_asked_about(tmp_path: Path) -> None:
    for run in ("run1", "run2"):
        om2w(tmp_path / "in" / run / "t", shots=[], action_history=[], thoughts=[], final_result_response="")
    om2w(tmp_path / "in" / "x")
    om2w(tmp_path / "in" / "y")
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert summary["copies"] == [] and summary["trajectories"] == 4
    assert summary["notes"]["y#0"] == ["the same goal, acts and pages as x#0: is it a copy under another task id?"]


def test_runs_of_which_an_answer_is_all_that_is_stored_stay_runs(tmp_path: Path) -> None:
    bare = {"shots": [], "action_history": "left out", "thoughts": "left out"}
    for run, score, why in (("run1", 100, "yes"), ("run2", 0, "no"), ("run3", 0, "not at all"), ("run4", 0, "no")):
        for name in "ab":
            om2w(tmp_path / "in" / run / name, **bare, judge={"score": score, "reasoning": why})
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert (summary["trajectories"], summary["copies"]) == (8, [])
    assert [v.success for v in run_of(tmp_path / "run").read("verdict", Verdict)] == [True] * 2 + [False] * 6
    doubt = "equal to a#1 in the little that is stored of both: a copy cannot be told from another run, and it counts"
    assert summary["notes"]["a#3"][-1].startswith(doubt) and len(summary["notes"]["a#2"]) == 1
    assert (summary["steps"], summary["steps_unknown"]) == (0, 8)
    assert summary["runs_in_folders"].startswith(
        "2 tasks with attempts in several folders (run1, run2, run3, run4): counted as runs of one policy"
    )
    assert import_runs("om2w", tmp_path / "in", tmp_path / "run") == summary
    assert import_runs("om2w", tmp_path / "in", tmp_path / "named", model="m")["runs_in_folders"] == ""


def test_what_two_real_runs_would_not_share(tmp_path: Path) -> None:
    """Acts with times, or times with tokens, or a picture: copies. Acts alone or times alone: runs."""
    for copy in ("x", "y"):
        for name, fields in {
            "acts": {"time": 0, "totalInputTokens": 0, "totalOutputTokens": 0},
            "timed": {"time": 7},
            "used": {"memory": None},
            "nothing": {"memory": None, "totalInputTokens": 0, "totalOutputTokens": 0},
        }.items():
            took = [{"source": "action:taken:wait", "data": {"type": "primitive", "content": '{"seconds": 1}'}}]
            totals = {"time": 90_500, "actionCount": 1, "totalInputTokens": 7, "totalOutputTokens": 3}
            put(tmp_path / "in" / copy / f"{name}.json", {**totals, "memory": {"observations": took}, **fields})
    tasks = [task(name) for name in ("acts", "timed", "used", "nothing")]
    summary = import_runs("magnitude", tmp_path / "in", tmp_path / "run", tasks=tasks)
    assert [one["of"] for one in summary["copies"]] == ["x/timed.json", "x/used.json"]


def test_a_task_set_is_what_was_asked_for_unless_the_attempts_are_a_part_of_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        om2w(tmp_path / "in" / name)
    tasks = [task(name) for name in ("a", "b", "c")]
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run", tasks=tasks, model="m")
    assert summary["missing"] == {"m": 1}
    (asked,) = read_asked(run_of(tmp_path / "run")).items()
    assert asked == ("om2w", Asked(tasks=tuple(tasks)))
    part = import_runs("om2w", tmp_path / "in", tmp_path / "part", tasks=tasks, model="m", part=True)
    assert "missing" not in part and read_asked(run_of(tmp_path / "part")) == {}
    with pytest.raises(RunError, match="holds another import"):
        import_runs("om2w", tmp_path / "in", tmp_path / "part", tasks=tasks, model="m")
    om2w(tmp_path / "in" / "c")
    assert import_runs("om2w", tmp_path / "in", tmp_path / "run", tasks=tasks, model="m")["missing"] == {}


def test_another_import_into_the_same_run_is_refused(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "a")
    om2w(tmp_path / "other" / "a")
    import_runs("om2w", tmp_path / "in", tmp_path / "run", model="m")
    for folder, model in (("other", "m"), ("in", "n")):
        with pytest.raises(RunError, match="holds another import"):
            import_runs("om2w", tmp_path / folder, tmp_path / "run", model=model)


def test_the_task_set_is_joined_by_id_and_a_differing_text_is_named(tmp_path: Path) -> None:
    for name in ("same", "other", "unknown"):
        om2w(tmp_path / "in" / name)
    tasks = [task("same", "buy  a\nmug"), task("other", "sell a mug"), task("unused")]
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run", tasks=tasks)
    assert summary["task_set"] == {"joined": ["same"], "unknown": ["unknown"], "other_goal": ["other"]}
    found = {t.task.id: t.task for t in trajectories(tmp_path / "run")}
    assert found["same"] == tasks[0] and found["other"].goal == "buy a mug"
    assert (found["other"].suite, found["unknown"].suite, found["unknown"].split) == ("imported", "imported", "exam")
    again = import_runs("om2w", tmp_path / "in", tmp_path / "run", tasks=tasks)
    assert again["task_set"] == summary["task_set"]


def test_tasks_belong_to_the_import(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "a")
    import_runs("om2w", tmp_path / "in", tmp_path / "run")
    with pytest.raises(RunError, match="made without --tasks; choose another -o"):
        import_runs("om2w", tmp_path / "in", tmp_path / "run", tasks=[task("a")])
    import_runs("om2w", tmp_path / "in", tmp_path / "joined", tasks=[task("a")])
    for tasks in ([], [task("a", "other")]):
        with pytest.raises(RunError, match="joined with other tasks"):
            import_runs("om2w", tmp_path / "in", tmp_path / "joined", tasks=tasks)
    assert import_runs("om2w", tmp_path / "in", tmp_path / "joined", tasks=[task("a")])["task_set"]["joined"] == ["a"]


def test_the_run_is_one_like_any_other(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "a")
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    run = Run.read_only(tmp_path / "run")
    assert run.manifest["verb"] == "import" and run.manifest["counts"] == {
        "trajectories": 1, "verdicts": 0, "imported_verdicts": 0, "skipped": 0,
    }  # fmt: skip
    assert summary["pictures"] == len(run.images) == 3 and summary["missing_pictures"] == 0
    (found,) = trajectories(tmp_path / "run")
    for sha in (found.steps[0].before.image, found.steps[-1].after.image):
        assert run.images[sha].startswith(b"\x89PNG")


def test_a_folder_that_is_itself_a_link_or_deep_is_found(tmp_path: Path) -> None:
    om2w(tmp_path / "real" / "a" / "b" / "c" / "t")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert import_runs("auto", tmp_path / "link", tmp_path / "run")["trajectories"] == 1
    assert import_runs("auto", tmp_path / "real" / "a" / "b" / "c" / "t", tmp_path / "one")["trajectories"] == 1


def test_odd_folder_names_do_no_harm(tmp_path: Path) -> None:
    for name in (" ", "ü é", "a\nb", "#1", "%2e%2e"):
        om2w(tmp_path / "in" / name, task_id=None)
    put(tmp_path / "in" / ".hidden" / "result.json", "{")
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert summary["trajectories"] == 4 and "no task id" in summary["skipped"][0]["reason"]


def test_file_names_that_are_no_utf8(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "a")
    for name in (b"\xffgood", b"\xffbad"):
        om2w(Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/" + name)), task_id=None if b"good" in name else 3)
    put(Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/\xffgood/trajectory/4_\xff.jpg")), jpeg("x"))
    strange = os.fsencode(tmp_path / "in" / "a" / "trajectory") + b"/3_\xff.png"
    with open(strange, "wb") as file:
        file.write(picture("x"))
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert summary["trajectories"] == 2 and summary["pictures"] == 5 and summary["converted_pictures"] == 1
    assert [t.task.id for t in trajectories(tmp_path / "run")] == ["a", "?good"]
    assert [one["path"] for one in summary["skipped"]] == ["?bad"]
