"""`rmsweb collect` against a real OpenAI-compatible endpoint: the 8B recipe, real pages, a chat reflector, a retry."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmsweb.chat import Message
from rmsweb.config import load
from rmsweb.records import Outcome, Reflection, TrainSample, Trajectory, Verdict
from rmsweb.store import Run
from rmsweb.testing import ScriptModel, ScriptServer
from rmsweb.web.sites import catalogue

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes/qwen3vl-8b.toml"
PLAN = "Read the topic's own page before answering."
TASKS = ["suite.count=2", 'suite.templates=["help.code"]']

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.slow]


def said(messages: list[Message]) -> str:
    return "\n".join(part["text"] for message in messages for part in message["content"] if part["type"] == "text")


def reply(thought: str, line: str, **call: object) -> str:
    body = json.dumps({"name": "computer_use", "arguments": call})
    return f"Thought: {thought}\nAction: {line}\n<tool_call>\n{body}\n</tool_call>"


def test_collect_and_samples_over_http(tmp_path: Path) -> None:
    tasks = catalogue.tasks(load(RECIPE, TASKS).suite)
    answers = {task.goal: str(catalogue.world_for(task).quest.answer) for task in tasks}

    def answering(messages: list[Message]) -> str:
        text = said(messages)
        if "Failure codes:" in text:
            assert not any(answer in text for answer in answers.values()), "no reference reaches the reflector"
            return json.dumps({"first_bad_step": 1, "code": "answer.wrong", "evidence": [1], "cause": "A guess.",
                               "lesson": "Look first.", "plan": PLAN})  # fmt: skip
        goal = next(goal for goal in answers if goal in text)
        if "Steps so far: none." in text:
            return reply("I look around.", "move to the middle", action="mouse_move", coordinate=[500, 500])
        # Without guidance a guess; with it what reading would have found.
        known = answers[goal] if PLAN in text else "nothing"
        return reply("I know it now.", "answer", action="answer", text=known)

    with ScriptServer(ScriptModel(answering)) as server:
        point = [f"{model}.base_url={server.base_url}" for model in ("collect.policy", "collect.reflector_model")]
        sets = [*TASKS, *point, "browser.concurrency=2", "browser.browsers=1", "collect.retries=1"]
        command = [sys.executable, "-m", "rmsweb", "collect", "-c", str(RECIPE), "-o", str(tmp_path / "collect")]
        command += ["--quiet", *(part for item in sets for part in ("--set", item))]
        environment = {**os.environ, "OPENAI_API_KEY": "sk-never-stored"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        policy = [r for r in server.requests if "Failure codes:" not in json.dumps(r.body)]
    assert all(r.body["model"] == "Qwen/Qwen3-VL-8B-Instruct" for r in policy)
    assert "data:image/png;base64," in json.dumps(policy[0].body), "the policy sees the page"

    run = Run.read_only(tmp_path / "collect")
    verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
    found = {t.id: (t, verdicts[t.id].success) for t in run.read("trajectory", Trajectory)}
    assert sorted((t.attempt, ok) for t, ok in found.values()) == [(0, False), (0, False), (1, True), (1, True)]
    assert all(PLAN in t.advice for t, _ in found.values() if t.attempt == 1)
    notes = run.read("reflection", Reflection)
    assert len(notes) == 2 and {n.outcome for n in notes} == {Outcome.FAILURE} and {n.plan for n in notes} == {PLAN}
    assert not any(b"sk-never-stored" in path.read_bytes() for path in (tmp_path / "collect").glob("*.json*"))

    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert again.returncode == 0, "everything is there: the endpoint, gone by now, is not asked"
    samples = [sys.executable, "-m", "rmsweb", "samples", "-c", str(RECIPE), "-o", str(tmp_path / "samples")]
    made = subprocess.run(
        [*samples, "--from", str(tmp_path / "collect"), "--quiet"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-2000:]
    lines = Run.read_only(tmp_path / "samples").read("sample", TrainSample)
    assert lines and not any(PLAN in line.model_dump_json() for line in lines)


def test_an_exam_that_lost_its_endpoint_is_owed_and_goes_on(tmp_path: Path) -> None:
    goals = [task.goal for task in catalogue.tasks(load(RECIPE, [*TASKS, 'suite.split="heldout"']).suite)]
    broken = {goals[1]}

    def answering(messages: list[Message]) -> str:
        if any(goal in said(messages) for goal in broken):
            raise RuntimeError("the endpoint is gone")
        return reply("I guess.", "answer", action="answer", text="nothing")

    sets = [*TASKS, 'suite.split="heldout"', "eval.tasks=2", "eval.controls=0", "eval.infra_retries=0"]
    sets += ["eval.template_tasks=0", "eval.miniwob_tasks=0", "browser.concurrency=1", "policy.attempts=1"]
    seen = []
    with ScriptServer(ScriptModel(answering)) as server:
        sets.append(f"policy.base_url={server.base_url}")
        command = [sys.executable, "-m", "rmsweb", "eval", "-c", str(RECIPE), "-o", str(tmp_path / "exam"), "--quiet"]
        command += ["--from", "served=endpoint", *(part for item in sets for part in ("--set", item))]
        for _ in range(2):
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
            run = Run.read_only(tmp_path / "exam")
            seen.append((run.finished, sorted(t.stop.value for t in run.read("trajectory", Trajectory))))
            assert ("1 episode had no model or no browser" in done.stderr) is not run.finished
            broken.clear()
    assert seen == [(False, ["answered", "model_error"]), (True, ["answered", "answered"])]
