"""MiniWoB++ as a suite: every page starts, goals are as stored, rewards are read, the action path solves tasks."""

import hashlib
import re
from collections.abc import Awaitable, Callable

import pytest

from rmsweb.actions import Action, Goto, LeftClick, Point, Scroll, SelectOption, Type, Wait
from rmsweb.config import BrowserConfig, SuiteConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Element, Observation, Task
from rmsweb.web import miniwob
from rmsweb.web.browser import ChromiumPool
from rmsweb.web.browser import Page as BrowserPage
from rmsweb.web.miniwob import MiniWobSuite


class Store(dict[str, bytes]):
    def put(self, png: bytes) -> str:
        sha = hashlib.sha256(png).hexdigest()
        self[sha] = png
        return sha


CONFIG = BrowserConfig(first_paint_s=0.5, settle_s=0.5)


def test_tasks_are_known_without_a_browser() -> None:
    suite = MiniWobSuite()
    assert len(miniwob.task_names()) == 130 == len(miniwob.stored_goals())
    everything = suite.tasks(SuiteConfig(name="miniwob", split="exam", count=1000))
    assert len(everything) == 650 and len({task.id for task in everything}) == 650
    first = suite.tasks(SuiteConfig(name="miniwob", count=130))
    assert {task.template for task in first} == set(miniwob.task_names()) and {task.seed for task in first} == {0}
    assert suite.tasks(SuiteConfig(name="miniwob", count=5, offset=10)) == first[10:15]
    (only,) = suite.tasks(SuiteConfig(name="miniwob", templates=("enter-text",), count=1))
    assert only.goal == 'Enter "Tora" into the text field and press Submit.' and only.split == "exam"
    with pytest.raises(ConfigError, match="no task named click-tset"):
        suite.tasks(SuiteConfig(name="miniwob", templates=("click-tset",)))
    with pytest.raises(ConfigError, match="beyond"):
        suite.tasks(SuiteConfig(name="miniwob", offset=5000))


@pytest.mark.parametrize(("raw", "strict", "positive"), [(1.0, True, True), (0.5, False, True), (0.0, False, False)])
def test_both_success_rules(raw: float, strict: bool, positive: bool) -> None:
    task = MiniWobSuite().tasks(SuiteConfig(name="miniwob", count=1))[0]
    evidence = {"raw_reward": raw, "done": True}
    assert MiniWobSuite().check(task, "done!", evidence).success is strict
    assert MiniWobSuite("positive").check(task, None, evidence).success is positive
    assert MiniWobSuite().check(task, None, {}).unjudged == "missing_evidence"


@pytest.mark.browser
async def test_an_episode_from_start_to_reward() -> None:
    suite = MiniWobSuite()
    (task,) = suite.tasks(SuiteConfig(name="miniwob", templates=("click-button",), count=1))
    async with suite.serving(), ChromiumPool(CONFIG, Store(), (1280, 800)) as pool:
        page = await suite.begin(task, "a", pool.open)
        now = await page.observe()
        assert not await suite.ended("a", page)
        assert (await suite.evidence("a", page))["raw_reward"] == 0
        other = await suite.begin(task, "b", pool.open)
        assert (await other.observe()).image == now.image
        await page.act(click(find(now, "No")))
        assert await suite.ended("a", page)
        evidence = await suite.evidence("a", page)
        assert (evidence["raw_reward"], evidence["strict"], evidence["positive"]) == (1.0, True, True)
        assert suite.check(task, None, evidence).success
        await other.act(Goto(url=f"http://{suite.host}/core/core.js"))
        assert not await suite.ended("b", other)
        left = await suite.evidence("b", other)
        assert left["raw_reward"] == 0 and suite.check(task, "done", left).success is False


@pytest.mark.browser
@pytest.mark.slow
async def test_all_pages_start_with_their_stored_goal() -> None:
    suite = MiniWobSuite()
    async with suite.serving(), ChromiumPool(CONFIG, Store(), (320, 224)) as pool:
        page = await pool.open(suite.address("click-test"), own_hosts=[suite.host])
        for number, name in enumerate(miniwob.task_names()):
            seed = number % 5
            await page.evaluate("address => { location = address }", suite.address(name))
            await page._within(page._hands.page.wait_for_url(f"**/{name}.html"), 10)
            assert await miniwob.start(page, seed) == miniwob.stored_goals()[name][seed], name
            assert not await suite.ended("", page), name


