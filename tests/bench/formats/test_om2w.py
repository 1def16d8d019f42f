import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from foreign import EXAMPLES, facts, imported, om2w, put, real, run_of, trajectories, verdicts
from hypothesis import given, settings
from made import build, episodes, run_with

from rmsweb.actions import Answer
from rmsweb.bench import reading
from rmsweb.bench.formats import export_runs, import_runs
from rmsweb.bench.formats import om2w as layout
from rmsweb.bench.metrics import steps_of
from rmsweb.errors import DataError
from rmsweb.records import Stop
from rmsweb.store import Images


def test_the_real_submission(tmp_path: Path) -> None:
    found = imported("om2w", real("online_mind2web"), tmp_path / "run", model="agent")
    acts = reading.acts(found)
    assert found.task.id == "fb7b4f784cfde003e2548fdf4e8d6b4f" and found.id == f"agent/{found.task.id}#0"
    assert [a.final for a in acts] == [False] * 4 + [True] and all(a.thought for a in acts[:4])
    assert [n for n, _ in reading.screenshots(found)] == [0, 1, 2, 3, 4] and found.viewport == (1280, 1100)
    assert found.stop is Stop.ANSWERED and found.answer and "notes" not in facts(found)
    first = EXAMPLES / "online_mind2web" / found.task.id / "trajectory" / "0_full_screenshot.png"
    assert run_of(tmp_path / "run").images[acts[0].before] == first.read_bytes()


@pytest.mark.parametrize("pattern", ["{}_screenshot.png", "{}_full_screenshot.png", "step_{:03d}.jpg.png"])
def test_both_naming_styles_in_numeric_order(tmp_path: Path, pattern: str) -> None:
    names = [pattern.format(n) for n in range(12)]
    om2w(tmp_path / "in" / "t", shots=names, action_history=[f"a{n}" for n in range(11)], thoughts=[])
    found = imported("auto", tmp_path / "in", tmp_path / "run")
    assert [n for n, _ in reading.screenshots(found)] == list(range(12))
    assert len({sha for _, sha in reading.screenshots(found)}) == 12


@pytest.mark.parametrize(
    ("shots", "message"),
    [(["0_a.png", "last.png"], "no number in its name"), (["1_a.png", "1_b.png"], "have the same number 1")],
)
def test_pictures_whose_order_is_not_known_are_refused(tmp_path: Path, shots: list[str], message: str) -> None:
    om2w(tmp_path / "in" / "bad", shots=shots)
    om2w(tmp_path / "in" / "good")
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert [s["path"] for s in summary["skipped"]] == ["bad"] and message in summary["skipped"][0]["reason"]
    assert [t.task.id for t in trajectories(tmp_path / "run")] == ["good"]


