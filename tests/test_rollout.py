"""Episodes: typed ends, attribution of faults, replay, concurrency. A scripted page and policy; no browser."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rmsweb.actions import Action, Answer, GoBack, LeftClick, Point, Scroll, Terminate
from rmsweb.config import BrowserConfig, Config, EpisodeConfig
from rmsweb.errors import BrowserError, BudgetError, ConfigError, DataError, EndpointError
from rmsweb.records import Box, Decision, Effect, Element, Observation, ParseFault, Stop, Task, Verdict
from rmsweb.rollout import Job, derive_seed, episode, many, replayed, wall_reason

TASK = Task(id="t1", suite="fake", site="s", template="k", split="train", goal="open it", max_steps=8)
CLICK = LeftClick(point=Point(x=5, y=5))


def text(name: str) -> Element:
    return Element(role="text", name=name, box=Box(x=0, y=0, width=10, height=10))


class CountingPage:
    """Each picture is a number that grows with every action but `go_back`, which changes nothing."""

    def __init__(self, images: dict[str, bytes], acts: Callable[[Action], None] = lambda _: None, **facts: Any) -> None:
        self.images, self.acts, self.facts = images, acts, facts
        self.number, self.closed = 0, False
        self.done: list[Action] = []

    async def observe(self) -> Observation:
        data = str(self.number).encode()
        sha = hashlib.sha256(data).hexdigest()
        self.images[sha] = data
        return Observation(image=sha, url=f"http://127.0.0.1/{self.number}", **self.facts)

    async def act(self, action: Action) -> Effect:
        self.acts(action)
        self.done.append(action)
        moved = not isinstance(action, GoBack)
        self.number += moved
        return Effect(changed=moved)

    async def close(self) -> None:
        self.closed = True


class FakeBrowser:
    def __init__(self, page: Callable[[], CountingPage]) -> None:
        self.page = page
        self.pages: list[CountingPage] = []

    async def open(self, start_url: str, *, own_hosts: Sequence[str] = ()) -> CountingPage:
        self.pages.append(self.page())
        return self.pages[-1]


class FakeSuite:
    name = "fake"

    def __init__(self, done_after: int = 99) -> None:
        self.done_after = done_after

    async def begin(self, task: Task, episode: str, page_opener: Any) -> Any:
        return await page_opener("http://127.0.0.1/")

    async def ended(self, episode: str, page: Any) -> bool:
        return bool(page.number >= self.done_after)

    async def evidence(self, episode: str, page: Any) -> dict[str, Any]:
        return {"number": page.number}

    def check(self, task: Task, answer: str | None, evidence: dict[str, Any]) -> Verdict:
        return Verdict(success=True, judge="fake")


class Script:
    """Says what it was given, one decision a call; an exception in the script is raised."""

    name = "script"

    def __init__(self, *says: Any) -> None:
        self.says = list(says)
        self.seeds: list[int] = []

    async def decide(
        self, task: Any, history: Any, now: Any, *, reflections: Any = (), n: int = 1, seed: int = 0
    ) -> Any:
        self.seeds.append(seed)
        said = self.says[min(len(self.seeds), len(self.says)) - 1]
        if isinstance(said, BaseException):
            raise said
        if said is None:
            return [Decision(raw="hm", fault=ParseFault(kind="no_call", message="no call"))]
        if said == "hang":
            await asyncio.sleep(60)
        return [Decision(action=said, raw="x", intent="it")]


def play(
    policy: Script, *, page: Any = None, suite: FakeSuite | None = None, config: Config | None = None, **options: Any
) -> Any:
    images: dict[str, bytes] = {}
    browser = FakeBrowser(lambda: page or CountingPage(images))
    if page is not None:
        images = page.images
    trajectory = asyncio.run(
        episode(TASK, policy, suite or FakeSuite(), browser, images, config or Config(), **options)  # type: ignore[arg-type]
    )
    return trajectory, browser


def test_answer_ends_at_once_and_is_stored() -> None:
    trajectory, browser = play(Script(CLICK, Answer(text="42"), CLICK))
    assert (trajectory.stop, trajectory.answer, len(trajectory.steps)) == (Stop.ANSWERED, "42", 2)
    assert browser.pages[0].done == [CLICK]
    assert browser.pages[0].closed
    assert trajectory.evidence == {"number": 1}
    assert trajectory.id == "t1#0"


def test_terminate_keeps_the_answer_beside_it() -> None:
    trajectory, browser = play(Script(Terminate(status="success", text="812 g"), CLICK))
    assert (trajectory.stop, trajectory.answer, browser.pages[0].done) == (Stop.ANSWERED, "812 g", [])
    gave_up, _ = play(Script(Terminate(status="failure")))
    assert (gave_up.stop, gave_up.answer) == (Stop.GAVE_UP, None)


def test_step_limit_is_the_smaller_one() -> None:
    assert len(play(Script(CLICK))[0].steps) == 8
    trajectory, _ = play(Script(CLICK), config=Config(episode=EpisodeConfig(max_steps=3)))
    assert (trajectory.stop, len(trajectory.steps)) == (Stop.STEP_LIMIT, 3)


def test_same_action_on_the_same_picture_is_no_progress() -> None:
    trajectory, _ = play(Script(GoBack()))
    assert (trajectory.stop, len(trajectory.steps)) == (Stop.NO_PROGRESS, 4)


def test_changing_pictures_are_progress() -> None:
    assert play(Script(Scroll(dy=100)))[0].stop is Stop.STEP_LIMIT


def test_invalid_replies_in_a_row() -> None:
    trajectory, browser = play(Script(None, None, CLICK, None, None, None))
    assert (trajectory.stop, len(trajectory.steps)) == (Stop.INVALID_OUTPUT, 6)
    assert browser.pages[0].done == [CLICK]
    assert trajectory.steps[0].effect.error == "no call"


def test_suite_ends_the_episode() -> None:
    assert play(Script(CLICK), suite=FakeSuite(done_after=2))[0].stop is Stop.DONE


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (EndpointError("no reply", "timeout"), Stop.MODEL_ERROR),
        (BudgetError("used up"), Stop.BUDGET),
        (KeyError("bug"), Stop.MODEL_ERROR),
        (TimeoutError(), Stop.MODEL_ERROR),
    ],
)
def test_faults_of_the_model_are_attributed(error: Exception, stop: Stop) -> None:
    trajectory, browser = play(Script(CLICK, error))
    assert (trajectory.stop, len(trajectory.steps)) == (stop, 1)
    assert browser.pages[0].closed and trajectory.evidence == {} and trajectory.detail


def test_faults_of_the_browser_are_attributed() -> None:
    def crash(_: Action) -> None:
        raise BrowserError("gone", "page_crash")

    trajectory, _ = play(Script(CLICK), page=CountingPage({}, crash))
    assert trajectory.stop is Stop.BROWSER_ERROR
    assert trajectory.detail == "page_crash: gone"


def test_wrong_settings_are_not_swallowed() -> None:
    with pytest.raises(ConfigError):
        play(Script(ConfigError("no such profile")))


def test_pictures_that_nobody_stored_are_refused() -> None:
    page = CountingPage({})
    with pytest.raises(DataError, match="image store"):
        asyncio.run(episode(TASK, Script(CLICK), FakeSuite(), FakeBrowser(lambda: page), {}, Config()))  # type: ignore[arg-type]


def test_deadline_names_who_was_waited_for() -> None:
    trajectory, browser = play(Script(CLICK, "hang"), config=Config(episode=EpisodeConfig(deadline_s=0.1)))
    assert trajectory.stop is Stop.MODEL_ERROR
    assert "model" in trajectory.detail and len(trajectory.steps) == 1 and browser.pages[0].closed


@pytest.mark.parametrize(
    ("facts", "stop"),
    [
        ({"status": 403, "elements": (text("robot check"),)}, Stop.BLOCKED),
        ({"status": 429}, Stop.BLOCKED),
        ({"status": 404}, Stop.INVALID_TASK),
        ({"status": 500}, Stop.BROWSER_ERROR),
        ({"status": 200, "title": "robot check"}, Stop.STEP_LIMIT),
    ],
)
def test_start_pages(facts: dict[str, Any], stop: Stop) -> None:
    assert play(Script(CLICK), page=CountingPage({}, **facts))[0].stop is stop


def test_wall_needs_status_and_words() -> None:
    page = Observation(image="", url="", status=403, title="Just a moment...")
    assert "HTTP 403" in wall_reason(page)
    assert wall_reason(page.model_copy(update={"status": 200})) == ""
    assert wall_reason(page.model_copy(update={"title": "forbidden"})) == ""


def test_replay_is_recorded_flagged_and_checked() -> None:
    trajectory, _ = play(Script(Answer(text="x")), prefix=[CLICK, Decision(intent="mug", action=CLICK, raw="old")])
    assert [replayed(s) for s in trajectory.steps] == [True, True, False]
    assert [s.decision.intent for s in trajectory.steps] == ["replay", "mug", "it"]
    shas = [trajectory.steps[0].before.image, "", trajectory.steps[1].after.image]
    assert play(Script(Answer(text="x")), prefix=[CLICK, CLICK], expect=shas)[0].stop is Stop.ANSWERED
    drifted, _ = play(Script(Answer(text="x")), prefix=[CLICK, CLICK], expect=[*shas[:2], "other"])
    assert drifted.stop is Stop.BROWSER_ERROR and "replay" in drifted.detail


def test_an_unreadable_reply_is_replayed_as_a_line_of_history() -> None:
    fault = ParseFault(kind="no_call", message="no call")
    trajectory, _ = play(Script(Answer(text="x")), prefix=[CLICK, Decision(raw="hm", fault=fault), CLICK])
    assert [s.decision.fault for s in trajectory.steps] == [None, fault, None, None]
    unread = trajectory.steps[1]
    assert unread.before == unread.after == trajectory.steps[0].after and unread.effect.error == "no call"
    assert trajectory.stop is Stop.ANSWERED


def test_seeds_depend_on_task_attempt_and_step_only() -> None:
    first, second, other = Script(CLICK), Script(CLICK), Script(CLICK)
    play(first, arm="plain")
    play(second, arm="reflect")
    play(other, attempt=1)
    assert first.seeds == second.seeds and len(set(first.seeds)) == 8
    assert not set(first.seeds) & set(other.seeds)
    assert derive_seed("a", 1) == 2208174500


def test_many_keeps_order_bounds_and_survives_bad_episodes() -> None:
    images: dict[str, bytes] = {}
    running, most = 0, 0

    class Slow(Script):
        async def decide(self, *args: Any, **options: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            return await super().decide(*args, **options)

    browser = FakeBrowser(lambda: CountingPage(images))
    policies = [Slow(CLICK, Answer(text=str(i))) if i != 2 else Slow(KeyError("bug")) for i in range(9)]
    jobs = [
        Job(TASK.model_copy(update={"id": f"t{i}"}), p, FakeSuite(), browser, images) for i, p in enumerate(policies)
    ]  # type: ignore[arg-type]
    seen: list[str] = []
    done = asyncio.run(many(jobs, Config(browser=BrowserConfig(concurrency=3)), lambda t: seen.append(t.id)))
    assert [t.answer for t in done] == ["0", "1", None, "3", "4", "5", "6", "7", "8"]
    assert sorted(seen) == [f"t{i}#0" for i in range(9)] and most == 3


def test_many_stops_when_the_budget_is_used_up() -> None:
    images: dict[str, bytes] = {}
    browser = FakeBrowser(lambda: CountingPage(images))
    jobs = [Job(TASK, Script(BudgetError("used up")), FakeSuite(), browser, images) for _ in range(9)]  # type: ignore[arg-type]
    seen: list[Stop] = []
    with pytest.raises(BudgetError, match="used up"):
        asyncio.run(many(jobs, Config(browser=BrowserConfig(concurrency=2)), lambda t: seen.append(t.stop)))
    assert seen == [Stop.BUDGET] * len(seen) and len(seen) <= 2