def find(now: Observation, name: str, role: str = "") -> Element:
    """The element of this name, controls before texts."""
    found = [e for e in now.elements or () if e.name == name and (not role or e.role == role)]
    assert found, f"nothing named {name!r} among {[e.name for e in now.elements or ()]}"
    return min(found, key=lambda e: e.role == "text")


def middle(element: Element) -> Point:
    return Point(x=round(element.box.x + element.box.width / 2), y=round(element.box.y + element.box.height / 2))


def click(element: Element) -> LeftClick:
    return LeftClick(point=middle(element))


Play = Callable[[str, BrowserPage], Awaitable[None]]


async def do(page: BrowserPage, action: Action) -> Observation:
    effect = await page.act(action)
    assert not effect.error, effect.error
    return await page.observe()


async def press(page: BrowserPage, *names: str) -> None:
    for name in names:
        await do(page, click(find(await page.observe(), name)))


async def fill(page: BrowserPage, *texts: str) -> None:
    """Into the fields in the order they stand on the page."""
    for index, text in enumerate(texts):
        fields = [e for e in (await page.observe()).elements or () if e.role == "input"]
        await do(page, Type(text=text, point=middle(fields[index]), clear_first=True))


def quoted(goal: str) -> list[str]:
    return re.findall(r'"([^"]*)"', goal)


def listed(goal: str) -> list[str]:
    found = re.search(r"Select (.*?)(?: from the scroll list)? and click Submit", goal)
    assert found is not None
    return [] if found[1] == "nothing" else found[1].split(", ")


async def press_quoted(goal: str, page: BrowserPage) -> None:
    await press(page, *quoted(goal))


async def close_dialog(goal: str, page: BrowserPage) -> None:
    await press(page, "Close" if "x" in quoted(goal) else quoted(goal)[0])


async def buttons_in_capitals(goal: str, page: BrowserPage) -> None:
    await press(page, *re.findall(r"ONE|TWO", goal))


async def enter_quoted(goal: str, page: BrowserPage) -> None:
    text = quoted(goal)[0]
    text = text.upper() if "upper case" in goal else text.lower() if "lower case" in goal else text
    await fill(page, text)
    await press(page, "Submit")


async def password_twice(goal: str, page: BrowserPage) -> None:
    await fill(page, *quoted(goal) * 2)
    await press(page, "Submit")


async def log_in(goal: str, page: BrowserPage) -> None:
    await fill(page, *quoted(goal))
    await press(page, "Login")


async def tick(goal: str, page: BrowserPage) -> None:
    await press(page, *listed(goal), "Submit")


async def choose(goal: str, page: BrowserPage) -> None:
    for text in listed(goal.replace(" from the list", "")):
        box = next(e for e in (await page.observe()).elements or () if e.role == "select")
        await do(page, SelectOption(point=middle(box), text=text))
    await press(page, "Submit")


async def focus_nth(goal: str, page: BrowserPage) -> None:
    fields = [e for e in (await page.observe()).elements or () if e.role == "input"]
    number = re.search(r"(\d)(?:st|nd|rd)", goal)
    await do(page, click(fields[int(number[1]) - 1 if number else 0]))


async def tab_of(goal: str, page: BrowserPage) -> None:
    await press(page, f"Tab #{goal[-2]}")


async def expand(goal: str, page: BrowserPage) -> None:
    header = next(e for e in (await page.observe()).elements or () if e.name.startswith("Section"))
    await do(page, click(header))
    await do(page, Wait(seconds=1.0))  # it slides open and pushes the button down
    await press(page, "Submit")


async def equation(goal: str, page: BrowserPage) -> None:
    text = next(e.name for e in (await page.observe()).elements or () if re.search(r"\d ?[=?]|= ?-?\d", e.name))
    left, right = (part.strip() for part in text.split("="))
    numbers = list(map(int, re.findall(r"(?<![\dx)] )-?\d+|(?<=- )\d+|(?<=\+ )\d+", left)))
    if "Solve for x" not in goal:
        values = {"+": sum(numbers), "-": numbers[0] - numbers[-1], "x": numbers[0] * numbers[-1]}
        await fill(page, str(values[left.split()[1]]))
    elif left.startswith("x"):
        await fill(page, str(int(right) - numbers[0] if "+" in left else int(right) + numbers[0]))
    else:
        await fill(page, str(int(right) - numbers[0] if "+" in left else numbers[0] - int(right)))
    await press(page, "Submit")


