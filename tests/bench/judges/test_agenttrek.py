"""AgentTrek's and the autonomous judge: what they show, and how they read odd replies."""

from pathlib import Path

import attempts
import pytest

from rmsweb.bench.judges.asking import Call
from rmsweb.errors import ConfigError
from rmsweb.records import Step, Stop, Trajectory
from rmsweb.testing import Odd, ScriptServer

TREK, AUTO = "rmsweb/agenttrek", "rmsweb/autonomous"


def thinking(trajectory: Trajectory, thought: str) -> Trajectory:
    def one(step: Step) -> Step:
        return step.model_copy(update={"decision": step.decision.model_copy(update={"thought": thought})})

    return trajectory.model_copy(update={"steps": tuple(one(step) for step in trajectory.steps)})


async def test_agenttrek_shows_pairs_and_the_last_page() -> None:
    images, names = attempts.store(3)
    model, calls = attempts.answering(verdict='Status: "failure"'), []
    given = thinking(attempts.attempt(names), "first\n\nsecond")
    verdict = await attempts.judge_of(TREK, model, images, calls)(given)
    assert verdict.success is False and verdict.details["pictures"] == [2] and verdict.details["screenshots"] == 3
    said = attempts.words(model.calls[0][1])
    first = "Thought 1: first second\nAction 1: left_click(point=[0, 2])"
    assert f"{first}\n\nThought 2: first second\nAction 2: left_click(point=[1, 2])\n\nThe last" in said
    assert "12 dollars" not in said and "Thought 3" not in said
    assert len(attempts.pictures_in(model.calls[0][1])) == 1 and [call.key for call in calls] == ["verdict"]


async def test_a_missing_thought_is_an_empty_one() -> None:
    images, names = attempts.store(2)
    model = attempts.answering()
    assert (await attempts.judge_of(TREK, model, images)(attempts.attempt(names, thoughts=False))).success is True
    assert "Thought 1: \nAction 1: left_click" in attempts.words(model.calls[0][1])


async def test_pairs_end_where_a_submission_lists_no_more_thoughts_and_its_last_entry_is_no_action() -> None:
    images, names = attempts.store(4)
    shots = [[number, name] for number, name in enumerate(names[:3])]
    facts = {"format": "om2w_v2", "thoughts_listed": 1, "screenshots": shots}
    model = attempts.answering()
    given = attempts.attempt(names, answer=False, evidence={"imported": facts})
    await attempts.judge_of(TREK, model, images)(given)
    await attempts.judge_of(AUTO, model, images)(given)
    trek, auto = (attempts.words(call[1]) for call in model.calls)
    assert ("Action 1: left_click(point=[0, 2])" in trek, "Action 2" in trek) == (True, False)
    assert "2. left_click(point=[1, 2])" in auto and "3. left_click" not in auto


async def test_autonomous_shows_the_action_history() -> None:
    images, names = attempts.store(3)
    model = attempts.answering(verdict="Status: unsuccessful")
    verdict = await attempts.judge_of(AUTO, model, images)(attempts.attempt(names, answer=False))
    assert verdict.success is False and verdict.details["upstream_label"] == 1
    said = attempts.words(model.calls[0][1])
    assert "1. left_click(point=[0, 2])\n2. left_click(point=[1, 2])" in said and "thought" not in said
    assert verdict.details["pictures"] == [2]


@pytest.mark.parametrize("protocol", [TREK, AUTO])
@pytest.mark.parametrize(
    ("said", "success", "label", "unjudged"),
    [
        ("Thoughts: ok\nStatus: success", True, 1, ""),
        ("I cannot tell from these pictures.", None, 0, "no_verdict"),
        ("", None, 0, "no_verdict"),
        (Odd(content=None, refusal="I can't help with that."), None, 0, "refused"),
        (Odd(content="Thoughts: it", finish="length"), None, 0, "truncated"),
        (Odd(status=400, body='{"error": {"message": "context length exceeded"}}'), None, None, "overflow"),
        (Odd(status=500), None, None, "infra"),
    ],
)
async def test_odd_replies_over_http(
    protocol: str, said: str | Odd, success: bool | None, label: int | None, unjudged: str
) -> None:
    images, names = attempts.store(2)
    with ScriptServer([said]) as server:
        verdict = await attempts.over_http(protocol, server, images, attempts.attempt(names))
    assert (verdict.success, verdict.unjudged) == (success, unjudged)
    assert verdict.details.get("upstream_label") == label


@pytest.mark.parametrize("protocol", [TREK, AUTO])
async def test_only_the_last_page_has_to_be_stored(protocol: str) -> None:
    images, names = attempts.store(3)
    model = attempts.answering()
    first_gone = {name: data for name, data in images.items() if name != names[0]}
    assert (await attempts.judge_of(protocol, model, first_gone)(attempts.attempt(names))).success is True
    last_gone = {name: data for name, data in images.items() if name != names[2]}
    verdict = await attempts.judge_of(protocol, model, last_gone)(attempts.attempt(names))
    assert verdict.unjudged == "missing_evidence" and len(model.calls) == 1
    none = attempts.attempt([], answer=False, steps=())
    assert (await attempts.judge_of(protocol, model, images)(none)).unjudged == "missing_evidence"
    broken = attempts.attempt(names, stop=Stop.MODEL_ERROR)
    assert (await attempts.judge_of(protocol, model, images)(broken)).unjudged == "infra"


async def test_wording_of_a_pack(tmp_path: Path) -> None:
    file = tmp_path / "agenttrek_eval.py"
    file.write_text(
        "def AgentTrek_eval(task, last_actions, thoughts, images_path):\n"
        '    system_msg = """S Status"""\n'
        '    prompt = """G {task}\n{thoughts_and_actions}\nend"""\n'
    )
    images, names = attempts.store(2)
    model, calls = attempts.answering(), list[Call]()
    judge = attempts.judge_of("agenttrek", model, images, calls, pack=str(file), changed_pack=True)
    assert (await judge(attempts.attempt(names))).success is True and judge.name.startswith("changed-")
    assert attempts.words(model.calls[0][1]).startswith("G find the cheapest {red} mug")
    with pytest.raises(ConfigError):
        attempts.judge_of("autonomous", None, images, pack=str(file), changed_pack=True)
