import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from foreign import facts, imported, om2w, put, real, run_of, trajectories, verdicts
from hypothesis import given, settings
from made import episodes, run_with
from specimens import picture

from rmsweb.actions import Answer, Goto, Memorize, Terminate
from rmsweb.bench import reading
from rmsweb.bench.costs import use_of
from rmsweb.bench.formats import export_runs, import_runs
from rmsweb.config import Config
from rmsweb.errors import ConfigError, DataError
from rmsweb.records import Stop, Verdict
from rmsweb.store import Run


def event(action: str | None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "type": "WebSurferEvent",
        "source": "WebSurfer",
        "action": action,
        "arguments": arguments,
        "message": "",
        **fields,
    }


def folder_of(
    root: Path, events: list[Any], *, shots: list[str] | None = None, final: Any = None, data: Any = None
) -> Path:
    folder = root / "t1"
    names = ["screenshot_1.png", "screenshot_2.png"] if shots is None else shots
    for name in names:
        put(folder / name, picture(name))
    put(folder / "web_surfer.log", "".join(json.dumps(e) + "\n" for e in events))
    put(folder / "t1_final_answer.json", {"final_answer": "42", "screenshots": names, **(final or {})})
    put(folder / "task_data.json", {"question": "read it", **(data or {})})
    return folder


END = event("stop_and_answer_question", {"answer": "42", "reasoning": "seen"})


def test_the_real_folder(tmp_path: Path) -> None:
    found = imported("fara", real("fara"), tmp_path / "run", model="solver")
    acts = reading.acts(found)
    assert found.task.id == "alltrails_find_23" and found.task.goal.startswith("Identify")
    assert [a.line.partition("(")[0] for a in acts] == ["input_text", "click", "memorize", "terminate"]
    assert isinstance(found.steps[2].decision.action, Memorize) and acts[3].final
    assert [n for n, _ in reading.screenshots(found)] == [1, 2, 3, 4]
    hashes = [a.before[:16] for a in acts]
    assert hashes == ["52d53aaaa2158378", "3408229625757a6c", "042c3c8a9a2326a1", "042c3c8a9a2326a1"]
    assert all(a.thought and a.url.startswith("https://www.bing.com/") for a in acts)
    assert found.viewport == (1440, 900) and found.stop is Stop.ANSWERED and round(found.wall_s, 2) == 178.74
    assert sum(s.decision.prompt_tokens for s in found.steps) == 23383
    assert sum(s.decision.completion_tokens for s in found.steps) == 1920
    (verdict,) = verdicts(tmp_path / "run")
    assert verdict.success is True and verdict.judge == "imported:scores/mmrubric_0.8-5-3.json"
    assert verdict.details["rubric_total_earned_points"] == verdict.details["rubric_total_max_points"] == 10.0
    assert isinstance(found.task.meta["rubric"], dict) and "rubric_differences" not in verdict.details


@pytest.mark.parametrize("count", [0, 2])
def test_exactly_one_answer_file(tmp_path: Path, count: int) -> None:
    folder = folder_of(tmp_path, [END])
    (folder / "t1_final_answer.json").unlink()
    for n in range(count):
        put(folder / f"{n}_answer.json", {})
    with pytest.raises(DataError, match=f"{count} answer files"):
        import_runs("fara", tmp_path, tmp_path / "run")


@pytest.mark.parametrize(
    "shots", [["screenshot0.png", "screenshot1.png", "screenshot10.png"], ["screenshot_9.png", "screenshot_10.png"]]
)
def test_both_naming_styles_in_numeric_order(tmp_path: Path, shots: list[str]) -> None:
    folder_of(tmp_path, [event("click", {"target_id": 3}), END], shots=shots, final={"screenshots": shots[::-1]})
    found = imported("fara", tmp_path, tmp_path / "run")
    names = [int(re.findall(r"\d+", s)[0]) for s in shots]
    assert [n for n, _ in reading.screenshots(found)] == names
    assert [run_of(tmp_path / "run").images[sha] for _, sha in reading.screenshots(found)] == [
        picture(s) for s in shots
    ]


def test_pairs_are_read_from_messages_where_no_event_has_an_action(tmp_path: Path) -> None:
    called = "executing tool 'computer_use' with arguments"
    said = f'Thought #1: look\nat it\nAction #1: {called} {{"action": "visit_url", "url": "http://a"}}'
    end = f'Thought #2: done\nAction #2: {called} {{"action": "terminate", "status": "failure"}}'
    events = [
        event(None, message="hello"),
        event(None, message=said),
        event(None, message=said[:60]),
        event(None, message=end),
    ]
    found = imported("fara", folder_of(tmp_path, events).parent, tmp_path / "run")
    assert [s.decision.action for s in found.steps] == [Goto(url="http://a"), Terminate(status="failure", text="42")]
    assert [s.decision.thought for s in found.steps] == ["look\nat it", "done"] and found.stop is Stop.GAVE_UP


