"""The built-in sites in a real Chromium: the scripted solution through the product's own page, both themes."""

import asyncio
import http.client
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from rmsweb.actions import Answer, Terminate
from rmsweb.config import BrowserConfig, SuiteConfig
from rmsweb.records import Stop, Task, Verdict
from rmsweb.web.browser import ChromiumPool
from rmsweb.web.page import ImageStore
from rmsweb.web.sites import catalogue
from rmsweb.web.sites.scripted import scripted_decision
from rmsweb.web.sites.server import token_of
from rmsweb.web.sites.suite import SiteSuite

Theme = Literal["regular", "compact"]
VIEWPORTS = {"regular": (1280, 800), "compact": (320, 224)}
THEMES = pytest.mark.parametrize("theme", ["compact", "regular"])


def pool(theme: Theme, pictures: ImageStore) -> ChromiumPool:
    # Long limits: these tests are about the sites, and the machine may be busy.
    limits = BrowserConfig(concurrency=2, sandbox=False, action_timeout_s=60, navigation_timeout_s=60, settle_s=10)
    return ChromiumPool(limits, pictures, VIEWPORTS[theme])


async def play(suite: SiteSuite, browser: ChromiumPool, task: Task, episode: str) -> tuple[Verdict, list[str]]:
    """One scripted episode: its verdict and the pictures it saw."""
    page = await suite.begin(task, episode, browser.open)
    answer, seen, stop = None, [], Stop.STEP_LIMIT
    try:
        for _ in range(task.max_steps):
            now = await page.observe()
            seen.append(now.image)
            action = scripted_decision(task, now).action
            assert action is not None
            if isinstance(action, Answer | Terminate):
                answer, stop = action.text or None, Stop.GAVE_UP if action.action == "terminate" else Stop.ANSWERED
                break
            effect = await page.act(action)
            assert not effect.error, (task.id, effect.error)
        evidence = await suite.evidence(episode, page)
        assert not await suite.ended(episode, page)
    finally:
        await page.close()
    return suite.check(task, answer, {**evidence, "stop": stop.value}), seen


async def play_all(suite: SiteSuite, browser: ChromiumPool, tasks: list[Task]) -> dict[str, Verdict | BaseException]:
    results = await asyncio.gather(
        *(play(suite, browser, task, f"arm/{task.id}#0") for task in tasks), return_exceptions=True
    )
    return {task.id: (r if isinstance(r, BaseException) else r[0]) for task, r in zip(tasks, results, strict=True)}


@pytest.mark.browser
@pytest.mark.slow
@THEMES
@pytest.mark.parametrize(
    ("split", "sites", "count"),
    [
        ("heldout", (*catalogue.DEFAULT_SITES, "gym"), 20),
        ("heldout", ("library",), 4),
        ("heldout_template", (), 4),
        ("typed", (), 4),
    ],
)
async def test_the_scripted_solution_solves_every_template(
    theme: Theme, split: str, sites: tuple[str, ...], count: int, pictures: ImageStore
) -> None:
    tasks = catalogue.tasks(SuiteConfig.model_validate({"split": split, "sites": sites, "count": count}))
    suite = SiteSuite(theme)
    async with suite.serving(), pool(theme, pictures) as browser:
        verdicts = await play_all(suite, browser, tasks)
    blocked = {task.id for task in tasks if catalogue.world_for(task).quest.typed == "blocked"}
    wrong = {name: v for name, v in verdicts.items() if not isinstance(v, Verdict) or v.success is (name in blocked)}
    assert not wrong


@pytest.mark.browser
@THEMES
async def test_the_same_actions_give_the_same_pixels(theme: Theme, pictures: ImageStore) -> None:
    tasks = catalogue.tasks(SuiteConfig(split="dev", count=2, templates=("booking.guests", "help.ticket")))
    suite = SiteSuite(theme)
    async with suite.serving(), pool(theme, pictures) as browser:
        for task in tasks:
            first = await play(suite, browser, task, "first#0")
            again = await play(suite, browser, task, "again#1")
            assert first == again


@pytest.mark.browser
@pytest.mark.parametrize(("sites", "count"), [(catalogue.DEFAULT_SITES, 8), (("library",), 2)])
async def test_compact_labels_fit_their_cells_and_lie_where_the_grid_says(
    sites: tuple[str, ...], count: int, pictures: ImageStore
) -> None:
    from rmsweb.web.compact import CELL

    suite = SiteSuite("compact")
    async with suite.serving(), pool("compact", pictures) as browser:
        for task in catalogue.tasks(SuiteConfig(count=count, sites=sites)):
            page = await suite.begin(task, task.id, browser.open)
            now = await page.observe()
            for element in now.elements or ():
                if element.role == "text":  # its box is drawn round the words
                    assert element.box.x % CELL in (0, 2), (task.id, element)
                else:
                    assert element.box.x % CELL == 0 and (element.box.y - 2) % CELL == 0, (task.id, element)
                    assert element.box.height == 28
            cells = "[...document.querySelectorAll('.cell')]"
            cut = await page.evaluate(f"{cells}.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)")
            assert not cut
            assert await page.evaluate("document.fonts.check('700 14px \"rmsweb compact\"')")
            await page.close()


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()


