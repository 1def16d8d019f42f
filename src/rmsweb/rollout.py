"""One episode, and many at once.

Owns the loop observe -> decide -> act and the reason why it ends. Promises: an episode always comes back as a
Trajectory with a typed Stop, whatever the page, the browser or the model did; the seed of every decision depends on the
task, the attempt and the step only (never on the arm, on timing or on concurrency). Never judges, never retries,
never writes files, never fights a bot wall.

An action that ends the episode (`answer`, `terminate`) is recorded as the last step and is not carried out. A reply
that is no action is recorded as a step without effect. Only errors about the set-up (ConfigError, MissingPartError,
DataError, RunError) leave `episode` as exceptions.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import JsonValue

from rmsweb.actions import Action, Answer, Terminate
from rmsweb.config import Config
from rmsweb.errors import BrowserError, BudgetError, ConfigError, DataError, EndpointError, MissingPartError, RunError
from rmsweb.executor import LocalExecutor
from rmsweb.outage import Outage
from rmsweb.records import Decision, Effect, Observation, Reflection, Step, Stop, Task, Trajectory

if TYPE_CHECKING:
    from rmsweb.policy import Policy
    from rmsweb.web.browser import Browser, Page
    from rmsweb.web.suite import Suite

log = logging.getLogger(__name__)

REPLAY = "replay"
"""`intent` of a step that was replayed from a bare action of `prefix`."""
CLOSE_S = 10.0
"""Longest wait for a page to close: a page that hangs there must not hold its place in the pool's queue."""

WALL_STATUS = frozenset({401, 403, 407, 429, 451, 503})
WALL_WORDS = (
    "robot check",
    "not a robot",
    "are you a robot",
    "are you human",
    "verify you are human",
    "captcha",
    "unusual traffic",
    "access denied",
    "access to this page has been denied",
    "checking your browser",
    "just a moment",
    "attention required",
    "too many requests",
    "pardon our interruption",
    "request blocked",
    "you have been blocked",
)
"""What bot walls say of themselves; together with an error status they end the episode as blocked."""
GONE_STATUS = frozenset({404, 410})


