from pathlib import Path
from typing import Any

import pytest
from foreign import facts, imported, put, verdicts
from specimens import picture

from rmsweb import actions as act
from rmsweb.actions import Point
from rmsweb.bench import reading
from rmsweb.bench.formats import import_runs
from rmsweb.errors import DataError
from rmsweb.records import Stop, Task


def step(name: str, fields: dict[str, Any], number: int, **extra: Any) -> dict[str, Any]:
    said = f"{name}({', '.join(f'{k}={v!r}' for k, v in fields.items())})"
    return {
        "screenshot": f"screenshot_{number:03d}.png",
        "user_message": "user_message_001.txt",
        "other_obs": {"page_index": 0, "url": f"http://a/{number}", "open_pages_titles": ["T"], "open_pages_urls": []},
        "action": {
            "action_str": said,
            "action_description": "d",
            "action_output": {"thought": f"think {number}", "action": fields, "action_name": name},
        },
        "error": None,
        "action_timestamp": 1.0,
        "raw_output": "raw",
        **extra,
    }


def folder_of(root: Path, steps: list[dict[str, Any]], **files: Any) -> Path:
    folder = root / "Site--1"
    put(folder / "trajectory.json", {str(n): s for n, s in enumerate(steps, 1)})
    put(folder / "metadata.json", {"goal": "read it", "eps_name": "Site--1"})
    for n in range(1, len(steps) + 1):
        put(folder / "images" / f"screenshot_{n:03d}.png", picture(str(n)))
    for name, value in files.items():
        put(folder / f"{name}.json", value)
    return folder


ANSWERED = ("send_msg_to_user", {"msg": "[ANSWER] 42"})
EXIT = ("send_msg_to_user", {"msg": "[EXIT]"})


