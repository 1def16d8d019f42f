"""The second layout of submissions: synthetic files of the schema that public writers share."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from foreign import facts, imported, om2w, put, trajectories
from hypothesis import given, settings
from made import build, episodes, run_with
from specimens import picture

from rmsweb import actions as act
from rmsweb.bench import reading
from rmsweb.bench.formats import export_runs, import_runs
from rmsweb.bench.judges.pages import pages
from rmsweb.config import Config
from rmsweb.errors import DataError
from rmsweb.records import Stop, Task
from rmsweb.store import Run


def step(number: int, action: str, status: str | None = None, **fields: Any) -> dict[str, Any]:
    known = {"step": number, "screenshot": f"{number:04d}.png", "url": "https://a/", "action": action}
    return {**known, "action_status": status, "thought": f"t{number}", **fields}


def submission(folder: Path, *steps: Any, answer: str | None = "42", **fields: Any) -> Path:
    for number in range(len(steps)):
        put(folder / "trajectory" / f"{number:04d}.png", picture(str(number)))
    result = {"task": "find it", "task_id": folder.name, "agent_final_answer": answer, "reference_length": 6}
    result |= {"action_history": list(steps), **fields}
    return put(folder / "result.json", {**result, "schema_version": "online-mind2web-v2"})  # last: not in the head


CLICK = "button -> CLICK | SUCCESS"
DONE = "TASK_COMPLETE -> ANSWER: 42"


def test_steps_pictures_addresses_status_and_the_last_word(tmp_path: Path) -> None:
    steps = step(0, CLICK, "SUCCESS"), step(1, "a|b -> TYPE: x | FAILED", "FAILED", thought=None), step(2, DONE)
    submission(tmp_path / "in" / "t1", *steps)
    found = imported("auto", tmp_path / "in", tmp_path / "run", model="agent")
    acts = reading.acts(found)
    assert [a.line for a in acts] == ["button -> CLICK | SUCCESS", "a|b -> TYPE: x | FAILED", 'answer(text="42")']
    assert [a.thought for a in acts] == ["t0", "", "t2"] and all(a.before for a in acts) and acts[0].url == "https://a/"
    assert [a.apart for a in acts] == [False, False, True] and found.steps[1].effect.error == "FAILED"
    assert [n for n, _ in reading.screenshots(found)] == [0, 1, 2]
    assert (found.answer, found.stop, facts(found)["reference_length"]) == ("42", Stop.ANSWERED, 6)


@pytest.mark.parametrize(
    ("last", "answer", "expected", "stop"),
    [
        ("TASK_COMPLETE", None, act.Terminate(status="success"), Stop.ANSWERED),
        ("TASK_COMPLETE -> ANSWER: two\nlines", None, act.Answer(text="two\nlines"), Stop.ANSWERED),
        (CLICK, "late", act.Answer(text="late"), Stop.ANSWERED),
        (CLICK, None, None, Stop.DONE),
    ],
)
def test_how_it_ended(tmp_path: Path, last: str, answer: str | None, expected: Any, stop: Stop) -> None:
    submission(tmp_path / "in" / "t1", step(0, CLICK), step(1, last), answer=answer)
    found = imported("om2w_v2", tmp_path / "in", tmp_path / "run")
    assert found.steps[-1].decision.action == expected and found.stop is stop


def test_steps_behind_the_last_word_are_noted_and_no_second_answer_is_made(tmp_path: Path) -> None:
    submission(tmp_path / "in" / "t1", step(0, DONE), step(1, CLICK), reference_length=3.0)
    found = imported("om2w_v2", tmp_path / "in", tmp_path / "run")
    assert len(reading.acts(found)) == 2 and (found.answer, found.stop) == ("42", Stop.ANSWERED)
    assert "step 0 says TASK_COMPLETE, and steps follow it" in facts(found)["notes"]
    assert facts(found)["reference_length"] == 3


def test_both_layouts_are_told_apart_and_a_third_is_refused(tmp_path: Path) -> None:
    submission(tmp_path / "both" / "t1", step(0, DONE))
    om2w(tmp_path / "both" / "t2", thoughts=['they say "schema_version"', ""])
    for name, task in (("om2w", "t2"), ("om2w_v2", "t1")):
        assert imported(name, tmp_path / "both", tmp_path / name).task.id == task
    om2w(tmp_path / "third" / "t3", schema_version="online-mind2web-v3")
    with pytest.raises(DataError, match=r"schema_version 'online-mind2web-v3' is not known"):
        import_runs("auto", tmp_path / "third", tmp_path / "run")


def test_odd_steps_are_noted_or_named(tmp_path: Path) -> None:
    submission(tmp_path / "in" / "t1", step(4, CLICK, screenshot="../../secret.png"), step(1, DONE, screenshot=None))
    found = imported("om2w_v2", tmp_path / "in", tmp_path / "run")
    notes = facts(found)["notes"]
    assert any("says that it is step 4" in n for n in notes) and any("secret.png is not in the" in n for n in notes)
    assert [sha for _, sha in reading.screenshots(found)] == ["", ""]
    submission(tmp_path / "bad" / "t1", "no object")
    with pytest.raises(DataError, match="entry 0 is no object"):
        import_runs("om2w_v2", tmp_path / "bad", tmp_path / "run2")


def test_the_last_entry_is_kept_apart_whatever_it_says_as_upstreams_script_does(tmp_path: Path) -> None:
    submission(tmp_path / "in" / "t1", step(0, CLICK), step(1, "link -> CLICK"), answer=None)
    found = imported("om2w_v2", tmp_path / "in", tmp_path / "run")
    assert [(a.line, a.apart) for a in reading.acts(found)] == [(CLICK, False), ("link -> CLICK", True)]
    assert [a.line for a in reading.history_of(found)[0]] == [CLICK]
    export_runs("om2w_v2", tmp_path / "run", tmp_path / "out")
    assert steps_in(tmp_path / "out") == [CLICK, "link -> CLICK"], "it is not moved into the history"


def test_an_export_has_one_closing_step_whatever_was_read(tmp_path: Path) -> None:
    submission(tmp_path / "in" / "t1", step(0, CLICK), step(1, "link -> CLICK"), answer="42")
    import_runs("auto", tmp_path / "in", tmp_path / "run")
    export_runs("om2w_v2", tmp_path / "run", tmp_path / "out")
    assert steps_in(tmp_path / "out") == [CLICK, "link -> CLICK"], "the answer has a field of its own"
    submission(tmp_path / "mid" / "t1", step(0, DONE), step(1, CLICK), step(2, DONE))
    import_runs("auto", tmp_path / "mid", tmp_path / "run2")
    summary = export_runs("om2w_v2", tmp_path / "run2", tmp_path / "out2")
    assert steps_in(tmp_path / "out2") == [CLICK, DONE], "no answer stands in the action history"
    assert "2 last words that stood before other steps" in " ".join(*summary["changed"].values())


def test_a_last_word_alone_is_a_step_that_is_listed(tmp_path: Path) -> None:
    submission(tmp_path / "in" / "t1", step(0, DONE))
    assert reading.lists_acts(imported("om2w_v2", tmp_path / "in", tmp_path / "run"))
    submission(tmp_path / "none" / "t1")
    assert not reading.lists_acts(imported("om2w_v2", tmp_path / "none", tmp_path / "run2")), "an answer field is none"


def test_an_answer_without_any_picture_names_a_page_that_could_be(tmp_path: Path) -> None:
    submission(tmp_path / "in" / "t1", step(0, DONE, screenshot=None))
    import_runs("auto", tmp_path / "in", tmp_path / "run")
    export_runs("om2w_v2", tmp_path / "run", tmp_path / "out")
    (result,) = (json.loads(path.read_text()) for path in (tmp_path / "out").rglob("result.json"))
    assert [one["screenshot"] for one in result["action_history"]] == ["0000.png"]


def test_an_episode_that_did_not_end_itself_loses_neither_its_last_action_nor_its_last_page(tmp_path: Path) -> None:
    with Run.open(tmp_path / "run", "eval", Config()) as run:
        made = {"task_id": "t", "goal": "g", "moves": [(act.Wait(), "x"), (act.GoBack(), "y")], "faults": set()}
        given_ = build(run.images, {**made, "end": "none", "last": ("", "")})
        run.append("trajectory", given_)
        run.append("trajectory", given_.model_copy(update={"steps": (), "id": "m/t#1", "attempt": 1}))
        run.finish()
    summary = export_runs("om2w_v2", tmp_path / "run", tmp_path / "out")
    assert steps_in(tmp_path / "out" / "m" / "run1") == ["wait()", "go_back()", "STOPPED -> step_limit"]
    assert "the last step is no TASK_COMPLETE" in " ".join(summary["changed"][given_.id])
    assert steps_in(tmp_path / "out" / "m" / "run2") == [], "it broke before its first page"
    back = imported("auto", tmp_path / "out" / "m" / "run1", tmp_path / "back")
    assert [(a.line, a.apart) for a in reading.acts(back)] == [("wait()", False), ("go_back()", False)]
    assert (back.stop, back.detail, reading.screenshots(back)[-1][1]) == (
        Stop.STEP_LIMIT, "", given_.steps[-1].after.image,
    )  # fmt: skip


@pytest.mark.parametrize("line", ["STOPPED", "STOPPED -> answered", "STOPPED -> nonsense", "STOPPED -> model_error"])
def test_a_stop_that_says_no_reason_of_ours(tmp_path: Path, line: str) -> None:
    submission(tmp_path / "in" / "t1", step(0, CLICK), step(1, line), answer=None)
    found = imported("om2w_v2", tmp_path / "in", tmp_path / "run")
    assert (found.stop, len(reading.acts(found)), found.answer) == (Stop.DONE, 1, None)
    assert found.detail == "how it ended is not stored"


def steps_in(folder: Path) -> list[str]:
    (result,) = (json.loads(path.read_text(encoding="utf-8")) for path in folder.rglob("result.json"))
    return [str(one["action"]) for one in result["action_history"]]


@settings(max_examples=40, deadline=None)
@given(episodes())
def test_round_trip(made: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run, (given_,) = run_with(Path(folder) / "run", [made])
        export_runs("om2w_v2", run, Path(folder) / "out")
        back = imported("om2w_v2", Path(folder) / "out", Path(folder) / "back")
        old, new = ([a for a in reading.acts(t) if not a.final] for t in (given_, back))
        assert (back.task.id, back.task.goal) == (given_.task.id, given_.task.goal)
        assert [(a.line, a.thought, a.before, a.url) for a in new] == [
            (a.line, a.thought, a.before, a.url) for a in old
        ]
        if (given_.answer or "").strip():
            assert back.answer == (given_.answer or "").strip()
        if given_.steps and not any(a.final for a in reading.acts(given_)):
            assert (back.stop, pages(back)[-1][1]) == (given_.stop, pages(given_)[-1][1])
        (result,) = (json.loads(p.read_text(encoding="utf-8")) for p in (Path(folder) / "out").glob("*/result.json"))
        assert [s["step"] for s in result["action_history"]] == list(range(len(result["action_history"])))
        assert all(re.match(r"\d{4}\.png\Z", s["screenshot"]) for s in result["action_history"])


def test_what_upstreams_check_would_refuse_is_said(tmp_path: Path) -> None:
    submission(tmp_path / "in" / "t1", step(0, CLICK), answer=None, reference_length=None)
    submission(tmp_path / "in" / "t2", step(0, CLICK), step(1, DONE))
    task = Task(id="t1", suite="s", site="s", template="t", split="exam", goal="find it", meta={"reference_length": 9})
    import_runs("auto", tmp_path / "in", tmp_path / "run", tasks=[task])
    summary = export_runs("om2w_v2", tmp_path / "run", tmp_path / "out")
    said = {name.removesuffix("#0"): " ".join(notes) for name, notes in summary["changed"].items()}
    assert "the last step is no TASK_COMPLETE" in said["t1"] and "t2" not in said
    lengths = [json.loads((tmp_path / "out" / t / "result.json").read_text())["reference_length"] for t in ("t1", "t2")]
    assert lengths == [9, 6] and Run.read_only(tmp_path / "run").finished
    assert {t.task.id for t in trajectories(tmp_path / "run")} == {"t1", "t2"}