def derive_seed(*parts: object) -> int:
    """A stable 32-bit seed from record ids and numbers; equal on every machine and in every process."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def trajectory_id(task: Task, attempt: int = 0, arm: str = "") -> str:
    """`task#attempt`, with `arm/` in front where a run has several arms."""
    return f"{arm}/{task.id}#{attempt}" if arm else f"{task.id}#{attempt}"


@dataclass(slots=True, frozen=True)
class Job:
    """Everything one episode needs besides the config."""

    task: Task
    policy: Policy
    suite: Suite
    browser: Browser
    images: Mapping[str, bytes]
    attempt: int = 0
    arm: str = ""
    reflections: tuple[Reflection, ...] = ()
    prefix: tuple[Action | Decision, ...] = ()
    expect: tuple[str, ...] = ()
    seed: int = 0

    async def run(self, config: Config) -> Trajectory:
        return await episode(
            self.task, self.policy, self.suite, self.browser, self.images, config,
            attempt=self.attempt, arm=self.arm, reflections=self.reflections,
            prefix=self.prefix, expect=self.expect, seed=self.seed,
        )  # fmt: skip


async def many(
    jobs: Iterable[Job],
    config: Config,
    on_done: Callable[[Trajectory], Awaitable[None] | None] | None = None,
) -> list[Trajectory]:
    """Runs the jobs, `browser.concurrency` at once; `on_done` is called as each ends. Results in the jobs' order.

    Raises BudgetError when an episode ended for lack of budget, RunError in an outage (see outage.py): nothing new is
    started then, everything that ended has been handed to `on_done`.
    """
    outage = Outage(config.browser.concurrency)

    async def one(job: Job) -> Trajectory:
        trajectory = await job.run(config)
        if on_done is not None:
            handled = on_done(trajectory)
            if inspect.isawaitable(handled):
                await handled
        if trajectory.stop is Stop.BUDGET:
            raise BudgetError(trajectory.detail)
        outage(trajectory)
        return trajectory

    return await LocalExecutor(config.browser.concurrency).map(one, jobs)


async def episode(
    task: Task,
    policy: Policy,
    suite: Suite,
    browser: Browser,
    images: Mapping[str, bytes],
    config: Config,
    *,
    attempt: int = 0,
    arm: str = "",
    reflections: Sequence[Reflection] = (),
    prefix: Sequence[Action | Decision] = (),
    expect: Sequence[str] = (),
    seed: int = 0,
) -> Trajectory:
    """One episode from a fresh page to its end.

    `images` is where the browser puts its pictures and the policy looks them up. `prefix` is replayed first and counts
    towards the step limit; a Decision in it keeps its intent, so that the history reads as it did (see `replayed`).
    `expect` names the pictures (SHA-256, empty: any) that must be seen before each replayed action and, last, after
    all of them: a replay that drifts ends browser_error, since it says nothing about the policy.
    """
    started = time.monotonic()
    ident = trajectory_id(task, attempt, arm)
    run = _Episode(ident, task, policy, suite, images, config, attempt, tuple(reflections), seed)
    try:
        async with asyncio.timeout(config.episode.deadline_s):
            await run.play(browser, prefix, expect)
    except _Ended as end:
        run.end(end.stop, end.detail)
    except TimeoutError:
        stop = Stop.MODEL_ERROR if run.waiting_for == "model" else Stop.BROWSER_ERROR
        run.end(stop, f"deadline of {config.episode.deadline_s:g} s passed while waiting for the {run.waiting_for}")
    finally:
        await run.close()
    return Trajectory(
        id=ident,
        task=task,
        attempt=attempt,
        policy=policy.name,
        steps=tuple(run.steps),
        answer=run.answer,
        stop=run.stop,
        detail=run.detail,
        advice=advice_text(reflections),
        evidence=run.evidence,
        viewport=config.profile.viewport,
        scale=config.profile.device_scale_factor,
        coordinates=config.profile.coordinates,
        browser=str(getattr(browser, "version", "")),
        seed=seed,
        wall_s=round(time.monotonic() - started, 3),
        tagged=_tags(run.steps),
    )


def replayed(step: Step) -> bool:
    """Whether the step was replayed from a prefix: an action without a reply behind it."""
    return step.decision.action is not None and not step.decision.raw


def advice_text(reflections: Sequence[Reflection]) -> str:
    """The guidance of the reflections as one text: what the leak scan compares with."""
    return "\n".join(part for r in reflections for part in (r.cause, r.lesson, r.plan) if part)


class _Ended(Exception):
    """Ends the episode from anywhere inside the loop."""

    def __init__(self, stop: Stop, detail: str = "") -> None:
        super().__init__(detail)
        self.stop, self.detail = stop, detail


@dataclass(slots=True)
class _Episode:
    """The state of one running episode."""

    ident: str
    task: Task
    policy: Policy
    suite: Suite
    images: Mapping[str, bytes]
    config: Config
    attempt: int
    reflections: tuple[Reflection, ...]
    seed: int
    page: Page | None = None
    steps: list[Step] = field(default_factory=list)
    answer: str | None = None
    stop: Stop = Stop.BROWSER_ERROR
    detail: str = ""
    evidence: dict[str, JsonValue] = field(default_factory=dict)
    waiting_for: str = "browser"

    def end(self, stop: Stop, detail: str) -> None:
        self.stop, self.detail = stop, detail

    async def play(self, browser: Browser, prefix: Sequence[Action | Decision], expect: Sequence[str]) -> None:
        """Opens the page, replays, loops; ends by `_Ended` only after the evidence was read."""
        async with self._boundary(Stop.BROWSER_ERROR, "browser"):
            self.page = await self.suite.begin(self.task, self.ident, browser.open)
            now = await self.page.observe()
        if now.image not in self.images:
            raise DataError(f"episode {self.ident}: the browser's pictures are not in the image store it was given")
        try:
            _check_start(now)
            now = await self._replay(now, prefix, expect)
            await self._loop(now)
        except _Ended as end:
            if end.stop not in (Stop.BROWSER_ERROR, Stop.MODEL_ERROR, Stop.BUDGET):
                async with self._boundary(Stop.BROWSER_ERROR, "browser"):
                    self.evidence = await self.suite.evidence(self.ident, self.page)
            raise

    async def _replay(
        self, now: Observation, prefix: Sequence[Action | Decision], expect: Sequence[str]
    ) -> Observation:
        for index, item in enumerate(prefix):
            _check_state(index, now, expect)
            known = item if isinstance(item, Decision) else Decision(intent=REPLAY, action=item)
            if known.action is None and known.fault is not None:  # nothing happened, but the history has its line
                self._record(now, Decision(fault=known.fault), Effect(error=known.fault.message), now)
                continue
            if known.action is None or isinstance(known.action, (Answer, Terminate)):
                raise ConfigError(f"episode {self.ident}: item {index} of the replayed prefix cannot be carried out")
            decision = Decision(thought=known.thought, intent=known.intent, action=known.action)
            now = await self._act(now, decision, known.action)
        _check_state(len(prefix), now, expect)
        return now

    async def _loop(self, now: Observation) -> None:
        """Decide and act until something ends the episode (always by `_Ended`)."""
        limits = self.config.episode
        seen: Counter[tuple[str, str]] = Counter()
        invalid = 0
        for _ in range(len(self.steps), min(self.task.max_steps, limits.max_steps)):
            decision = await self._decide(now)
            action = decision.action
            if action is None:
                invalid += 1
                error = decision.fault.message if decision.fault else "the reply is no action"
                self._record(now, decision, Effect(error=error), now)
                if invalid >= limits.invalid_replies:
                    raise _Ended(Stop.INVALID_OUTPUT, f"{invalid} replies in a row are no action; last: {error}")
                continue
            invalid = 0
            if isinstance(action, (Answer, Terminate)):
                self._record(now, decision, Effect(), now)
                self.answer = action.text or None
                failed = isinstance(action, Terminate) and action.status == "failure"
                raise _Ended(Stop.GAVE_UP if failed else Stop.ANSWERED)
            key = (now.image, action.model_dump_json())
            seen[key] += 1
            now = await self._act(now, decision, action)
            if seen[key] >= limits.repeats:
                raise _Ended(Stop.NO_PROGRESS, f"the same action on the same picture {seen[key]} times")
        raise _Ended(Stop.STEP_LIMIT, f"{len(self.steps)} steps")

    async def _decide(self, now: Observation) -> Decision:
        seed = derive_seed(self.seed, self.task.id, self.attempt, len(self.steps))
        async with self._boundary(Stop.MODEL_ERROR, "model"):
            decisions = await self.policy.decide(self.task, self.steps, now, reflections=self.reflections, seed=seed)
            if not decisions:
                raise EndpointError(f"policy {self.policy.name} gave no decision", "empty")
            return decisions[0]

    async def _act(self, before: Observation, decision: Decision, action: Action) -> Observation:
        assert self.page is not None
        async with self._boundary(Stop.BROWSER_ERROR, "browser"):
            effect = await self.page.act(action)
            after = await self.page.observe()
            ended = await self.suite.ended(self.ident, self.page)
        self._record(before, decision, effect, after)
        if ended:
            raise _Ended(Stop.DONE)
        wall = wall_reason(after)
        if wall:
            raise _Ended(Stop.BLOCKED, wall)
        return after

    def _record(self, before: Observation, decision: Decision, effect: Effect, after: Observation) -> None:
        step = Step(index=len(self.steps), before=before, decision=decision, effect=effect, after=after)
        self.steps.append(step)

    @asynccontextmanager
    async def _boundary(self, stop: Stop, side: str) -> AsyncIterator[None]:
        """Attributes whatever escapes from one side to that side; set-up errors pass through."""
        self.waiting_for = side
        try:
            yield
        except (ConfigError, MissingPartError, DataError, RunError, _Ended):
            raise
        except BudgetError as error:
            raise _Ended(Stop.BUDGET, str(error)) from error
        except (EndpointError, BrowserError) as error:
            raise _Ended(stop, f"{error.reason}: {error}") from error
        except TimeoutError as error:
            # The episode's own deadline comes as a cancellation and never gets here: this one is the callee's.
            raise _Ended(stop, f"timeout: {error}") from error
        except Exception as error:
            log.exception("episode %s: %s failed in an unforeseen way", self.ident, side)
            raise _Ended(stop, f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Closes the page; what goes wrong here cannot change what the episode was."""
        if self.page is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.page.close()
        except (BrowserError, TimeoutError) as error:
            log.warning("episode %s: page did not close: %s", self.ident, error)


