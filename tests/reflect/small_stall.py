"""A stall in memory on the compact grid: kinds, things of a kind on two pages, an order button, a note. No browser.

Words and pages are made up for these tests; none comes from the built-in sites.
"""

import hashlib
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from rmsweb.actions import Action, LeftClick, SelectOption, Type, Wait
from rmsweb.config import BrowserConfig, CollectConfig, Config, EpisodeConfig, ProfileConfig, SuiteConfig
from rmsweb.errors import BrowserError
from rmsweb.records import Box, Decision, Effect, Element, Observation, Step, Stop, Task, Trajectory, Verdict
from rmsweb.store import PNG_MAGIC, Images

EMBEDDED = ProfileConfig(
    name="embedded", viewport=(320, 224), coordinates="compact", images=0, history=2, layout="compact", theme="compact"
)
HUES, KINDS = ("amber", "ivory", "olive", "coral", "lilac", "slate"), ("kite", "vase", "sled", "harp")
Role = Literal["link", "button", "input", "select", "checkbox", "text", "other"]


def element(
    role: Role, name: str, column: int = 0, row: int = 0, *, width: int = 3, value: str = "", covered: bool = False
) -> Element:
    """An element on the 32 px grid."""
    box = Box(x=column * 32, y=row * 32 + 2, width=width * 32 - 2, height=28)
    return Element(role=role, name=name, box=box, value=value, covered=covered)


def observation(*elements: Element, url: str = "http://127.0.0.1/s/1/", title: str = "", **facts: Any) -> Observation:
    seen = repr([(e.role, e.name, e.value, e.box.x, e.box.y, e.covered) for e in elements])
    return Observation(
        image=hashlib.sha256((url + seen).encode()).hexdigest(), url=url, title=title, elements=elements, **facts
    )


def task(goal: str, ident: str = "t", **facts: Any) -> Task:
    values = {"suite": "stall", "site": "stall", "template": "order", "split": "train", "max_steps": 10, **facts}
    return Task.model_validate({"id": ident, "goal": goal, **values})


def step(
    index: int,
    before: Observation,
    action: Action | None,
    after: Observation,
    intent: str = "",
    hit: Element | None = None,
    thought: str = "",
    error: str = "",
) -> Step:
    effect = Effect(hit=hit, changed=before.image != after.image, error=error)
    decision = Decision(action=action, intent=intent, raw="x", thought=thought)
    return Step(index=index, before=before, decision=decision, effect=effect, after=after)


def trajectory(
    goal: str, *steps: Step, stop: Stop = Stop.ANSWERED, answer: str | None = "done", **facts: Any
) -> Trajectory:
    about = facts.pop("task", None) or task(goal)
    values = {"viewport": (320, 224), "coordinates": "compact", **facts}
    ident = values.pop("id", f"reflect/{about.id}#0")
    return Trajectory(id=ident, task=about, steps=steps, stop=stop, answer=answer, **values)


