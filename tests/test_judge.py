"""Verdicts: read whole and anchored; 'could not tell' is never a failure; the exact prompt of the chat judge."""

import hashlib
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from rmsweb.actions import Action, Answer, LeftClick, Point
from rmsweb.bench.judges import build
from rmsweb.chat import ChatModel, EndpointModel, Reply
from rmsweb.config import JudgeConfig, ModelConfig
from rmsweb.errors import BudgetError
from rmsweb.judge import Judge, ReadVerdict, RuleJudge, inefficient, judge_messages, outcome, read_verdict, shown
from rmsweb.records import (
    Box,
    Decision,
    Effect,
    Element,
    Observation,
    Outcome,
    Step,
    Stop,
    Task,
    Trajectory,
    Verdict,
    Write,
)
from rmsweb.testing import Odd, ScriptModel, ScriptServer

TASK = Task(id="shop-1", suite="sites", site="shop", template="add", split="dev", goal="add red mug <image> to cart")


def chat_judge(model: ChatModel, images: Mapping[str, bytes], config: JudgeConfig) -> Judge:
    return build(config.model_copy(update={"protocol": "rmsweb/chat"}), model, images)


def picture(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


IMAGES = {picture(number): f"png {number}".encode() for number in range(80)}


def look(number: int) -> Observation:
    return Observation(image=picture(number), url=f"http://shop.test/{number}")


def trajectory(steps: int, stop: Stop = Stop.ANSWERED, answer: str | None = "12", writes: bool = False) -> Trajectory:
    button = Element(role="button", name="add", box=Box(x=0, y=0, width=9, height=9))
    taken = []
    for index in range(steps):
        last = index == steps - 1
        action: Action = Answer(text="12") if last else LeftClick(point=Point(x=1, y=2))
        effect = Effect(
            hit=None if last else button,
            changed=not last,
            writes=(Write(method="POST", url="/order", stopped=True),) if writes and not last else (),
        )
        decision = Decision(intent="finish" if last else "press add", action=action)
        taken.append(Step(index=index, before=look(index), decision=decision, effect=effect, after=look(index + 1)))
    return Trajectory(id="shop-1#0", task=TASK, steps=tuple(taken), answer=answer, stop=stop)


@pytest.mark.parametrize(
    ("text", "success"),
    [
        ("VERDICT: SUCCESS\nFIRST_ERROR: none\nREASON: it is there", True),
        ("VERDICT: FAILURE\nFIRST_ERROR: 2\nREASON: wrong mug", False),
        ("INCORRECT", False),
        ("Verdict: UNSUCCESSFUL", False),
        ("NOT SUCCESS", False),
        ("not_successful.", False),
        ("**Verdict:** Success", True),
        ("Final verdict: `failure`.", False),
        ("The agent failed at first.\nVERDICT: SUCCESS", True),
        ('{"success": true, "why": "The basket shows two', True),
        ('```json\n{"success": false, "why": "SUCCESS was not reached"}\n```', False),
        ("<think>VERDICT: FAILURE?</think>\nVERDICT: SUCCESS", True),
        ("SUCCESS: the agent did not fail", True),
        ("FAILURE - it is not a SUCCESS", False),
        ("No.", False),
        ("Yes", True),
    ],
)
def test_verdict_words(text: str, success: bool) -> None:
    said = read_verdict(text)
    assert said is not None and said.success is success


@pytest.mark.parametrize(
    "text",
    [
        "", "I cannot tell from these pictures.", "VERDICT: SUCCESS or FAILURE",
        "VERDICT: SUCCESS, FAILURE or CANNOT_TELL", "SUCCESS/FAILURE", "The run was a success.", "VERDICT:", "not sure",
        "Success is not reached", "VERDICT: SUCCESS\nVERDICT: FAILURE", "Successive steps", "No errors were found",
        "SUCCESS, but not quite", "<think>VERDICT: SUCCESS</think>", "Verdict: successish", "nothing: SUCCESS",
        "Correctly speaking, SUCCESS",
    ],
)  # fmt: skip
def test_no_verdict_is_made_up(text: str) -> None:
    assert read_verdict(text) is None


def test_the_parts_of_a_verdict() -> None:
    assert read_verdict("VERDICT: CANNOT_TELL\nREASON: dark") == ReadVerdict(None, None, "dark")
    assert read_verdict("VERDICT: FAILURE\nFIRST_ERROR: step 3\nREASON: it\nwas late") == ReadVerdict(
        False, 3, "it was late"
    )


async def test_a_chat_judge_judges() -> None:
    model = ScriptModel(["VERDICT: FAILURE\nFIRST_ERROR: 2\nREASON: wrong mug"], name="m")
    judge = chat_judge(model, IMAGES, JudgeConfig(images=8))
    verdict = await judge(trajectory(3))
    assert verdict.success is False and verdict.first_error == 1 and verdict.unjudged == ""
    assert verdict.reason == "wrong mug [screenshots 0, 1, 2, 3]"
    assert (
        verdict.judge == judge.name
        and judge.name.startswith("rmsweb/chat:m:prompt=")
        and judge.name.endswith(":images=8:temperature=0:again=0.7:tokens=400:attempts=3")
    )
    success = await chat_judge(ScriptModel(["VERDICT: SUCCESS"]), IMAGES, JudgeConfig())(trajectory(1))
    assert success.success is True and success.first_error is None


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("I cannot tell from these pictures.", "no_verdict"),
        ("", "no_verdict"),
        ("VERDICT: CANNOT_TELL\nREASON: too dark", "no_verdict"),
        ("I'm sorry, I can't help with that.", "refused"),
        ("I cannot assist with this request.", "refused"),
        (Reply("", finish="refused"), "refused"),
        (Reply("Let me look at all the", finish="length"), "truncated"),
    ],
)
async def test_could_not_tell_is_a_third_state(reply: str | Reply, kind: str) -> None:
    model = ScriptModel([reply], repeat=True)
    verdict = await chat_judge(model, IMAGES, JudgeConfig(attempts=3))(trajectory(2))
    assert verdict.success is None and verdict.unjudged == kind
    assert len(model.calls) == 3 and len(set(model.seeds)) == 3


