"""Rollout speed: steps of our page beside raw Playwright, one run, the same small pages, the same Chromium.

    PYTHONPATH=src python perf/rollout.py [--contexts 4] [--seconds 8] [--size 320x224]

A step of ours is a click on a link or button, settle, hit test, element list, picture and its hash. The raw limit is
`goto` of the same page plus `screenshot`, nothing else. The two take turns, so that a loaded machine loads both.
"""

import argparse
import asyncio
import hashlib
import http.server
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import async_playwright

from rmsweb.actions import LeftClick, Point
from rmsweb.config import BrowserConfig
from rmsweb.web import chromium
from rmsweb.web.browser import ChromiumPool
from rmsweb.web.compact import Cell, page_html

WEB = Path(chromium.__file__).parent


class Pages(http.server.BaseHTTPRequestHandler):
    """Pages of the compact theme; each link leads to the next one."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/static/"):
            return self.answer("font/woff2", (WEB / self.path[1:]).read_bytes())
        number = int(self.path.strip("/") or 0)
        cells = [Cell("text", f"page {number}", 0, 0, 4), Cell("button", "like", 5, 3, 3)]
        for row in range(1, 6):
            here = Cell("link", f"item {number + row}", 0, row, 4)
            html = f'<a href="/{(number + row) % 50}" class="cell link" style="{here.style()}">{here.label}</a>'
            cells.append(here._replace(html=html))
        self.answer("text/html", page_html(cells, "#ffffff", "#223344").encode())

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "max-age=3600" if kind != "text/html" else "no-store")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


class Pictures(dict[str, bytes]):
    """An image store in memory."""

    def put(self, png: bytes) -> str:
        sha = hashlib.sha256(png).hexdigest()
        self[sha] = png
        return sha


async def ours(url: str, contexts: int, seconds: float, size: tuple[int, int]) -> float:
    """Steps a second; two of three clicks lead to another page."""
    count = 0
    async with ChromiumPool(BrowserConfig(concurrency=contexts), Pictures(), size) as pool:
        pages = [await pool.open(url, own_hosts=[urlsplit(url).netloc]) for _ in range(contexts)]
        end = time.monotonic() + seconds

        async def go(page: object) -> None:
            nonlocal count
            while time.monotonic() < end:
                point = (200, 112) if count % 3 == 0 else (40, 48 + 32 * (count % 4))
                await page.act(LeftClick(point=Point(x=point[0], y=point[1])))  # type: ignore[attr-defined]
                await page.observe()  # type: ignore[attr-defined]
                count += 1

        started = time.monotonic()
        await asyncio.gather(*(go(page) for page in pages))
        return count / (time.monotonic() - started)


async def raw(url: str, contexts: int, seconds: float, size: tuple[int, int]) -> float:
    """`goto` and `screenshot` a second."""
    count = 0
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(chromium.find_executable()), args=[*chromium.RENDER_ARGS, *chromium.QUIET_ARGS]
        )
        pages = []
        for _ in range(contexts):
            context = await browser.new_context(viewport={"width": size[0], "height": size[1]})
            pages.append(await context.new_page())
        end = time.monotonic() + seconds

        async def go(page: object) -> None:
            nonlocal count
            while time.monotonic() < end:
                await page.goto(f"{url}{count % 50}")  # type: ignore[attr-defined]
                await page.screenshot()  # type: ignore[attr-defined]
                count += 1

        started = time.monotonic()
        await asyncio.gather(*(go(page) for page in pages))
        rate = count / (time.monotonic() - started)
        await browser.close()
        return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--size", default="320x224")
    given = parser.parse_args()
    width, height = map(int, given.size.split("x"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    rates: dict[str, list[float]] = {"ours": [], "raw": []}
    for measure in (ours, raw, raw, ours):
        rate = asyncio.run(measure(url, given.contexts, given.seconds / 2, (width, height)))
        rates[measure.__name__].append(rate)
    mine, limit = (sum(rates[name]) / 2 for name in ("ours", "raw"))
    print(f"{given.contexts} contexts at {given.size}: {mine:.1f} steps/s; raw goto + screenshot {limit:.1f}/s")
    print(f"ratio {mine / limit:.2f}")
    server.shutdown()


if __name__ == "__main__":
    main()
