"""Synthetic rows of browser-use's benchmark (run_eval.py): no real one is at hand."""

import base64
from pathlib import Path
from typing import Any

import pytest
from foreign import facts, imported, put, trajectories, verdicts
from specimens import picture

from rmsweb.bench import reading
from rmsweb.bench.formats import import_runs
from rmsweb.bench.metrics import Outcome, result_of, steps_of
from rmsweb.records import Stop

STEPS = ["Step 1:\nActions: [{'navigate': {'url': 'http://a/'}}]", "Step 2:\nActions: [{'done': {'text': '42'}}]"]
JUDGED = {"reasoning": "seen", "verdict": True, "failure_reason": "", "impossible_task": False, "reached_captcha": True}


def row(root: Path, trace: dict[str, Any] | None = None, **top: Any) -> Path:
    shots = [base64.b64encode(picture(text)).decode() for text in "12"]
    whole = {"agent_task": "find it", "final_result": "42", "agent_steps": STEPS, "ground_truth": "SECRET"}
    fields = {"metrics": {"steps": 2, "duration": 31.5, "cost": 0.02}, **top}
    return put(root / "t1.json", {"agent_trace": {**whole, "screenshots_b64": shots, **(trace or {})}, **fields})


def test_a_judged_row_with_its_steps_pictures_cost_and_flags(tmp_path: Path) -> None:
    row(tmp_path / "in", judgement=JUDGED)
    found = imported("auto", tmp_path / "in", tmp_path / "run", model="bu")
    acts = reading.acts(found)
    assert [a.final for a in acts] == [False, True] and all(a.before for a in acts) and "\n" not in acts[0].line
    assert (found.answer, found.stop, found.wall_s, found.task.goal) == ("42", Stop.ANSWERED, 31.5, "find it")
    assert facts(found)["n_steps"] == 2 and found.policy == "bu" and facts(found)["cost"] == 0.02
    (verdict,) = verdicts(tmp_path / "run")
    assert verdict.success is True and verdict.judge == "imported:judgement" and verdict.details["reached_captcha"]
    assert "SECRET" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("error", "stop", "outcome", "stored"),
    [
        ("Task timed out after 1800s", Stop.STEP_LIMIT, Outcome.OVER_BUDGET, [False]),
        ("ConnectionError: refused", Stop.BROWSER_ERROR, Outcome.INFRA_ERROR, []),
    ],
)
def test_what_timed_out_is_over_budget_and_what_broke_is_an_infra_error(
    tmp_path: Path, error: str, stop: Stop, outcome: Outcome, stored: list[bool]
) -> None:
    nothing = {"final_result": None, "agent_steps": [], "screenshots_b64": []}
    row(tmp_path / "in", nothing, metrics={"steps": 0, "duration": 0, "cost": 0}, error=error)
    found = imported("bu_bench", tmp_path / "in", tmp_path / "run")
    said = verdicts(tmp_path / "run")
    assert found.stop is stop and [v.success for v in said] == stored
    counted = result_of("bu", found, said[0] if said else None)
    assert counted.outcome is outcome and counted.cost is None


def test_a_row_without_an_answer_has_none(tmp_path: Path) -> None:
    row(tmp_path / "in", {"final_result": "Agent did not return a result", "agent_steps": STEPS[:1]})
    found = imported("bu_bench", tmp_path / "in", tmp_path / "run")
    assert found.answer is None and found.stop is Stop.DONE and verdicts(tmp_path / "run") == []


def test_the_agent_is_in_the_name_of_the_runs_folder(tmp_path: Path) -> None:
    names = ("BrowserUse_0.11.5_browser_Local_model_x_start_at_1", "BrowserUse_0.11.5_browser_Local_model_y_start_at_2")
    for at, name in enumerate((*names, names[0].replace("at_1", "at_3"))):
        row(tmp_path / "run_data" / name, metrics={"steps": 2, "duration": 5.0 + at, "cost": 0.02})
    summary = import_runs("bu_bench", tmp_path / "run_data", tmp_path / "run")
    agent = "BrowserUse_0.11.5_browser_Local_model"
    assert [t.id for t in trajectories(tmp_path / "run")] == [
        f"{agent}_x/t1#0", f"{agent}_x/t1#1", f"{agent}_y/t1#0",
    ]  # fmt: skip
    assert summary["runs_in_folders"] == "", "the folders' names tell the agents apart"


def test_an_answer_without_steps_is_no_step(tmp_path: Path) -> None:
    row(tmp_path / "in", {"agent_steps": [], "screenshots_b64": []}, metrics={"duration": 3})
    assert steps_of(imported("bu_bench", tmp_path / "in", tmp_path / "run")) is None