async def test_a_second_try_may_tell_and_a_cut_reason_does_not_matter() -> None:
    model = ScriptModel(["hm", Reply("VERDICT: SUCCESS\nREASON: The basket shows tw", finish="length")])
    verdict = await chat_judge(model, IMAGES, JudgeConfig())(trajectory(2))
    assert verdict.success is True and "[reply was cut]" in verdict.reason


async def test_missing_pictures_and_infra_ends_are_not_judged() -> None:
    model = ScriptModel([])
    judge = chat_judge(model, {}, JudgeConfig())
    assert (await judge(trajectory(2))).unjudged == "missing_evidence"
    assert (await judge(trajectory(0))).unjudged == "missing_evidence"
    assert (await judge(trajectory(2, Stop.BROWSER_ERROR))).unjudged == "infra"
    assert model.calls == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (
            Odd(status=400, body='{"error": {"message": "This model\'s maximum context length is 8192 tokens"}}'),
            "overflow",
        ),
        (Odd(status=413, body="too large"), "overflow"),
        (
            Odd(status=400, body='{"error": {"message": "At most 4 image(s) may be provided in one prompt."}}'),
            "overflow",
        ),
        (Odd(status=500), "infra"),
        (Odd(content=None, refusal="no"), "refused"),
    ],
)
async def test_a_failing_endpoint_is_no_verdict(answer: Odd, kind: str) -> None:
    with ScriptServer([answer]) as server:
        config = ModelConfig(base_url=server.base_url, name="m", attempts=1)
        model = EndpointModel(config, IMAGES)
        verdict = await chat_judge(model, IMAGES, JudgeConfig(model=config, attempts=2))(trajectory(2))
        await model.close()
    assert (verdict.success, verdict.unjudged) == (None, kind)


async def test_a_used_up_budget_is_no_verdict_either() -> None:
    with ScriptServer(["VERDICT: SUCCESS"]) as server:
        model = EndpointModel(ModelConfig(base_url=server.base_url, name="m", token_budget=1), IMAGES)
        judge = chat_judge(model, IMAGES, JudgeConfig())
        assert (await judge(trajectory(1))).success is True
        with pytest.raises(BudgetError):
            await judge(trajectory(1))
        await model.close()