def wall_reason(now: Observation) -> str:
    """Why the page is a bot wall or an access error, in one line; empty when it is neither."""
    if now.status not in WALL_STATUS:
        return ""
    said = " ".join([now.title, *(element.name for element in now.elements or ())]).lower()
    for words in WALL_WORDS:
        if words in said:
            return f"HTTP {now.status}, the page says {words!r}"
    return ""


def _check_start(now: Observation) -> None:
    """A start page that shows an access error is a wall, one that is gone makes the task invalid."""
    wall = wall_reason(now)
    if wall or now.status in WALL_STATUS:
        raise _Ended(Stop.BLOCKED, wall or f"start page answered HTTP {now.status}")
    if now.status in GONE_STATUS:
        raise _Ended(Stop.INVALID_TASK, f"start page answered HTTP {now.status}")
    if now.status is not None and now.status >= 500:
        raise _Ended(Stop.BROWSER_ERROR, f"navigation: start page answered HTTP {now.status}")


def _check_state(index: int, now: Observation, expect: Sequence[str]) -> None:
    wanted = expect[index] if index < len(expect) else ""
    if wanted and now.image != wanted:
        raise _Ended(Stop.BROWSER_ERROR, f"replay: before step {index} the page is another one than recorded")


def _tags(steps: Sequence[Step]) -> tuple[str, ...]:
    """Safety tags of an episode; samples leave tagged episodes out."""
    tags = []
    if any(write.stopped for step in steps for write in step.effect.writes):
        tags.append("write_stopped")
    said = (text for step in steps for text in (step.effect.error, *step.before.messages, *step.after.messages))
    if any("refused address" in text for text in said):
        tags.append("refused_address")
    return tuple(tags)
