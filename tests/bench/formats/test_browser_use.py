import base64
from pathlib import Path
from typing import Any

import pytest
from foreign import facts, imported, put, trajectories, verdicts
from specimens import picture

from rmsweb import actions as act
from rmsweb.bench import reading
from rmsweb.bench.formats import import_runs
from rmsweb.errors import DataError
from rmsweb.records import Stop, Task

TASK = Task(id="t1", suite="s", site="s", template="t", split="exam", goal="read it")


def step(actions: list[dict[str, Any]], results: list[Any] | None = None, **state: Any) -> dict[str, Any]:
    output = {"thinking": "hm", "memory": "m", "next_goal": "go", "action": actions}
    return {
        "model_output": output,
        "result": [{"is_done": False} for _ in actions] if results is None else results,
        "state": {"url": "http://a/", "title": "A", "tabs": [{"url": "http://a/", "title": "A"}], **state},
        "metadata": {"step_start_time": 10.0, "step_end_time": 12.5, "step_number": 1},
    }


DONE = {"is_done": True, "success": True, "extracted_content": "42"}


def history(root: Path, steps: list[Any], name: str = "t1.json", **top: Any) -> Path:
    return put(root / name, {"history": steps, **top})


def test_several_actions_of_a_step_and_pictures_within_the_folder(tmp_path: Path) -> None:
    put(tmp_path / "in" / "screenshots" / "step_1.png", picture("1"))
    put(tmp_path / "in" / "step_2.png", picture("2"))
    steps = [
        step(
            [{"input_text": {"index": 3, "text": "mug"}}, {"click_element": {"index": 4, "xpath": None}}],
            screenshot_path="/home/x/screenshots/step_1.png",
        ),
        step([{"done": {"text": "42", "success": True}}], [DONE], screenshot_path="step_2.png"),
    ]
    history(tmp_path / "in", steps)
    found = imported("auto", tmp_path / "in", tmp_path / "run", tasks=[TASK], model="bu")
    acts = reading.acts(found)
    assert [a.line for a in acts] == ['input_text(index=3, text="mug")', "click_element(index=4)", 'answer(text="42")']
    assert [bool(a.before) for a in acts] == [True, False, True] and [a.thought for a in acts][:2] == ["hm\nm\ngo", ""]
    assert [n for n, _ in reading.screenshots(found)] == [0, 1] and found.stop is Stop.ANSWERED and found.answer == "42"
    assert found.task == TASK and found.wall_s == 5.0 and found.steps[0].before.tabs == ("A",)


def test_pictures_of_older_dumps_are_embedded(tmp_path: Path) -> None:
    old = {
        "current_state": {"evaluation_previous_goal": "e", "memory": "m", "next_goal": "n"},
        "action": [{"go_back": {}}],
    }
    one = {"model_output": old, "result": [{}], "state": {"screenshot": base64.b64encode(picture("x")).decode()}}
    history(tmp_path / "in", [one, {**one, "state": {"screenshot": "broken!"}}])
    found = imported("browser_use", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    assert [bool(sha) for _, sha in reading.screenshots(found)] == [True, False]
    assert found.steps[0].decision.action == act.GoBack() and found.steps[0].decision.thought == "e\nm\nn"


def test_no_file_outside_the_folder_is_read(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret.png", picture("secret"))
    put(tmp_path / "in" / "a" / "x.json", {})
    (tmp_path / "in" / "link.png").symlink_to(secret)
    names = [str(secret), "../secret.png", "link.png", "a/../../secret.png", "\0", "x" * 5000]
    history(tmp_path / "in", [step([{"go_back": None}], screenshot_path=name) for name in names])
    found = imported("browser_use", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    assert [sha for _, sha in reading.screenshots(found)] == [""] * len(names)
    assert len(facts(found)["notes"]) == len(names)


def test_actions_that_were_dropped_are_no_actions(tmp_path: Path) -> None:
    actions = [{"go_to_url": {"url": "http://b"}}, {"click_element": {"index": 1}}, {"go_back": {}}]
    history(tmp_path / "in", [step(actions, [{}, {"error": "gone"}])])
    found = imported("browser_use", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    assert [s.decision.action for s in found.steps] == [act.Goto(url="http://b"), None]
    assert [s.effect.error for s in found.steps] == ["", "gone"]
    assert found.stop is Stop.DONE and "gone" in found.detail


@pytest.mark.parametrize(
    ("given", "action"),
    [
        ({"navigate": {"url": "http://a", "new_tab": True}}, act.NewTab(url="http://a")),
        ({"search": {"query": "q", "engine": "duckduckgo"}}, act.WebSearch(query="q")),
        ({"wait": {"seconds": 3}}, act.Wait(seconds=3)),
        ({"wait": {"seconds": 600}}, None),
        ({"switch_tab": {"page_id": 1}}, act.SwitchTab(tab=1)),
        ({"switch": {"tab_id": "ab12"}}, None),
        ({"scroll": {"down": True, "num_pages": 1.0}}, None),
        ({"done": {"text": "no", "success": False}}, act.Terminate(status="failure", text="no")),
        ({"done": {"data": {"a": 1}, "success": True}}, act.Answer(text='{"a": 1}')),
    ],
)
def test_actions_map_only_where_they_mean_the_same(tmp_path: Path, given: dict[str, Any], action: Any) -> None:
    history(tmp_path / "in", [step([given])])
    (one,) = imported("browser_use", tmp_path / "in", tmp_path / "run", tasks=[TASK]).steps
    assert one.decision.action == action and (action is not None or one.decision.intent)


def test_the_judgement_is_its_own_verdict(tmp_path: Path) -> None:
    judged = {**DONE, "judgement": {"verdict": False, "failure_reason": "wrong", "reached_captcha": True}}
    history(tmp_path / "in", [step([{"done": {"text": "42"}}], [judged])])
    import_runs("browser_use", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    (verdict,) = verdicts(tmp_path / "run")
    assert (verdict.success, verdict.judge, verdict.reason) == (False, "imported:judgement", "wrong")
    assert verdict.details["reached_captcha"] is True


def test_the_task_comes_from_the_file_or_its_folder(tmp_path: Path) -> None:
    history(tmp_path / "in" / "a", [step([{"go_back": {}}])], "AgentHistory.json", task="own text")
    history(tmp_path / "in" / "b", [step([{"go_back": {}}])], "history.json")
    put(tmp_path / "in" / "b" / "other.json", {"rows": [{"history": 1}]})
    summary = import_runs("browser_use", tmp_path / "in", tmp_path / "run")
    assert [(t.task.id, t.task.goal) for t in trajectories(tmp_path / "run")] == [("a", "own text")]
    assert summary["skipped"][0]["path"] == "b/history.json" and "no task text" in summary["skipped"][0]["reason"]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([3], "entry 0 is no object"),
        ([{"state": []}], "'state' is a list"),
        ([{"result": ["x"]}], "a result is no object"),
        ([{"model_output": {"action": [1]}, "result": []}], "action 0 is no object"),
    ],
)
def test_bad_histories_are_named(tmp_path: Path, steps: Any, message: str) -> None:
    history(tmp_path / "in", steps)
    with pytest.raises(DataError, match=message):
        import_runs("browser_use", tmp_path / "in", tmp_path / "run", tasks=[TASK])


def test_failed_steps_without_output(tmp_path: Path) -> None:
    history(
        tmp_path / "in", [{"model_output": None, "result": [{"error": "429"}], "state": {}}, step([{"go_back": {}}])]
    )
    found = imported("browser_use", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    assert len(reading.acts(found)) == 1 and found.steps[0].effect.error == "429"