class StallPage:
    """One visitor's stall: state and page are functions of the actions so far."""

    def __init__(self, images: Images, seed: int) -> None:
        self.images, self.path, self.ordered = images, "", list[str]()
        draw = random.Random(seed)
        self.things = {kind: draw.sample(HUES, 5) for kind in KINDS}
        self.kinds = draw.sample(KINDS, 4)
        self.seen: Observation | None = None

    def elements(self) -> list[Element]:
        top = [element("link", "home", 0, 0), element("link", "about", 4, 0)]
        kind, _, rest = self.path.partition("/")
        if self.path == "":
            return [*top, *(element("link", k, 0, 1 + i) for i, k in enumerate(self.kinds))]
        if kind not in KINDS:
            note = "thank you" if kind == "about" else f"ordered {rest}"
            return [*top, element("text", note, 0, 2, width=6)]
        if rest in ("", "2"):
            hues = self.things[kind][3:] if rest else self.things[kind][:3]
            rows = [element("link", f"{hue} {kind}", 0, 1 + i, width=5) for i, hue in enumerate(hues)]
            return [*top, *rows, *([] if rest else [element("link", "next", 6, 5)])]
        return [*top, element("text", rest, 0, 1, width=5), element("button", "order", 0, 3)]

    async def observe(self) -> Observation:
        now = observation(*self.elements(), url=f"http://127.0.0.1/s/1/{self.path}")
        self.seen = now.model_copy(update={"image": self.images.put(PNG_MAGIC + now.image.encode())})
        return self.seen

    async def act(self, action: Action) -> Effect:
        assert isinstance(action, LeftClick | Type | SelectOption | Wait), action
        point = getattr(action, "point", None)
        hit = next((e for e in self.elements() if point is not None and e.box.contains(point)), None)
        before = self.path
        if hit is not None and isinstance(action, LeftClick):
            kind, _, rest = self.path.partition("/")
            match hit.name:
                case "home":
                    self.path = ""
                case "about":
                    self.path = "about"
                case "next":
                    self.path = f"{kind}/2"
                case "order":
                    self.ordered.append(rest)
                    self.path = f"done/{rest}"
                case name if name in KINDS:
                    self.path = name
                case name if hit.role == "link":
                    self.path = f"{kind}/{name}"
        return Effect(hit=hit, changed=self.path != before)

    async def evaluate(self, expression: str, argument: Any = None) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        return None


class Stall:
    """Suite, browser and judge in one. `breaks`: episode id -> how often its start breaks; `blocked`: task ids."""

    name = "stall"

    def __init__(self, images: Images, breaks: dict[str, int] | None = None, blocked: Sequence[str] = ()) -> None:
        self.images, self.breaks, self.blocked = images, dict(breaks or {}), set(blocked)
        self.begun: list[str] = []

    def tasks(self, config: SuiteConfig) -> list[Task]:
        found = []
        for i in range(config.offset, config.offset + config.count):
            draw, kind = random.Random(i), KINDS[i % 4]
            hue = draw.choice(StallPage(self.images, i).things[kind])
            found.append(task(f"order {hue} {kind}", f"stall/{i}", seed=i, meta={"thing": f"{hue} {kind}"}))
        return found

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        yield

    async def __aenter__(self) -> "Stall":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def open(self, start_url: str, *, own_hosts: Sequence[str] = ()) -> Any:
        raise NotImplementedError

    async def begin(self, task: Task, episode: str, page_opener: Any) -> Any:
        self.begun.append(episode)
        if self.breaks.get(episode, 0) > 0:
            self.breaks[episode] -= 1
            raise BrowserError("gone", "browser_gone")
        page = StallPage(self.images, task.seed)
        if task.id in self.blocked:
            wall = observation(element("text", "robot check"), status=403)
            wall = wall.model_copy(update={"image": self.images.put(PNG_MAGIC + b"wall")})

            async def observe() -> Observation:
                return wall

            page.observe = observe  # type: ignore[method-assign]
        return page

    async def ended(self, episode: str, page: Any) -> bool:
        return False

    async def evidence(self, episode: str, page: Any) -> dict[str, Any]:
        return {"ordered": page.ordered}

    def check(self, task: Task, answer: str | None, evidence: dict[str, Any]) -> Verdict:
        done = answer is not None and evidence["ordered"] == [task.meta["thing"]]
        return Verdict(success=done, judge="rules:stall", reason="" if done else f"expected {task.meta['thing']}")

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        return self.check(trajectory.task, trajectory.answer, trajectory.evidence or {"ordered": []})


def stall_config(**collect: Any) -> Config:
    values = {"retries": 2, "step_budget": 6, **collect}
    return Config(
        profile=EMBEDDED,
        browser=BrowserConfig(concurrency=collect.pop("concurrency", 3)),
        episode=EpisodeConfig(max_steps=10),
        suite=SuiteConfig(count=values.pop("count", 12)),
        collect=CollectConfig.model_validate({k: v for k, v in values.items() if k != "concurrency"}),
    )
