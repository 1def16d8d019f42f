"""A shop of three pages in memory: what the mining tests roll policies out in. No browser."""

import hashlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from rmsweb.actions import Action, Answer, LeftClick, Point
from rmsweb.config import Config, EpisodeConfig, MineConfig, ProfileConfig
from rmsweb.records import Box, Decision, Effect, Element, Observation, ParseFault, Task, Verdict, Write

PAGES: dict[str, tuple[tuple[str, str], ...]] = {
    "start": (("link", "red mug"), ("link", "blue mug"), ("link", "help"), ("text", "welcome")),
    "help": (("text", "open at 9"), ("link", "home")),
    "red mug": (("button", "add"), ("link", "home"), ("text", "price 12")),
    "blue mug": (("button", "add"), ("link", "home"), ("text", "price 15")),
    "added": (("text", "in the cart"), ("link", "home")),
}


def elements(page: str) -> tuple[Element, ...]:
    rows = enumerate(PAGES[page])
    return tuple(
        Element(role=r, name=n, box=Box(x=0, y=32 * i, width=100, height=28), selector=f"#{i}")  # type: ignore[arg-type]
        for i, (r, n) in rows
    )


def click(page: str, name: str) -> LeftClick:
    box = next(e.box for e in elements(page) if e.name == name)
    return LeftClick(point=Point(x=16, y=round(box.y + box.height / 2)))


class ShopPage:
    def __init__(self, images: dict[str, bytes], root: str) -> None:
        self.images, self.root = images, root
        self.page, self.cart = "start", list[str]()

    async def observe(self) -> Observation:
        data = self.page.encode()
        sha = hashlib.sha256(data).hexdigest()
        self.images[sha] = data
        return Observation(image=sha, url=f"{self.root}/{self.page}", title=self.page, elements=elements(self.page))

    async def act(self, action: Action) -> Effect:
        point = getattr(action, "point", None)
        hit = next((e for e in elements(self.page) if point is not None and e.box.contains(point)), None)
        before, writes = self.page, ()
        if hit is not None and hit.name == "add":
            self.cart.append(self.page)
            self.page = "added"
            writes = (Write(method="POST", url=f"{self.root}/cart", status=303),)
        elif hit is not None and hit.role == "link":
            self.page = "start" if hit.name == "home" else hit.name
        return Effect(hit=hit, changed=self.page != before, writes=writes)

    async def close(self) -> None:
        return None


class ShopBrowser:
    """An async context manager, as the stage wants it; counts what it opened."""

    def __init__(self, images: Any, drift: bool = False) -> None:
        self.images, self.drift, self.opened = images, drift, 0

    async def __aenter__(self) -> "ShopBrowser":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def open(self, start_url: str, *, own_hosts: Sequence[str] = ()) -> ShopPage:
        self.opened += 1
        page = ShopPage(self.images, start_url)
        if self.drift:
            page.page = "help"
        return page


class ShopSuite:
    name = "shop"

    def __init__(self, count: int = 6) -> None:
        self.count = count

    def tasks(self, config: Any) -> list[Task]:
        return [make_task(i) for i in range(self.count)]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        yield

    async def begin(self, task: Task, episode: str, page_opener: Any) -> Any:
        return await page_opener(f"http://127.0.0.1:{9000 + len(episode)}/s/{abs(hash(episode))}")

    async def ended(self, episode: str, page: Any) -> bool:
        return False

    async def evidence(self, episode: str, page: Any) -> dict[str, Any]:
        return {"cart": list(page.cart)}

    def check(self, task: Task, answer: str | None, evidence: Mapping[str, Any]) -> Verdict:
        return Verdict(success=evidence["cart"] == ["red mug"] and answer == "done", judge="rules")

    async def judge(self, trajectory: Any) -> Verdict:
        return self.check(trajectory.task, trajectory.answer, trajectory.evidence)


class Chooser:
    """Says one of the names its table has for the page it sees; `?` is no action, `=x` the answer x."""

    def __init__(self, name: str, table: Mapping[str, Sequence[str]]) -> None:
        self.name, self.table, self.calls = name, table, 0

    async def decide(
        self, task: Task, history: Any, now: Observation, *, reflections: Any = (), n: int = 1, seed: int = 0
    ) -> list[Decision]:
        self.calls += 1
        rng = random.Random(seed)
        return [say(now.title, rng.choice(self.table[now.title])) for _ in range(n)]


def say(page: str, name: str) -> Decision:
    if name == "?":
        return Decision(raw="hm", fault=ParseFault(kind="no_call", message="no call"))
    if name.startswith("="):
        return Decision(action=Answer(text=name[1:]), intent="done", raw=name)
    if name == "void":
        return Decision(action=LeftClick(point=Point(x=310, y=200)), intent=name, raw=name)
    return Decision(action=click(page, name), intent=name, raw=name)


def make_task(number: int) -> Task:
    return Task(
        id=f"shop-{number}", suite="sites", site="shop", template="add", split="train",
        goal="add red mug to cart", seed=number, max_steps=7,
    )  # fmt: skip


GOOD = {
    "start": ["red mug"],
    "help": ["home"],
    "red mug": ["add"],
    "blue mug": ["home"],
    "added": ["=done"],
}
WEAK = {
    "start": ["red mug", "blue mug", "blue mug", "help", "?"],
    "help": ["home", "void"],
    "red mug": ["add", "add", "home"],
    "blue mug": ["add", "home", "home"],
    "added": ["=done"],
}
"""Near misses, dead ends, loops, unreadable replies."""


def settings(**mine: Any) -> Config:
    profile = ProfileConfig(viewport=(320, 224), coordinates="compact", layout="compact")
    return Config(
        profile=profile, episode=EpisodeConfig(max_steps=7), mine=MineConfig(**{"states": 24, "rollouts": 3, **mine})
    )


async def walk(*names: str, number: int = 0, attempt: int = 0) -> Any:
    """A trajectory made by clicking these names, and its verdict."""
    from rmsweb.rollout import episode

    images: dict[str, bytes] = {}
    left = list(names)

    class Script:
        name = "script"

        async def decide(self, task: Any, history: Any, now: Observation, **_: Any) -> list[Decision]:
            return [say(now.title, left.pop(0))]

    suite = ShopSuite()
    task = make_task(number).model_copy(update={"max_steps": len(names)})
    trajectory = await episode(task, Script(), suite, ShopBrowser(images), images, settings(), attempt=attempt)  # type: ignore[arg-type]
    return trajectory, await suite.judge(trajectory)


@pytest.fixture
def shop() -> SimpleNamespace:
    """The fake world, its policies and `walk`."""
    return SimpleNamespace(
        Suite=ShopSuite, Browser=ShopBrowser, Chooser=Chooser, GOOD=GOOD, WEAK=WEAK,
        walk=walk, settings=settings, task=make_task, click=click, elements=elements, say=say,
    )  # fmt: skip