def test_a_gap_is_a_missing_picture(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "t", shots=["0_s.png", "2_s.png"])
    found = imported("om2w", tmp_path / "in", tmp_path / "run")
    assert [(n, bool(sha)) for n, sha in reading.screenshots(found)] == [(0, True), (1, False), (2, True)]
    assert "screenshots 1 are missing" in facts(found)["notes"][0]
    assert [bool(a.before) for a in reading.acts(found)] == [True, False, True]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"action_history": None}, "'action_history' is missing"),
        ({"action_history": "click"}, "'action_history' is text"),
        ({"action_history": ["a", 3]}, "entry 1 is a number"),
        ({"task": 5}, "'task' is a number"),
        ({"task": "left out"}, "no task text"),
        ({"final_result_response": ["x"]}, "is a list"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    om2w(tmp_path / "in" / "t", **fields)
    with pytest.raises(DataError, match=message):
        import_runs("om2w", tmp_path / "in", tmp_path / "run")


def test_thoughts_may_be_missing_or_of_another_count(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "a", thoughts="left out")
    om2w(tmp_path / "in" / "b", thoughts=["one"])
    om2w(tmp_path / "in" / "c", thoughts=["1", None, "the answer's"])
    import_runs("om2w", tmp_path / "in", tmp_path / "run")
    a, b, c = trajectories(tmp_path / "run")
    assert [x.thought for x in reading.acts(a)] == ["", "", ""] and "notes" not in facts(a)
    assert "1 thoughts for 2 actions" in facts(b)["notes"][0]
    assert [x.thought for x in reading.acts(c)] == ["1", "", "the answer's"] and "notes" not in facts(c)


def test_more_pictures_than_actions_are_all_kept(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "t", shots=[f"{n}.png" for n in range(7)], final_result_response=None)
    found = imported("om2w", tmp_path / "in", tmp_path / "run")
    assert len(reading.screenshots(found)) == 7 and len(reading.acts(found)) == 2
    assert [s.after.image for s in found.steps][-1] == reading.screenshots(found)[-1][1]
    assert found.answer is None and found.stop is Stop.DONE


def test_input_pictures_are_only_read_from_within(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret.png", b"secret")
    om2w(tmp_path / "in" / "t", input_image_paths=["trajectory/0_screenshot.png", "../../secret.png", str(secret)])
    found = imported("om2w", tmp_path / "in", tmp_path / "run")
    assert [bool(sha) for sha in facts(found)["input_images"]] == [True, False, False]
    assert sum("is not in the folder" in note for note in facts(found)["notes"]) == 2


def test_links_that_lead_out_are_not_read(tmp_path: Path) -> None:
    outside = om2w(tmp_path / "elsewhere" / "t")
    folder = om2w(tmp_path / "in" / "t", shots=["0_s.png"])
    (folder / "trajectory" / "1_s.png").symlink_to(outside / "trajectory" / "1_screenshot.png")
    found = imported("om2w", tmp_path / "in", tmp_path / "run")
    assert [bool(sha) for _, sha in reading.screenshots(found)] == [True, False]
    (tmp_path / "in" / "linked").symlink_to(outside)
    (tmp_path / "in" / "u").mkdir()
    (tmp_path / "in" / "u" / "result.json").symlink_to(outside / "result.json")
    summary = import_runs("om2w", tmp_path / "in", tmp_path / "run")
    assert summary["trajectories"] == 1 and "leads out of the folder" in summary["skipped"][0]["reason"]


def test_surrogates_of_foreign_texts(tmp_path: Path) -> None:
    om2w(tmp_path / "in" / "t", task="a\ud800b", action_history=["\udfff", "x"], final_result_response="\ud83d")
    found = imported("om2w", tmp_path / "in", tmp_path / "run")
    assert (found.task.goal, found.answer, reading.acts(found)[0].line) == ("a?b", "?", "?")


@settings(max_examples=40, deadline=None)
@given(episodes())
def test_round_trip(made: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run, (given_,) = run_with(Path(folder) / "run", [made])
        export_runs("om2w", run, Path(folder) / "out")
        back = imported("om2w", Path(folder) / "out", Path(folder) / "back")
        old, new = ([a for a in reading.acts(t) if not a.final] for t in (given_, back))
        assert (back.task.id, back.task.goal) == (given_.task.id, given_.task.goal)
        assert back.answer == (given_.answer or None)
        assert [(a.line, a.thought, a.before) for a in new] == [(a.line, a.thought, a.before) for a in old]
        ends = [s.decision.action for s in back.steps if s.decision.action is not None]
        assert ends == ([Answer(text=back.answer)] if back.answer else [])
        result = json.loads((next((Path(folder) / "out").glob("*/result.json"))).read_text(encoding="utf-8"))
        assert len(result["thoughts"]) == len(result["action_history"]) == len(old)
        shots = sorted((Path(folder) / "out").glob("*/trajectory/*"), key=lambda p: int(p.name.split("_")[0]))
        assert [p.name for p in shots] == [f"{n}_screenshot.png" for n in range(len(shots))]
        if given_.steps:
            assert len(shots) == len(old) + 1


def test_the_final_answer_is_no_action_of_the_history(tmp_path: Path) -> None:
    images = Images(tmp_path / "images")
    made = {
        "task_id": "t",
        "goal": "g",
        "moves": [],
        "faults": set(),
        "end": "answer",
        "last": ("secret 42", "I claim it"),
    }
    layout.write(build(images, made), images, tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["action_history"] == [] and result["final_result_response"] == "secret 42"
    assert "claim" not in (tmp_path / "result.json").read_text()


@pytest.mark.parametrize(("score", "success"), [(100, True), (0, False), (60, None), ("100", None)])
def test_results_with_a_judge_beside_them_hold_no_actions_and_a_verdict(
    tmp_path: Path, score: Any, success: bool | None
) -> None:
    judge = {"score": score, "reasoning": "seen in step 3"}
    om2w(tmp_path / "in" / "t1", shots=[], action_history="left out", thoughts="left out", judge=judge)
    found = imported("auto", tmp_path / "in", tmp_path / "run")
    (verdict,) = verdicts(tmp_path / "run")
    assert verdict.success is success and verdict.judge == "imported:result.json" and found.answer == "done"
    assert verdict.unjudged == ("no_verdict" if success is None else "")
    assert steps_of(found) is None and reading.viewport_of(found) is None, "neither steps nor a viewport is made up"
    assert [act.line for act in reading.acts(found)] == ['answer(text="done")']


def test_what_an_agent_says_of_itself_is_no_verdict(tmp_path: Path) -> None:
    shots = ["1_full_screenshot.png", "2_full_screenshot.png", "4_full_screenshot.png"]
    om2w(tmp_path / "in" / "t1", shots=shots, action_history=["a", "b", "c", "d"], thoughts=[""] * 4,
         result_status="success")  # fmt: skip
    found = imported("auto", tmp_path / "in", tmp_path / "run")
    assert facts(found)["result_status"] == "success" and verdicts(tmp_path / "run") == []
    assert [bool(a.before) for a in reading.acts(found)][:4] == [True, True, False, True]  # 3 has no picture
