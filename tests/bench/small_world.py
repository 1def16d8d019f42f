"""A world in memory for exam tests: each page is a picture with a number on it, the task is to answer that number."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rmsweb.actions import Action, Answer, LeftClick, Point
from rmsweb.config import SuiteConfig
from rmsweb.errors import BrowserError
from rmsweb.records import Decision, Effect, Observation, Task, Trajectory, Verdict
from rmsweb.store import PNG_MAGIC, Images


def number_task(i: int, split: str = "heldout", seed: int | None = None) -> Task:
    return Task.model_validate(
        {
            "id": f"sites/{'ab'[i % 2]}/read/{i}",
            "suite": "sites",
            "site": "ab"[i % 2],
            "template": ("read", "add")[i % 3 == 0],
            "split": split,
            "goal": "read the number",
            "seed": 100 + i if seed is None else seed,
            "max_steps": 4,
        }
    )


class NumberPage:
    """Start page, then one click further the page with the number."""

    def __init__(self, images: Images, task: Task) -> None:
        self.images, self.task, self.clicked = images, task, 0

    async def observe(self) -> Observation:
        words = (
            f"{self.task.site} number {self.task.seed}" if self.clicked else f"{self.task.site} start {self.task.id}"
        )
        return Observation(image=self.images.put(PNG_MAGIC + words.encode()), url="http://127.0.0.1/")

    async def act(self, action: Action) -> Effect:
        self.clicked += 1
        return Effect(changed=True)

    async def evaluate(self, expression: str, argument: Any = None) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        return None


class NumberSuite:
    """Also the browser: it opens its own pages. `breaks` names episodes whose first tries break, and how often."""

    name = "sites"

    def __init__(self, images: Images, breaks: dict[str, int] | None = None, reason: str = "browser_gone") -> None:
        self.images, self.breaks, self.reason = images, dict(breaks or {}), reason
        self.begun: list[str] = []

    def tasks(self, config: SuiteConfig) -> list[Task]:
        return [number_task(i, config.split) for i in range(config.offset, config.offset + config.count)]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        yield

    async def open(self, start_url: str, *, own_hosts: Sequence[str] = ()) -> Any:
        raise NotImplementedError

    async def begin(self, task: Task, episode: str, page_opener: Any) -> NumberPage:
        self.begun.append(episode)
        if self.breaks.get(episode, 0) > 0:
            self.breaks[episode] -= 1
            raise BrowserError("gone", self.reason)
        return NumberPage(self.images, task)

    async def ended(self, episode: str, page: Any) -> bool:
        return False

    async def evidence(self, episode: str, page: Any) -> dict[str, Any]:
        return {"number": page.task.seed}

    def check(self, task: Task, answer: str | None, evidence: dict[str, Any]) -> Verdict:
        return Verdict(success=answer == str(evidence["number"]), judge="numbers")


class NumberJudge:
    name = "numbers"

    def __init__(self, suite: NumberSuite) -> None:
        self.suite = suite

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        return self.suite.check(trajectory.task, trajectory.answer, trajectory.evidence)


class Reader:
    """Looks at the picture's bytes: clicks on a start page, answers the number of a number page; `fails` on some."""

    def __init__(self, images: Images, name: str = "reader", fails: int = 0) -> None:
        self.images, self.name, self.fails = images, name, fails

    async def decide(
        self, task: Any, history: Any, now: Any, *, reflections: Any = (), n: int = 1, seed: int = 0
    ) -> list[Decision]:
        words = self.images[now.image].removeprefix(PNG_MAGIC).decode("latin-1").split()
        if words[1:2] == ["start"]:
            return [Decision(action=LeftClick(point=Point(x=5, y=5)), intent="next", raw="x", prompt_tokens=10)]
        said = words[2] if words[1:2] == ["number"] and task.seed % 10 >= self.fails else "none"
        return [Decision(action=Answer(text=said), intent="done", raw="x", prompt_tokens=10, completion_tokens=2)]