def fetch(url: str, method: str = "GET", **data: str) -> Reply:
    """A request without a browser; redirects are not followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    query = f"?{urlencode(data) or parts.query}" if method == "GET" else ""
    body = urlencode(data) if method == "POST" else None
    connection.request(method, parts.path + query, body, {"content-type": "application/x-www-form-urlencoded"})
    reply = connection.getresponse()
    found = Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
    connection.close()
    return found


async def begin(
    suite: SiteSuite, template: str, episode: str = "arm/x#0", seed: int = 0, **wanted: bool
) -> tuple[Any, str]:
    """The first world from `seed` on that has the wanted flags, begun: (world, address of its site)."""
    for offset in range(seed, seed + 60):
        task = catalogue.tasks(
            SuiteConfig(templates=(template,), sites=(template.split(".")[0],), offset=offset, count=1)
        )[0]
        world = catalogue.world_for(task)
        if all(getattr(world, name) == value for name, value in wanted.items()):
            return world, f"http://{suite.server.host}{suite.server.begin(episode, task)}"
    raise AssertionError("no such world")


@THEMES
async def test_pages_over_plain_http(theme: Theme) -> None:
    suite = SiteSuite(theme)
    async with suite.serving():
        world, base = await begin(suite, "shop.add", is_slow=False, asks_cookies=False)
        assert base.startswith("http://127.0.0.1:") and f"/s/{token_of('arm/x#0')}/" in base
        first = fetch(base)
        assert first.status == 200 and first.headers["cache-control"] == "no-store"
        name = world.quest.target["name"]
        added = fetch(f"{base}add", "POST", name=name)
        assert added.status == 303 and added.headers["location"].endswith("/cart?note=added")
        assert name in (fetch(f"{base}cart?note=added")).text
        assert suite.server.state("arm/x#0")["cart"] == [name]
        assert (fetch(f"{base}nowhere")).status == 404
        assert (fetch(f"{base}nowhere", "POST")).status == 404
        assert (fetch(f"http://{suite.server.host}/s/unknown/")).status == 404
        for font in ("inter", "compact-bold"):
            reply = fetch(f"http://{suite.server.host}/static/fonts/{font}.woff2")
            assert reply.status == 200 and len(reply.content) > 10_000
        await begin(suite, "shop.add", is_slow=False, asks_cookies=False)
        assert suite.server.state("arm/x#0")["cart"] == []


@THEMES
async def test_cookie_layer_stays_until_it_is_answered(theme: Theme) -> None:
    suite = SiteSuite(theme)
    async with suite.serving():
        _, base = await begin(suite, "forum.like", asks_cookies=True)
        assert "cookies-accept" in (fetch(base)).text
        assert "cookies-accept" not in (fetch(f"{base}rules")).text
        fetch(f"{base}cookies", "POST", choice="reject")
        assert "cookies-accept" not in (fetch(base)).text


@THEMES
async def test_episodes_do_not_see_each_other(theme: Theme) -> None:
    suite = SiteSuite(theme)
    async with suite.serving():
        world, base = await begin(suite, "forum.like", "a#0")
        await begin(suite, "forum.like", "a#1")
        fetch(f"{base}like", "POST", topic=world.quest.target["topic"])
        assert suite.server.state("a#0")["likes"] and not suite.server.state("a#1")["likes"]


@THEMES
async def test_real_html_is_in_the_pages(theme: Theme) -> None:
    suite = SiteSuite(theme)
    async with suite.serving():
        world, base = await begin(suite, "booking.guests", "b", is_slow=False)
        query = {key: world.quest.target[key] for key in ("city", "room", "date")}
        confirm = (fetch(f"{base}confirm", **query)).text
        assert "return confirm(" in confirm and "<select" in confirm and 'method="post"' in confirm
        assert 'type="hidden" name="city"' in confirm
        _, base = await begin(suite, "help.status", "h", is_slow=False)
        assert 'target="_blank"' in (fetch(f"{base}cases")).text
        _, base = await begin(suite, "help.code", "s", is_slow=True)
        world, _ = await begin(suite, "help.code", "s", is_slow=True)
        slow = (fetch(f"{base}topic", subject=world.quest.target["subject"])).text
        assert 'id="late"' in slow and "fetch(" in slow and "loading" in slow