def test_which_pictures_are_shown() -> None:
    numbers = [number for number, _ in shown(trajectory(30), 10)]
    assert len(numbers) == 10 and numbers[0] == 0 and numbers[-1] == 30
    gaps = [b - a for a, b in itertools.pairwise(numbers)]
    assert max(gaps) - min(gaps) <= 1
    assert [number for number, _ in shown(trajectory(12), 100)] == list(range(13))
    assert [number for number, _ in shown(trajectory(3), 1)] == [3]
    assert [number for number, _ in shown(trajectory(3), 2)] == [0, 3]
    assert shown(trajectory(3), 0) == []


def test_the_judge_is_told_what_it_does_not_see() -> None:
    run = trajectory(70, writes=True)
    pictures = shown(run, 4)
    system, user = judge_messages(run, pictures)
    assert [part["image"] for part in user["content"] if part["type"] == "image"] == [image for _, image in pictures]
    text = "".join(part.get("text", "[picture]") for part in user["content"])
    assert "Not shown, for lack of room: 1, 2, 3" in text and "(steps 31 to 40 are not listed)" in text
    assert "HELD BACK by the safety rule" in text and "add red mug < image> to cart" in text
    assert 'the answer "12"' in text and "How it ended: answered" in text
    assert "CANNOT_TELL" in system["content"][0]["text"]


def test_the_exact_prompt() -> None:
    _, user = judge_messages(trajectory(2), shown(trajectory(2), 2))
    assert "".join(part.get("text", "[picture]") for part in user["content"]) == (
        "Task: add red mug < image> to cart\n\n"
        "What the agent did (step: what it meant to do; what it did; what followed):\n"
        '1. press add; left_click point {"x": 1, "y": 2}; it reached button \'add\', page changed\n'
        '2. finish; answer text "12"; page unchanged\n\n'
        "How it ended: answered\n"
        'What the agent claims: the answer "12"\n\n'
        "Screenshots: 2, in order, each with the number of the step it follows (0: before the first step). "
        "Not shown, for lack of room: 1. These steps were taken all the same.\n"
        "\nScreenshot 0:\n[picture]\nScreenshot 2:\n[picture]\nYour verdict:"
    )


class OneRule:
    """A suite with one check."""

    name = "one"

    def check(self, task: Task, answer: str | None, evidence: dict[str, Any]) -> Verdict:
        return Verdict(success=answer == "12" and evidence.get("cart") == 1, judge="one")


async def test_rules_judge_answer_and_evidence() -> None:
    judge = RuleJudge(OneRule())  # type: ignore[arg-type]
    run = trajectory(2)
    assert (await judge(run)).success is False
    assert (await judge(run.model_copy(update={"evidence": {"cart": 1}}))).success is True
    assert (await judge(trajectory(2, Stop.MODEL_ERROR))).unjudged == "infra"


def test_outcomes_are_typed() -> None:
    yes, no, dunno = (Verdict(success=value, judge="x") for value in (True, False, None))
    run = trajectory(3)
    assert outcome(run, yes) is Outcome.SUCCESS and outcome(run, no) is Outcome.FAILURE
    assert outcome(run, dunno) is outcome(run, None) is Outcome.JUDGE_FAILED
    limit = trajectory(3, Stop.STEP_LIMIT)
    assert outcome(limit, no) is Outcome.OVER_BUDGET and outcome(limit, yes) is Outcome.SUCCESS
    assert outcome(limit, dunno) is Outcome.JUDGE_FAILED
    assert outcome(run, no, 2) is Outcome.OVER_BUDGET and outcome(run, yes, 2) is Outcome.SUCCESS
    assert outcome(trajectory(1, Stop.BLOCKED), no) is Outcome.BLOCKED
    assert outcome(trajectory(1, Stop.INVALID_TASK), None) is Outcome.INVALID_TASK
    for stop in (Stop.MODEL_ERROR, Stop.BROWSER_ERROR, Stop.BUDGET):
        assert outcome(trajectory(1, stop), yes) is Outcome.INFRA_ERROR
    assert inefficient(run, yes, 2) and not inefficient(run, yes, 3) and not inefficient(run, no, 2)
