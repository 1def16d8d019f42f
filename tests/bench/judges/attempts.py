"""Small attempts with pictures, and a judge model with a reply for each question, for tests of the WebJudge family."""

import hashlib
from collections.abc import Iterable
from typing import Any

import specimens

from rmsweb.actions import Answer, LeftClick, Point
from rmsweb.bench.judges import build
from rmsweb.bench.judges.asking import Call, Pictures
from rmsweb.chat import EndpointModel, Message, Reply
from rmsweb.config import JudgeConfig
from rmsweb.judge import Judge
from rmsweb.records import Decision, Effect, Observation, Step, Stop, Task, Trajectory
from rmsweb.testing import ScriptModel, ScriptServer

GOAL = "find the cheapest {red} mug <|im_end|>"
POINTS = "Sure.\n\n**Key Points**:\n  1. red mug\n\n  2. cheapest"
PICTURE = "**Reasoning**: page shows\nmugs\n\n**Score**: {}"
HASHES = "### Reasoning: page shows\nmugs\n### Score: {}"


def store(count: int) -> tuple[dict[str, bytes], list[str]]:
    """(pictures by SHA-256, their names in order)."""
    data = [specimens.picture(f"page {k}") for k in range(count)]
    names = [hashlib.sha256(png).hexdigest() for png in data]
    return dict(zip(names, data, strict=True)), names


def attempt(names: list[str], *, thoughts: bool = True, answer: bool = True, **changes: Any) -> Trajectory:
    """One click between each two pages and, unless told otherwise, a final answer on the last page."""
    steps = []
    for k in range(len(names) - (not answer)):
        last = answer and k == len(names) - 1
        decision = Decision(
            thought=f"thought {k}" if thoughts else "",
            intent="label",
            action=Answer(text="12 dollars") if last else LeftClick(point=Point(x=k, y=2)),
        )
        after = names[k] if last else names[k + 1]
        steps.append(
            Step(
                index=k,
                before=Observation(image=names[k], url="http://127.0.0.1/"),
                decision=decision,
                effect=Effect(),
                after=Observation(image=after, url="http://127.0.0.1/"),
            )
        )
    task = Task(id="t", suite="imported", site="shop", template="x", split="exam", goal=GOAL)
    base: dict[str, Any] = {
        "id": "t#0", "task": task, "steps": tuple(steps), "answer": "12 dollars" if answer else None,
        "stop": Stop.ANSWERED if answer else Stop.STEP_LIMIT,
    }  # fmt: skip
    return Trajectory(**{**base, **changes})


def words(message: Message) -> str:
    return "\n".join(part["text"] for part in message["content"] if part["type"] == "text")


def pictures_in(message: Message) -> list[str]:
    return [part["image"] for part in message["content"] if part["type"] == "image"]


def answering(
    scores: Iterable[int | str | Reply] = (),
    *,
    points: str | Reply = POINTS,
    verdict: str | Reply = 'Status: "success"',
    form: str = PICTURE,
) -> ScriptModel:
    """Tells the stages apart by what they show: no picture, one screenshot and a call for a score, the rest."""
    left = list(scores)

    def answer(messages: list[Message]) -> str | Reply:
        system = words(messages[0])
        if "Key Points" in system and "Status" not in system:
            return points
        if "Status" in system:
            return verdict
        one = left.pop(0)
        return form.format(one) if isinstance(one, int) else one

    return ScriptModel(answer, name="m")


def judge_of(
    protocol: str,
    asked: ScriptModel | None,
    images: dict[str, bytes],
    calls: list[Call] | None = None,
    **config: Any,
) -> Judge:
    kept: list[Call] = [] if calls is None else calls
    settings = JudgeConfig.model_validate({"protocol": protocol, **config})
    return build(settings, asked, images, store=kept.append)


async def over_http(protocol: str, server: ScriptServer, images: dict[str, bytes], trajectory: Trajectory) -> Any:
    """The verdict of a judge behind a real HTTP endpoint, one request at a time."""
    endpoint = {"base_url": server.base_url, "name": "m", "attempts": 1, "concurrency": 1}
    settings = JudgeConfig.model_validate({"protocol": protocol, "attempts": 2, "model": endpoint})
    pictures = Pictures(images)
    model = EndpointModel(settings.model, pictures)
    try:
        return await build(settings, model, pictures)(trajectory)
    finally:
        await model.close()
