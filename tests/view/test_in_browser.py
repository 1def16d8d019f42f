"""The viewer in a real Chromium: keys, filters, neighbours, and that nothing a page said is executed."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from specimens import collect_run, eval_run

from rmsweb.view.app import application
from rmsweb.view.export import export
from rmsweb.view.index import Index, headline
from rmsweb.web import chromium

pytestmark = pytest.mark.browser


@asynccontextmanager
async def browser_page() -> AsyncIterator[tuple[Any, list[str]]]:
    """A page, and what went wrong on it (console errors, policy violations, dialogs)."""
    from playwright.async_api import async_playwright

    wrong: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(chromium.find_executable()), args=["--no-sandbox", "--disable-background-networking"]
        )
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        yield page, wrong
        await browser.close()


@asynccontextmanager
async def served(index: Index) -> AsyncIterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(application(index), log_level="error", lifespan="off"))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        await task


async def walk(page: Any, start: str) -> None:
    """The way a person takes: filter, open, step through, next trajectory, back."""
    await page.goto(start)
    every, solved = page.locator("#rows tbody tr"), page.locator("tr[data-verdict=solved]")
    said = f"{await every.count()} trajectories, {await solved.count()} of {await every.count()} judged ones solved"
    assert await page.locator("#count").inner_text() == said
    await page.select_option("select[data-filter=verdict]", "not solved")
    shown = page.locator("#rows tbody tr:visible")
    count = await shown.count()
    assert 2 <= count < await every.count()
    first, second = [await shown.nth(i).get_attribute("data-key") for i in (0, 1)]
    await shown.nth(0).locator("a").click()
    await page.wait_for_url(f"**{first}*")
    steps = page.locator(".step:visible")
    assert await steps.count() == 1 and await steps.get_attribute("id") == "s0"
    box = await page.locator("#s0 figure img").bounding_box()
    ring = await page.locator("#s0 figure circle").nth(0).bounding_box()
    assert abs((ring["x"] + ring["width"] / 2 - box["x"]) / box["width"] - 24 / 320) < 0.01, (
        "the mark lies on the point"
    )
    assert abs((ring["y"] + ring["height"] / 2 - box["y"]) / box["height"] - 77 / 224) < 0.01
    await page.keyboard.press("ArrowRight")
    assert await steps.get_attribute("id") == "s1"
    await page.keyboard.press("End")
    assert await steps.get_attribute("id") == "end"
    assert "cart empty" in await steps.inner_text()
    await page.keyboard.press("ArrowDown")
    await page.wait_for_url(f"**{second}*")
    await page.keyboard.press("ArrowUp")
    await page.wait_for_url(f"**{first}*")
    await page.keyboard.press("Escape")
    await page.wait_for_selector("#filters")
    assert await page.locator("select[data-filter=verdict]").input_value() == "not solved"
    assert await shown.count() == count


async def test_on_the_server(tmp_path: Path) -> None:
    index = Index.open(collect_run(tmp_path / "r", "reflect", (0.4, 0.5), count=10))
    async with served(index) as address, browser_page() as (page, wrong):
        await walk(page, address)
    assert wrong == []


async def test_as_files(tmp_path: Path) -> None:
    index = Index.open(collect_run(tmp_path / "r", "reflect", (0.4, 0.5), count=10))
    async with browser_page() as (page, wrong):
        await walk(page, export(index, tmp_path / "out").as_uri())
        pictures = await page.evaluate("[...document.images].every((i) => i.complete && i.naturalWidth > 0)")
    assert wrong == [] and pictures


async def test_filters_count_every_model_by_itself(tmp_path: Path) -> None:
    index = Index.open(eval_run(tmp_path / "e", {"rl": 0.6, "sft": 0.3}, 24, controls="sft"))
    async with served(index) as address, browser_page() as (page, wrong):
        await page.goto(address)
        count = page.locator("#count")
        assert await count.inner_text() == "; ".join(headline(index.rows()))
        for name, value in (("site", "forum"), ("arm", "sft+blank")):
            await page.select_option(f"select[data-filter={name}]", value)
            left = [row for row in index.rows() if getattr(row, name) == value]
            lines = headline(left)
            assert await count.inner_text() == "; ".join([f"{len(left)} of 60 trajectories", *lines[1:]])
            await page.select_option(f"select[data-filter={name}]", "")
    assert wrong == []


async def test_it_is_readable_without_scripts(tmp_path: Path) -> None:
    index = Index.open(collect_run(tmp_path / "r", "plain", (0.0,), count=1))
    key = index.rows()[0].key
    start = export(index, tmp_path / "out").parent / "t" / f"{key}.html"
    async with browser_page() as (page, _):
        await page.route("**/*.js", lambda route: route.abort())
        await page.goto(start.as_uri())
        assert await page.locator(".step:visible").count() == index.rows()[0].steps + 1
