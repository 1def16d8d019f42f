"""The pool: many episodes in few browsers, broken browsers replaced, nothing left behind."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmsweb.actions import LeftClick, Point
from rmsweb.config import BrowserConfig
from rmsweb.errors import BrowserError, MissingPartError
from rmsweb.web import chromium
from rmsweb.web.browser import ChromiumPool

pytestmark = pytest.mark.browser

Serve = Callable[..., Any]
SMALL = (320, 224)
HOME = {"/": "<title>home</title><p>Home</p>"}


class Store(dict[str, bytes]):
    def put(self, png: bytes) -> str:
        sha = hashlib.sha256(png).hexdigest()
        self[sha] = png
        return sha


def click(x: int, y: int) -> LeftClick:
    return LeftClick(point=Point(x=x, y=y))


async def test_episodes_see_no_cookie_of_another(serve: Serve) -> None:
    page = "<title>who</title><p id=o></p><script>const q = location.search; o.textContent = document.cookie + '|' + q;"
    site = serve({"/": page + "document.cookie = 'who=' + q.slice(1)</script>"})
    seen: list[str] = []
    async with ChromiumPool(BrowserConfig(concurrency=4), Store(), SMALL) as pool:

        async def one(number: int) -> None:
            opened = await pool.open(f"{site.url}?{number}", own_hosts=[site.host])
            now = await opened.observe()
            seen.extend(element.name for element in now.elements or ())
            await opened.close()

        await asyncio.gather(*(one(number) for number in range(8)))
    assert sorted(seen) == sorted(f"|?{number}" for number in range(8))


async def test_no_more_pages_than_places(serve: Serve) -> None:
    site = serve(HOME)
    async with ChromiumPool(BrowserConfig(concurrency=1), Store(), SMALL) as pool:
        first = await pool.open(site.url, own_hosts=[site.host])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.open(site.url, own_hosts=[site.host]), 0.3)
        await first.close()
        await first.close()
        second = await asyncio.wait_for(pool.open(site.url, own_hosts=[site.host]), 30)
        assert (await second.observe()).title == "home"


async def test_a_dead_renderer_costs_one_episode_and_the_browser_is_replaced(serve: Serve) -> None:
    site = serve(HOME)
    async with ChromiumPool(BrowserConfig(action_timeout_s=10), Store(), SMALL) as pool:
        page = await pool.open(site.url, own_hosts=[site.host])
        await page.observe()
        with pytest.raises(BrowserError) as caught:
            await page._within(page._hands.page.goto("chrome://crash"), 5)
        assert caught.value.reason == "page_crash"
        with pytest.raises(BrowserError) as caught:
            await page.observe()
        assert caught.value.reason == "page_crash"
        before = pool.browsers
        await page.close()
        again = await pool.open(site.url, own_hosts=[site.host])
        assert (await again.observe()).title == "home" and pool.browsers.isdisjoint(before)


async def test_a_page_that_hangs_is_given_up_and_its_neighbour_goes_on(serve: Serve) -> None:
    loop = '<button style="position:absolute;left:40px;top:60px" onclick="for(;;);">Loop</button>'
    site = serve({**HOME, "/loop": f"<title>loop</title>{loop}"})
    config = BrowserConfig(concurrency=2, action_timeout_s=1.5, settle_s=0.5)
    async with ChromiumPool(config, Store(), SMALL) as pool:
        neighbour = await pool.open(site.url, own_hosts=[site.host])
        page = await pool.open(f"{site.url}loop", own_hosts=[site.host])
        await page.observe()
        started = time.monotonic()
        with pytest.raises(BrowserError) as caught:
            await page.act(click(60, 70))
        assert caught.value.reason == "hang" and time.monotonic() - started < 15
        await page.close()
        assert (await neighbour.observe()).title == "home"
        fresh = await pool.open(site.url, own_hosts=[site.host])
        assert (await fresh.observe()).title == "home"


async def test_a_killed_browser_ends_its_episodes_and_the_next_one_runs(serve: Serve) -> None:
    site = serve(HOME)
    async with ChromiumPool(BrowserConfig(concurrency=2), Store(), SMALL) as pool:
        page = await pool.open(site.url, own_hosts=[site.host])
        await page.observe()
        (root,) = _browsers_under(os.getpid())
        os.kill(root, signal.SIGKILL)
        with pytest.raises(BrowserError) as caught:
            for _ in range(50):
                await page.act(click(5, 5))
        assert caught.value.reason in ("browser_gone", "page_crash")
        await page.close()
        again = await pool.open(site.url, own_hosts=[site.host])
        assert (await again.observe()).title == "home"


async def test_browsers_are_recycled(serve: Serve) -> None:
    site = serve(HOME)
    seen = set()
    async with ChromiumPool(BrowserConfig(recycle_after=2), Store(), SMALL) as pool:
        for _ in range(4):
            page = await pool.open(site.url, own_hosts=[site.host])
            seen |= pool.browsers
            await page.close()
    assert len(seen) == 2 and not pool.browsers


async def test_nothing_is_left_of_a_closed_pool(serve: Serve) -> None:
    site = serve(HOME)
    async with ChromiumPool(BrowserConfig(), Store(), SMALL) as pool:
        await pool.open(site.url, own_hosts=[site.host])
        assert len(_browsers_under(os.getpid())) == 1 and _folders(os.getpid())
    assert _browsers_under(os.getpid()) == [] and _folders(os.getpid()) == []


def test_kill_nine_leaves_no_browser_and_the_next_start_no_folder() -> None:
    code = (
        "import asyncio\nfrom rmsweb.config import BrowserConfig\nfrom rmsweb.web.browser import ChromiumPool\n"
        "class S:\n    def put(self, png): return ''\n"
        "async def main():\n    async with ChromiumPool(BrowserConfig(), S(), (320, 224)) as pool:\n"
        "        await pool.open('')\n        print('up', flush=True)\n        await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        browsers = _browsers_under(child.pid)
        assert browsers and _folders(child.pid)
        child.kill()
    end = time.monotonic() + 10
    while (alive := [pid for pid in browsers if _alive(pid)]) and time.monotonic() < end:
        time.sleep(0.1)
    assert alive == []
    chromium.sweep_leftovers()
    assert _folders(child.pid) == []


def test_folders_of_living_runs_stay() -> None:
    folder = chromium.make_folder()
    try:
        chromium.sweep_leftovers()
        assert folder.is_dir()
    finally:
        folder.rmdir()


def test_a_missing_browser_is_named_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingPartError, match=r"browser\.executable is '/no/such'"):
        chromium.find_executable("/no/such")
    monkeypatch.setenv("RMSWEB_CHROMIUM", str(tmp_path / "gone"))
    with pytest.raises(MissingPartError, match="RMSWEB_CHROMIUM"):
        chromium.find_executable()
    monkeypatch.delenv("RMSWEB_CHROMIUM")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with pytest.raises(MissingPartError, match="playwright install chromium"):
        chromium.find_executable()
    own = tmp_path / "chromium_headless_shell-1" / "chrome-linux" / "headless_shell"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert chromium.find_executable() == own


async def test_a_browser_that_dies_at_start_says_why(tmp_path: Path) -> None:
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\necho 'error while loading shared libraries: libnss3.so' >&2\nexit 127\n")
    fake.chmod(0o755)
    with pytest.raises(BrowserError, match=r"libnss3\.so") as caught:
        async with ChromiumPool(BrowserConfig(executable=str(fake)), Store(), SMALL):
            pass
    assert caught.value.reason == "launch" and _folders(os.getpid()) == []


def _parents() -> dict[int, tuple[int, str]]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if fields[0] != "Z":
                found[int(entry.name)] = (int(fields[1]), command)
    return found


def _browsers_under(pid: int) -> list[int]:
    """Main processes of browsers that descend from a process; Debian's start script is none."""
    parents = _parents()

    def descends(child: int) -> bool:
        while child in parents:
            child = parents[child][0]
            if child == pid:
                return True
        return False

    return [
        child
        for child, (_, command) in parents.items()
        if "--remote-debugging-pipe" in command
        and "--type=" not in command
        and not command.startswith("/bin/sh")
        and descends(child)
    ]


def _alive(pid: int) -> bool:
    return pid in _parents()


def _folders(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{chromium.FOLDER_PREFIX}{pid}-*"))