def test_events_without_an_action_are_no_actions_where_others_have_one(tmp_path: Path) -> None:
    other = event(None, message='Thought #1: x\nAction #1: executing tool \'a\' with arguments {"action": "wait"}')
    found = imported("fara", folder_of(tmp_path, [other, END]).parent, tmp_path / "run")
    assert [a.line for a in reading.acts(found)] == ['terminate(status="success", text="42")']


def test_foreign_coordinates_stay_in_the_line(tmp_path: Path) -> None:
    click = event("computer_use", {"action": "left_click", "coordinate": [700, 800], "thoughts": "there"})
    found = imported("fara", folder_of(tmp_path, [click, END]).parent, tmp_path / "run")
    assert found.steps[0].decision.action is None and found.steps[0].decision.thought == "there"
    assert found.steps[0].decision.intent == "left_click(coordinate=[700, 800])"


@pytest.mark.parametrize(
    ("events", "final", "stop"),
    [
        ([END], {}, Stop.ANSWERED),
        ([event("stop_execution", {})], {"final_answer": "<no_answer>"}, Stop.ANSWERED),
        ([event("click", {})], {"final_answer": "<no_answer>"}, Stop.STEP_LIMIT),
        ([END], {"is_aborted": True}, Stop.BROWSER_ERROR),
        ([], {}, Stop.STEP_LIMIT),
    ],
)
def test_how_it_ended(tmp_path: Path, events: list[Any], final: dict[str, Any], stop: Stop) -> None:
    found = imported("fara", folder_of(tmp_path, events, final=final).parent, tmp_path / "run")
    assert found.stop is stop
    assert found.answer == (None if final.get("final_answer") == "<no_answer>" else "42")


def rubric_score(earned: float, total: float, label: int) -> dict[str, Any]:
    """A score file: one criterion of 10 points with `earned` of them, stored as `total` points and `label`."""
    body = {
        "rubric_items": [{"criterion": "c", "max_points": 10, "earned_points": earned}],
        "rubric_total_earned_points": total,
        "rubric_total_max_points": 10,
        "rubric_is_success": label,
        "outcome_success": bool(label),
    }
    return {"score": label, "gpt_response_text": json.dumps(body)}


@pytest.mark.parametrize(
    ("name", "score", "said"),
    [
        ("mmrubric_0.8-5-3.json", rubric_score(8, 8, 1), []),
        ("mmrubric_0.7-5-3.json", rubric_score(7, 7, 1), []),
        ("mmrubric_0.8-5-3.json", rubric_score(7, 7, 1), ["rubric_is_success is 1, the items say 0"]),
        ("mmrubric_0.8-5-3.json", rubric_score(9, 10, 1), ["rubric_total_earned_points is 10, the items say 9"]),
        ("mmrubric_0.8-5-3.json", rubric_score(11, 10, 1), ["should be between 0 and 10, found 11"]),
        ("gpt_eval.json", {"score": 1, "gpt_response_text": '{"verdict": "SUCCESS"}'}, []),
    ],
)
def test_a_stored_rubric_score_is_added_up_again(
    tmp_path: Path, name: str, score: dict[str, Any], said: list[str]
) -> None:
    put(folder_of(tmp_path / "in", [END]) / "scores" / name, score)
    summary = import_runs("fara", tmp_path / "in", tmp_path / "run")
    notes = [note for note in summary["notes"].get("t1#0", []) if name in note]
    assert len(notes) == len(said) == summary["scores_that_differ"] * len(said)
    assert all(part in note for part, note in zip(said, notes, strict=True))
    (verdict,) = verdicts(tmp_path / "run")
    assert verdict.success is True and verdict.details.get("rubric_differences", []) == notes


