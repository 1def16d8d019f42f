"""Every protocol against every odd judge of the field log (area c, S36 to S44), over a real HTTP endpoint.

Whatever a judge answers, a failure is never made up, a success neither, and why there is no verdict is told apart.
"""

import pytest
from attempts import attempt as acted
from attempts import store

from rmsweb.bench.judges import build, names
from rmsweb.bench.judges.asking import Call, Pictures
from rmsweb.chat import EndpointModel
from rmsweb.config import JudgeConfig
from rmsweb.records import Task, Trajectory, Verdict
from rmsweb.testing import Odd, ScriptServer

OURS = ["rmsweb/chat", *(name for name in names() if name.startswith("rmsweb/"))]
TOO_LONG = Odd(status=400, body='{"error": {"message": "This model\'s maximum context length is 8192 tokens"}}')
RUBRIC = {"items": [{"criterion": "found", "description": "it is found", "max_points": 4}]}
TASK = Task.model_validate(
    {
        "id": "t", "suite": "webvoyager", "site": "Shop", "template": "Shop", "split": "exam", "goal": "How many mugs?",
        "start_url": "http://shop.test/", "meta": {"rubric": RUBRIC},
    }
)  # fmt: skip


def attempt(**settings: bool | str) -> tuple[Trajectory, dict[str, bytes]]:
    images, shas = store(3)
    return acted(shas, task=TASK, **settings), images


async def judged(protocol: str, reply: str | Odd, trajectory: Trajectory, images: dict[str, bytes]) -> Verdict:
    stored: list[Call] = []
    with ScriptServer([reply]) as server:
        model = {"base_url": server.base_url, "name": "m", "attempts": 1}
        config = JudgeConfig.model_validate({"protocol": protocol, "attempts": 2, "model": model})
        pictures = Pictures(images)
        asked = EndpointModel(config.model, pictures)
        try:
            verdict = await build(config, asked, pictures, store=stored.append)(trajectory)
        finally:
            await asked.close()
    assert verdict.model_dump_json() and all(call.model_dump_json() for call in stored), "what was said can be stored"
    return verdict


@pytest.mark.parametrize("protocol", OURS)
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("I cannot tell from these pictures.", "no_verdict"),
        ("", "no_verdict"),
        ("\ud83d the page", "no_verdict"),
        ("I'm sorry, I can't help with that.", "refused"),
        (Odd(content=None, refusal="no"), "refused"),
        (Odd(content="Let me look at the first", finish="length"), "truncated"),
        (TOO_LONG, "overflow"),
        (Odd(status=500), "infra"),
        (Odd(no_choices=True), "no_verdict"),
    ],
    ids=["cannot tell", "empty", "half a letter", "refusal", "refused", "cut", "too long", "down", "no choices"],
)  # fmt: skip
async def test_a_reply_without_a_verdict_is_neither_success_nor_failure(
    protocol: str, reply: str | Odd, kind: str
) -> None:
    verdict = await judged(protocol, reply, *attempt())
    assert verdict.success is None, verdict
    # A protocol whose first question failed may call an unreadable reply by that question's name.
    assert verdict.unjudged == kind or (
        verdict.unjudged in ("no_verdict", "truncated") and kind in ("truncated", "no_verdict")
    )


@pytest.mark.parametrize("protocol", OURS)
@pytest.mark.parametrize(
    "reply", ["INCORRECT", "Verdict: UNSUCCESSFUL", "NOT SUCCESS", "Status: unsuccessful", "FAILURE"]
)
async def test_a_negative_word_that_holds_a_positive_one_is_no_success(protocol: str, reply: str) -> None:
    assert (await judged(protocol, reply, *attempt())).success is not True


@pytest.mark.parametrize("protocol", OURS)
async def test_a_verdict_that_was_cut_behind_its_word_is_no_failure(protocol: str) -> None:
    cut = Odd(content='{"success": true, "why": "The basket shows two', finish="length")
    assert (await judged(protocol, cut, *attempt())).success is not False


@pytest.mark.parametrize("protocol", OURS)
async def test_a_screenshot_that_is_not_stored_is_no_failure(protocol: str) -> None:
    trajectory, images = attempt()
    gone = {sha: data for sha, data in images.items() if sha != trajectory.steps[1].before.image}
    verdict = await judged(protocol, "SUCCESS", trajectory, gone)
    last_only = protocol in ("rmsweb/agenttrek", "rmsweb/autonomous")
    assert verdict.unjudged == "missing_evidence" or (last_only and verdict.success is None), verdict


@pytest.mark.parametrize("protocol", OURS)
async def test_the_agents_own_claim_at_the_step_limit_is_no_success(protocol: str) -> None:
    trajectory, images = attempt(answer=False)
    trajectory = trajectory.model_copy(update={"answer": "All done!"})
    assert (await judged(protocol, "I cannot tell.", trajectory, images)).success is not True
