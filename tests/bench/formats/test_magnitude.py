"""Synthetic files of Magnitude's schema (wv-runner.ts, agentMemory.ts): no real one is at hand."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from foreign import facts, imported, put, trajectories, verdicts
from specimens import picture

from rmsweb.bench import metrics, reading
from rmsweb.bench.formats import import_runs
from rmsweb.errors import DataError
from rmsweb.records import Stop, Task

TASK = Task(id="Apple--3", suite="s", site="s", template="t", split="exam", goal="compare the two")


def said(value: Any) -> dict[str, Any]:
    return {"type": "primitive", "content": value}


def page(text: str, **fields: Any) -> dict[str, Any]:
    shot = {"type": "media", "format": "png", "storage": "base64", "base64": base64.b64encode(picture(text)).decode()}
    return {"source": "connector:web", "role": "user", "timestamp": 1, "data": {"screenshot": shot, **fields}}


def took(name: str, **arguments: Any) -> dict[str, Any]:
    data = said(json.dumps({"variant": name, **arguments}))
    return {"source": f"action:taken:{name}", "role": "user", "timestamp": 2, "data": data}


def thought(text: str) -> dict[str, Any]:
    return {"source": "thought", "role": "user", "timestamp": 2, "data": said(text)}


def result(root: Path, observations: list[Any], name: str = "Apple--3", verdict: Any = None, **top: Any) -> Path:
    if verdict is not None:
        put(root / f"{name}.eval.json", verdict)
    totals = {"time": 90_500, "actionCount": 3, "totalInputTokens": 700, "totalOutputTokens": 30}
    return put(root / f"{name}.json", {**totals, "memory": {"observations": observations}, **top})


WHOLE = [
    page("1"),
    thought("look there"),
    took("mouse:click", x=30, y=41),
    took("keyboard:type", content="mug"),
    {"source": "action:result:mouse:click", "data": said("ok")},
    page("2", tabs=[said("A")]),
    took("answer", input="42"),
]


def test_actions_pictures_answer_tokens_and_verdict(tmp_path: Path) -> None:
    result(tmp_path / "in", WHOLE, verdict={"reasoning": "it is shown", "result": "SUCCESS"})
    found = imported("auto", tmp_path / "in", tmp_path / "run", tasks=[TASK], model="m")
    acts = reading.acts(found)
    assert [a.line for a in acts] == ["mouse:click(x=30, y=41)", 'type(text="mug")', 'answer(text="42")']
    assert [bool(a.before) for a in acts] == [True, False, True] and acts[0].thought == "look there"
    assert [number for number, _ in reading.screenshots(found)] == [0, 1]
    assert (found.answer, found.stop, found.wall_s, found.task) == ("42", Stop.ANSWERED, 90.5, TASK)
    assert (
        facts(found)["n_steps"] == 3
        and "notes" not in facts(found)
        and sum(s.decision.prompt_tokens for s in found.steps) == 700
    )
    (verdict,) = verdicts(tmp_path / "run")
    assert verdict.success is True and verdict.judge == "imported:eval.json" and verdict.reason == "it is shown"


@pytest.mark.parametrize(
    ("top", "stop"),
    [
        ({"error": "Task timed out after 20 minutes", "timedOut": True}, Stop.STEP_LIMIT),
        ({"error": "net::ERR_ABORTED", "timedOut": False}, Stop.BROWSER_ERROR),
        ({}, Stop.DONE),
    ],
)
def test_how_an_attempt_without_an_answer_ended(tmp_path: Path, top: dict[str, Any], stop: Stop) -> None:
    result(tmp_path / "in", WHOLE[:3], **top)
    assert imported("magnitude", tmp_path / "in", tmp_path / "run", tasks=[TASK]).stop is stop
    assert verdicts(tmp_path / "run") == []


def test_the_last_answer_counts_and_an_error_after_it_is_kept(tmp_path: Path) -> None:
    result(tmp_path / "in", [*WHOLE, took("answer", input={"a": 1})], error="closed")
    found = imported("magnitude", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    assert (found.answer, found.stop, found.detail) == ('{"a": 1}', Stop.ANSWERED, "closed")


def test_odd_verdict_files_say_nothing_and_odd_data_is_no_crash(tmp_path: Path) -> None:
    lost = {"source": "action:taken:browser:nav", "data": {}}  # some versions write nested data as {}
    broken = {"source": "connector:web", "data": {"type": "media", "storage": "base64", "base64": "%%"}}
    text = {"source": "action:taken:answer", "data": said("plain words")}
    result(tmp_path / "in", [broken, lost, text], "a", verdict={"result": "PARTIAL"})
    result(tmp_path / "in", [], "b", verdict="no json", memory=None)
    tasks = [TASK.model_copy(update={"id": name}) for name in "ab"]
    import_runs("magnitude", tmp_path / "in", tmp_path / "run", tasks=tasks)
    first, second = sorted(trajectories(tmp_path / "run"), key=lambda t: t.task.id)
    assert [a.line for a in reading.acts(first)] == ["browser:nav()", 'answer(text="plain words")']
    assert any("no base64" in note for note in facts(first)["notes"])
    assert any("no verdict" in note for note in facts(second)["notes"]) and second.steps == ()
    assert [v.unjudged for v in verdicts(tmp_path / "run")] == ["no_verdict"]


def test_the_number_of_actions_that_is_stated_counts(tmp_path: Path) -> None:
    for name, observations, stated in (("a", WHOLE, 9), ("b", [], 15), ("c", [], 0)):
        result(tmp_path / "in", observations, name, actionCount=stated)
    tasks = [TASK.model_copy(update={"id": name}) for name in "abc"]
    import_runs("magnitude", tmp_path / "in", tmp_path / "run", tasks=tasks)
    found = trajectories(tmp_path / "run")
    assert [metrics.steps_of(t) for t in found] == [9, 15, None]
    assert facts(found[0])["notes"] == ["9 steps are stated, 3 acts are listed; the stated number counts"]
    assert "notes" not in facts(found[1]) and reading.viewport_of(found[1]) is None
    assert reading.viewport_of(found[0]) == (320, 224)


def test_half_letters_and_odd_times_are_read_without_harm(tmp_path: Path) -> None:
    half = {"source": "action:taken:answer", "data": said('{"input": "a\\ud800b"}')}
    result(tmp_path / "in", [half], time=-5)
    found = imported("magnitude", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    assert (found.answer, found.wall_s) == ("a?b", 0.0)
    result(tmp_path / "in2", [half], time=1e308 * 10)
    assert imported("magnitude", tmp_path / "in2", tmp_path / "run2", tasks=[TASK]).wall_s == 0.0


def test_an_observation_that_is_no_object_names_the_file(tmp_path: Path) -> None:
    result(tmp_path / "in", ["?"])
    with pytest.raises(DataError, match=r"entry 0 is no object"):
        import_runs("magnitude", tmp_path / "in", tmp_path / "run", tasks=[TASK])