def test_a_verdict_beside_a_copy_is_kept_and_a_differing_one_makes_a_run(tmp_path: Path) -> None:
    first = folder_of(tmp_path / "in" / "a", [END])
    put(first / "scores" / "one.json", {"score": 1})
    second = Path(shutil.copytree(first, tmp_path / "in" / "b" / "t1"))
    put(second / "scores" / "two.json", {"score": 0})
    third = Path(shutil.copytree(first, tmp_path / "in" / "c" / "t1"))
    put(third / "scores" / "one.json", {"score": 0})
    shutil.copytree(third, tmp_path / "in" / "d" / "t1")
    summary = import_runs("fara", tmp_path / "in", tmp_path / "run", verdicts="scores/one.json")
    assert summary["copies"] == [
        {"path": "b/t1", "of": "a/t1", "trajectory": "t1#0"}, {"path": "d/t1", "of": "c/t1", "trajectory": "t1#1"},
    ]  # fmt: skip
    assert summary["notes"]["t1#1"] == [
        "the same acts and pages as t1#0 and another verdict beside them: it counts as a run"
    ]
    assert summary["stored_verdicts"] == {"imported:scores/one.json": 2, "imported:scores/two.json": 1}
    assert [v.success for v in verdicts(tmp_path / "run")] == [True, False]
    assert import_runs("fara", tmp_path / "in", tmp_path / "run", verdicts="scores/one.json") == summary


def test_absolute_and_missing_pictures(tmp_path: Path) -> None:
    listed = ["/home/x/traj/t1/screenshot_1.png", "../../etc/screenshot_2.png", "screenshot_3.png"]
    folder_of(tmp_path / "in", [END], final={"screenshots": listed, "is_rel_paths": False})
    put(tmp_path / "etc" / "screenshot_2.png", picture("secret"))
    found = imported("fara", tmp_path / "in", tmp_path / "run")
    assert [(n, bool(sha)) for n, sha in reading.screenshots(found)] == [(1, True), (2, False), (3, False)]


