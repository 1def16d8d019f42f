"""A judge model asked its own kind of question, for `rmsweb doctor`: one small attempt that did its task.

Owns that attempt, and how many pictures a protocol sends at most in one question (seen by letting the protocol judge a
long attempt with scripted replies, so that no list of limits has to be kept true). Stores nothing, scores nothing.
"""

import hashlib
import io
from collections.abc import Sequence

from rmsweb.actions import Action, Answer, LeftClick, Point
from rmsweb.bench.judges import build, plain_name
from rmsweb.bench.judges.asking import Call, Pictures
from rmsweb.bench.judges.known import KNOWN
from rmsweb.chat import ChatModel, Message, Reply
from rmsweb.config import JudgeConfig
from rmsweb.records import Decision, Effect, Observation, Step, Stop, Task, Trajectory, Verdict
from rmsweb.testing import ScriptModel

SMALL = (64, 48)
"""CSS pixels of the pictures that are only counted."""


class Overheard:
    """A chat model whose replies are kept as they come."""

    def __init__(self, model: ChatModel) -> None:
        self.model, self.name = model, model.name
        self.replies: list[Reply] = []

    async def complete(
        self,
        messages: list[Message],
        *,
        n: int = 1,
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_tokens: int = 512,
        seed: int | None = None,
    ) -> list[Reply]:
        """As the model's own."""
        found = await self.model.complete(
            messages, n=n, temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed
        )
        self.replies += found
        return found

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


def asks_for_one_verdict(config: JudgeConfig) -> bool:
    """False for the rubric verifier: a dozen questions an attempt, each with a reply form of its own."""
    return not plain_name(config.protocol).startswith("rubric/")


async def most_pictures(config: JudgeConfig, steps: int) -> int:
    """Pictures of the question that has most of them, of an attempt of `steps` steps. Raises ConfigError as `build`."""
    if not asks_for_one_verdict(config):
        return 1  # its questions about pictures are about one each
    calls: list[Call] = []
    images = dict(page_picture(SMALL, number) for number in range(steps))
    script = ScriptModel([KNOWN[plain_name(config.protocol)].success], repeat=True)
    await build(config, script, images, store=calls.append)(attempt(list(images), SMALL))
    return max((call.pictures for call in calls), default=0)


async def one_verdict(config: JudgeConfig, model: ChatModel, images: Pictures, viewport: tuple[int, int]) -> Verdict:
    """The judge's verdict on an attempt of two steps, read by the protocol's own parser; nothing is asked twice.

    `images`: at least two of `page_picture`, in which `model` looks its pictures up.
    """
    judge = build(config.model_copy(update={"attempts": 1}), model, images)
    return await judge(attempt(list(images)[:2], viewport))


def attempt(images: Sequence[str], viewport: tuple[int, int]) -> Trajectory:
    """A click on each page but the last, which is named in the answer: what the task asked for. `images`: SHA-256 of
    `page_picture` 0, 1, ..."""
    middle = Point(x=viewport[0] // 2, y=viewport[1] // 2)
    last = len(images) - 1
    pages = [Observation(image=image, url=f"http://doctor.test/{k}", title="Doctor") for k, image in enumerate(images)]
    acts: list[tuple[str, Action]] = [("Click the button named OK.", LeftClick(point=middle))] * last
    acts.append((f"The page says page {last}.", Answer(text=f"page {last}")))
    steps = tuple(
        Step(
            index=k,
            before=pages[k],
            decision=Decision(thought=thought, intent=thought, action=action),
            effect=Effect(changed=k < last),
            after=pages[min(k + 1, last)],
        )
        for k, (thought, action) in enumerate(acts)
    )
    goal = f"Click the button named OK until the page says 'page {last}', then answer with these two words."
    task = Task(
        id="doctor", suite="doctor", site="doctor", template="doctor", split="exam", goal=goal,
        start_url="http://doctor.test/0",
    )  # fmt: skip
    return Trajectory(
        id="doctor#0", task=task, steps=steps, answer=f"page {last}", stop=Stop.ANSWERED, viewport=viewport
    )


def page_picture(viewport: tuple[int, int], number: int) -> tuple[str, bytes]:
    """(SHA-256, PNG) of a page with a button named OK; each number gives another picture."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", viewport, "white")
    pen = ImageDraw.Draw(image)
    width, height = viewport
    left, top = width // 2 - 40, height // 2 - 14
    pen.rectangle((left, top, left + 80, top + 28), fill="#dde4ff", outline="#223344")
    pen.text((left + 30, top + 8), "OK", fill="black")
    pen.text((8, 8), f"page {number}", fill="black")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return hashlib.sha256(buffer.getvalue()).hexdigest(), buffer.getvalue()