async def odd_even(goal: str, page: BrowserPage) -> None:
    rows = [e for e in (await page.observe()).elements or () if re.fullmatch(r"-?\d+", e.name)]
    for row in rows:
        kind = "Odd" if int(row.name) % 2 else "Even"
        same = [e for e in (await page.observe()).elements or () if e.name == kind]
        await do(page, click(min(same, key=lambda e: abs(e.box.y - row.box.y))))
    await press(page, "Submit")


async def table(goal: str, page: BrowserPage) -> None:
    found = re.search(r"value of (.*) into", goal)
    assert found is not None
    names = [e.name for e in (await page.observe()).elements or () if e.role == "text"]
    await fill(page, names[names.index(found[1]) + 1])
    await press(page, "Submit")


async def word(goal: str, page: BrowserPage) -> None:
    number = re.search(r"(\d+)(?:st|nd|rd|th)", goal)
    paragraph = await page.evaluate("document.querySelector('#area p').textContent")
    assert number is not None
    await fill(page, re.findall(r"\w+", paragraph)[int(number[1]) - 1])
    await press(page, "Submit")


async def guess(goal: str, page: BrowserPage) -> None:
    low, high = 0, 9
    while low <= high:
        now = (low + high) // 2
        await fill(page, str(now))
        await press(page, "Submit")
        seen = " ".join(e.name for e in (await page.observe()).elements or ())
        if f"higher than {now}" in seen:
            low = now + 1
        elif f"lower than {now}" in seen:
            high = now - 1
        else:
            return


async def copy(goal: str, page: BrowserPage) -> None:
    await fill(page, await page.evaluate("document.querySelector('textarea').value"))
    await press(page, "Submit")


async def scroll_text(goal: str, page: BrowserPage) -> None:
    area = next(e for e in (await page.observe()).elements or () if e.role == "input")
    await do(page, Scroll(dy=9000 if "bottom" in goal else -9000, point=middle(area)))
    await press(page, "Submit")


SOLVERS: dict[str, Play] = {
    "click-test": lambda goal, page: press(page, "Click Me!"),
    "click-test-2": buttons_in_capitals,
    "click-test-transfer": buttons_in_capitals,
    "click-button": press_quoted,
    "click-button-sequence": buttons_in_capitals,
    "click-link": press_quoted,
    "unicode-test": press_quoted,
    "click-dialog": lambda goal, page: press(page, "Close"),
    "click-dialog-2": close_dialog,
    "focus-text": focus_nth,
    "focus-text-2": focus_nth,
    "enter-text": enter_quoted,
    "enter-text-2": enter_quoted,
    "enter-text-dynamic": enter_quoted,
    "enter-password": password_twice,
    "login-user": log_in,
    "click-tab": tab_of,
    "click-option": tick,
    "click-checkboxes": tick,
    "click-checkboxes-transfer": tick,
    "click-checkboxes-large": tick,
    "choose-list": choose,
    "click-scroll-list": choose,
    "click-collapsible": expand,
    "simple-algebra": equation,
    "simple-arithmetic": equation,
    "odd-or-even": odd_even,
    "read-table": table,
    "find-word": word,
    "guess-number": guess,
    "copy-paste": copy,
    "scroll-text-2": scroll_text,
}


@pytest.mark.browser
@pytest.mark.slow
async def test_scripts_solve_many_tasks_through_the_action_path() -> None:
    suite = MiniWobSuite()
    solved, failed = set(), {}
    async with suite.serving(), ChromiumPool(CONFIG, Store(), (640, 480)) as pool:
        for name, play in SOLVERS.items():
            task: Task = suite.tasks(SuiteConfig(name="miniwob", templates=(name,), count=1))[0]
            page = await suite.begin(task, name, pool.open)
            try:
                await play(task.goal, page)
                raw = (await suite.evidence(name, page))["raw_reward"]
            except AssertionError as error:
                raw, failed[name] = 0.0, str(error)[:200]
            finally:
                await page.close()
            if raw == 1.0:
                solved.add(name)
            else:
                failed.setdefault(name, f"raw reward {raw}")
    assert len(solved) >= 28, failed