def test_a_log_that_was_cut_and_one_that_is_wrong(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in", [END])
    text = (folder / "web_surfer.log").read_text()
    put(folder / "web_surfer.log", text + '{"action": "cli')
    assert "last line was cut" in facts(imported("fara", tmp_path / "in", tmp_path / "run"))["notes"][0]
    put(folder / "web_surfer.log", "{oops\n" + text)
    with pytest.raises(DataError, match=r"web_surfer\.log:1: not JSON"):
        import_runs("fara", tmp_path / "in", tmp_path / "again")


def test_several_stored_judges_are_never_mixed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in", [END])
    put(folder / "scores" / "gpt_eval.json", {"score": 1, "gpt_response_text": "SUCCESS"})
    put(folder / "scores" / "mmrubric_0.8-5-3.json", {"score": None, "gpt_response_text": "{"})
    put(folder / "scores" / "broken.json", "{")
    summary = import_runs("fara", tmp_path / "in", tmp_path / "run")
    assert summary["verdicts"] == "" and verdicts(tmp_path / "run") == []
    assert summary["stored_verdicts"] == {
        "imported:scores/gpt_eval.json": 1,
        "imported:scores/mmrubric_0.8-5-3.json": 1,
    }
    stored = run_of(tmp_path / "run").read("imported_verdict", Verdict)
    assert [(v.success, v.unjudged) for v in stored] == [(True, ""), (None, "no_verdict")]
    with pytest.raises(ConfigError, match=r"there are: scores/gpt_eval\.json, scores/mmrubric"):
        import_runs("fara", tmp_path / "in", tmp_path / "run", verdicts="scores/other.json")
    chosen = import_runs("fara", tmp_path / "in", tmp_path / "run", verdicts="scores/gpt_eval.json")
    assert chosen["verdicts"] == "imported:scores/gpt_eval.json"
    assert [v.judge for v in verdicts(tmp_path / "run")] == ["imported:scores/gpt_eval.json"]
    assert any("broken.json" in note for note in summary["notes"]["t1#0"])


def upstream_loads(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Actions, thoughts and screenshots as upstream's loader takes them out of a folder (both of its ways)."""
    events = [json.loads(line) for line in (folder / "web_surfer.log").read_text(encoding="utf-8").split("\n") if line]
    (answer,) = folder.glob("*_answer.json")
    final = json.loads(answer.read_text(encoding="utf-8"))
    known = {
        "final_answer",
        "env_state_json",
        "env_state_raw",
        "screenshots",
        "is_aborted",
        "is_rel_paths",
        "token_usage",
    }
    assert set(final) <= known and all(
        set(u) == {"prompt_tokens", "completion_tokens"} for u in final["token_usage"].values()
    )
    acted = [e for e in events if e.get("action") is not None]
    assert all(e["source"] == "WebSurfer" and e["arguments"]["action"] == e["action"] for e in acted)
    thoughts = [e["arguments"]["thoughts"] for e in acted]
    actions = [json.dumps({k: v for k, v in e["arguments"].items() if k != "thoughts"}) for e in acted]
    return actions, thoughts, final["screenshots"]


@settings(max_examples=40, deadline=None)
@given(episodes())
def test_round_trip_and_what_upstream_loads(made: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        run, (given_,) = run_with(Path(temporary) / "run", [made])
        export_runs("fara", run, Path(temporary) / "out")
        (folder,) = (Path(temporary) / "out" / "traj").iterdir()
        actions, thoughts, shots = upstream_loads(folder)
        old = reading.acts(given_)
        assert thoughts == [a.thought for a in old] and abs(len(shots) - len(actions)) <= 1
        if old and old[-1].final:
            assert json.loads(actions[-1])["action"] == "terminate" and len(shots) == len(actions)
        back = imported("fara", Path(temporary) / "out", Path(temporary) / "back")
        assert (back.task.id, back.task.goal, back.task.start_url) == (
            given_.task.id,
            given_.task.goal,
            given_.task.start_url,
        )
        lost = given_.answer == "<no_answer>"  # the format's own word for none
        assert back.answer == (None if lost else given_.answer)
        assert (back.stop, back.viewport, back.wall_s) == (given_.stop, given_.viewport, given_.wall_s)
        kept = [s for s in given_.steps if s.decision.action is not None]
        done = [s for s in back.steps if s.decision.action is not None]
        assert [s.decision.action for s in done] == [s.decision.action for s in kept]
        assert [(s.decision.thought, s.before.url) for s in done] == [(s.decision.thought, s.before.url) for s in kept]
        assert [s.before.image for s in done] == [s.before.image for s in kept]
        if kept:
            assert sum(s.decision.prompt_tokens for s in back.steps) == sum(
                s.decision.prompt_tokens for s in given_.steps
            )


def test_an_imported_attempt_is_exported_again(tmp_path: Path) -> None:
    folder_of(tmp_path / "in", [event("click", {"target_id": 3, "thoughts": "it"}), END])
    first = imported("fara", tmp_path / "in", tmp_path / "run")
    export_runs("fara", tmp_path / "run", tmp_path / "out")
    again = imported("fara", tmp_path / "out", tmp_path / "back")
    assert [a.line for a in reading.acts(again)] == [a.line for a in reading.acts(first)]
    assert [sha for _, sha in reading.screenshots(again)] == [sha for _, sha in reading.screenshots(first)]
    export_runs("om2w", tmp_path / "run", tmp_path / "om2w")
    third = imported("om2w", tmp_path / "om2w", tmp_path / "third")
    assert [a.line for a in reading.acts(third)] == ["click(target_id=3)", 'answer(text="42")']
    assert len(trajectories(tmp_path / "third")) == 1 and Answer(text="42") == third.steps[-1].decision.action


def test_a_rubric_goes_out_and_comes_back(tmp_path: Path) -> None:
    rubric = {"items": [{"criterion": "c", "description": "d", "max_points": 3, "condition": ""}]}
    made = {"task_id": "t", "goal": "g", "moves": [], "faults": set(), "end": "answer", "last": ("42", "t")}
    _, (found,) = run_with(tmp_path / "run", [made])
    task = found.task.model_copy(update={"meta": {"rubric": rubric}})
    with Run.open(tmp_path / "second", "eval", Config()) as second:
        second.append("trajectory", found.model_copy(update={"task": task}))
    export_runs("fara", tmp_path / "second", tmp_path / "out")
    data = json.loads(next(tmp_path.glob("out/traj/*/task_data.json")).read_text())
    assert data["precomputed_rubric"] == rubric
    assert imported("fara", tmp_path / "out", tmp_path / "back").task.meta == {"rubric": rubric}
    put(next(tmp_path.glob("out/traj/*/task_data.json")), {**data, "precomputed_rubric": {"items": []}})
    odd = imported("fara", tmp_path / "out", tmp_path / "odd")
    assert odd.task.meta == {"precomputed_rubric": {"items": []}} and "items" in facts(odd)["notes"][0]


def test_what_was_not_recorded_is_not_written(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "t", shots=[])
    import_runs("om2w", tmp_path / "in", tmp_path / "run")
    export_runs("fara", tmp_path / "run", tmp_path / "out")
    folder = tmp_path / "out" / "traj" / "t"
    assert not (folder / "times.json").exists()
    assert "viewport_width" not in json.loads((folder / "task_data.json").read_text())
    assert json.loads((folder / "t_final_answer.json").read_text())["token_usage"] == {}
    back = imported("fara", tmp_path / "out", tmp_path / "back")
    assert reading.viewport_of(back) is None and use_of(back).prompt_tokens is None and back.wall_s == 0