def made(*moves: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [step(name, fields, n) for n, (name, fields) in enumerate(moves, 1)]


def test_an_attempt(tmp_path: Path) -> None:
    moves = made(("mouse_click", {"x": 10.4, "y": 20.6, "button": "left", "click_type": "single"}), ANSWERED, EXIT)
    folder_of(tmp_path / "in", moves, webvoyager_verdict={"thought": "good", "verdict": "SUCCESS"})
    found = imported("auto", tmp_path / "in", tmp_path / "run")
    assert found.task.id == "Site--1" and found.task.goal == "read it" and found.stop is Stop.ANSWERED
    assert [s.decision.action for s in found.steps] == [
        act.LeftClick(point=Point(x=10, y=21)),
        act.Answer(text="42"),
        act.Terminate(status="success"),
    ]
    assert found.answer == "42" and facts(found)["answer_from"] == "answer"
    assert [n for n, _ in reading.screenshots(found)] == [1, 2, 3] and found.steps[1].before.url == "http://a/2"
    assert [s.decision.thought for s in found.steps] == ["think 1", "think 2", "think 3"]
    (verdict,) = verdicts(tmp_path / "run")
    assert (verdict.success, verdict.judge, verdict.reason) == (True, "imported:webvoyager_verdict.json", "good")


def test_steps_are_ordered_by_number(tmp_path: Path) -> None:
    moves = made(*[("scroll", {"delta_x": 0, "delta_y": n}) for n in range(1, 13)])
    folder = folder_of(tmp_path / "in", moves)
    put(folder / "trajectory.json", {str(n): moves[n - 1] for n in sorted(range(1, 13), key=str)})
    found = imported("molmoweb", tmp_path / "in", tmp_path / "run")
    assert [s.decision.action for s in found.steps] == [act.Scroll(dy=n) for n in range(1, 13)]
    assert [n for n, _ in reading.screenshots(found)] == list(range(1, 13))


@pytest.mark.parametrize(
    ("name", "fields", "action"),
    [
        (
            "mouse_click",
            {"x": 1, "y": 2, "button": "right", "click_type": "single"},
            act.RightClick(point=Point(x=1, y=2)),
        ),
        ("mouse_dblclick", {"x": 1, "y": 2, "button": "left"}, act.DoubleClick(point=Point(x=1, y=2))),
        ("mouse_click", {"x": 1, "y": 2, "button": "middle", "click_type": "single"}, None),
        ("click", {"bid": "7", "button": "left", "click_type": "single"}, None),
        ("hover_at", {"x": 1, "y": 2, "duration": 1.0}, act.MouseMove(point=Point(x=1, y=2))),
        ("scroll_at", {"x": 1, "y": 2, "delta_x": 0, "delta_y": -9}, act.Scroll(dy=-9, point=Point(x=1, y=2))),
        (
            "mouse_drag_and_drop",
            {"from_x": 1, "from_y": 2, "to_x": 3, "to_y": 4},
            act.Drag(start=Point(x=1, y=2), point=Point(x=3, y=4)),
        ),
        ("keyboard_type", {"text": "a"}, act.Type(text="a")),
        ("keyboard_press", {"key": "Control+L"}, act.Key(keys=("Control", "L"))),
        ("goto", {"url": "http://a"}, act.Goto(url="http://a")),
        ("noop", {"noop_reason": "loading"}, act.Wait(seconds=5)),
        ("browser_nav", {"nav_type": "tab_focus", "index": 1}, act.SwitchTab(tab=1)),
        ("browser_nav", {"nav_type": "tab_focus", "index": -1}, None),
        ("browser_nav", {"nav_type": "go_back", "index": -1}, act.GoBack()),
        ("send_msg_to_user", {"msg": "hello"}, None),
        ("report_infeasible", {"infeasibility_reason": "no"}, act.Terminate(status="failure", text="no")),
        ("mouse_click", {"x": None, "y": float("inf")}, None),
        ("future_action", {"a": 1}, None),
    ],
)
def test_actions_map_only_where_they_mean_the_same(
    tmp_path: Path, name: str, fields: dict[str, Any], action: Any
) -> None:
    found = imported("molmoweb", folder_of(tmp_path / "in", made((name, fields))).parent, tmp_path / "run")
    (one,) = found.steps
    assert one.decision.action == action
    assert action is not None or one.decision.intent.startswith(f"{name}(")


@pytest.mark.parametrize(
    ("moves", "answer", "source"),
    [
        ([ANSWERED, ("send_msg_to_user", {"msg": "[ANSWER] 43"})], "43", "answer"),
        ([("send_msg_to_user", {"msg": "it is 44"}), EXIT], "it is 44", "message"),
        ([("goto", {"url": "x"}), EXIT], "think 2", "thought"),
    ],
)
def test_the_answer_and_its_fallbacks(tmp_path: Path, moves: list[Any], answer: str, source: str) -> None:
    found = imported("molmoweb", folder_of(tmp_path / "in", made(*moves)).parent, tmp_path / "run")
    assert (found.answer, facts(found)["answer_from"]) == (answer, source)


def test_errors_are_infra(tmp_path: Path) -> None:
    moves = made(("goto", {"url": "x"}))
    moves.append({"screenshot": "screenshot_002.png", "action": None, "error": {"ACTION_PREDICTION_ERROR": "429"}})
    found = imported("molmoweb", folder_of(tmp_path / "in", moves).parent, tmp_path / "run")
    assert found.stop is Stop.MODEL_ERROR and "429" in found.detail and len(reading.acts(found)) == 1


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"one": {}}, "'one' is no number"),
        ({"1": []}, "step 1 is no object"),
        ({"1": {}, "01": {}}, "there twice"),
        ([], "holds a list"),
        ({"1": {"action": {"action_output": {}}}}, "without action_str"),
        ({"1": {"screenshot": 3, "action": {"action_str": "a()"}}}, "'screenshot' is a number"),
    ],
)
def test_bad_steps_are_named(tmp_path: Path, steps: Any, message: str) -> None:
    put(tmp_path / "in" / "t" / "trajectory.json", steps)
    with pytest.raises(DataError, match=message):
        import_runs("molmoweb", tmp_path / "in", tmp_path / "run")


def test_the_site_before_the_goal_still_joins(tmp_path: Path) -> None:
    folder_of(tmp_path / "in", made(ANSWERED), metadata={"goal": "On http://a.com: read it", "eps_name": "x"})
    task = Task(id="Site--1", suite="webvoyager", site="Site", template="t", split="exam", goal="read  it")
    summary = import_runs("molmoweb", tmp_path / "in", tmp_path / "run", tasks=[task])
    assert summary["task_set"] == {"joined": ["Site--1"], "unknown": [], "other_goal": []}
