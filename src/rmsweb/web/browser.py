"""The browser protocols, and a pool of few real browsers.

Owns how many browsers run, how many episodes share them, when a browser is replaced, and that none outlives the pool.
Promises a fresh context (own cookies, storage, network rules) for each page, at most `concurrency` pages at once, and
that a page whose browser broke costs its own episode only. Never looks at a page.
"""

import asyncio
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from rmsweb.actions import Action, Viewport
from rmsweb.config import BrowserConfig
from rmsweb.errors import BrowserError, ConfigError
from rmsweb.records import Effect, Observation
from rmsweb.web import chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser as PlaywrightBrowser
    from playwright.async_api import Playwright

    from rmsweb.web.page import ChromiumPage, ImageStore

log = logging.getLogger(__name__)

CLOSE_S = 8.0


class Page(Protocol):
    """What one episode looks at and acts in. Single use."""

    async def observe(self) -> Observation:
        """What is shown now."""
        ...

    async def act(self, action: Action) -> Effect:
        """Carries the action out; raises BrowserError when the browser (not the page) breaks."""
        ...

    async def evaluate(self, expression: str, argument: Any = None) -> Any:
        """JavaScript in the shown tab, for suites that read their own pages."""
        ...

    async def close(self) -> None:
        """Gives the page back; may be called again."""
        ...


class Browser(Protocol):
    """Opens pages; an async context manager."""

    async def open(self, start_url: str, *, own_hosts: Sequence[str] = ()) -> Page:
        """A fresh page at the start address. `own_hosts` are `host:port` of servers that are ours."""
        ...


@dataclass(eq=False)
class _Slot:
    """One running browser."""

    browser: "PlaywrightBrowser"
    number: int
    opened: int = 0
    retiring: bool = False
    pages: "set[ChromiumPage]" = field(default_factory=set)


class ChromiumPool:
    """Few real browsers for many episodes: `async with ChromiumPool(config.browser, images, viewport) as browser`.

    `images` is where screenshots go (`store.Images`). `viewport` and `scale` hold for every page unless `open` is told
    otherwise. `downloads` is the folder for kept downloads. `version`, `executable` and `notes` belong in a manifest.
    """

    def __init__(
        self,
        config: BrowserConfig,
        images: "ImageStore",
        viewport: tuple[int, int] = (1280, 800),
        scale: float = 1.0,
        downloads: Path | None = None,
    ) -> None:
        self.config, self.viewport, self.scale = config, Viewport(*viewport), scale
        self.version = ""
        self.executable = ""
        self.notes: tuple[str, ...] = ()
        self._images, self._downloads = images, downloads if config.downloads else None
        self._places = asyncio.Semaphore(config.concurrency)
        self._launching = asyncio.Lock()
        self._slots: list[_Slot] = []
        self._launched = 0
        self._playwright: Playwright | None = None
        self._folder: Path | None = None

    async def __aenter__(self) -> Self:
        chromium.require_playwright()
        if self.config.storage_state and not Path(self.config.storage_state).is_file():
            raise ConfigError(f"browser.storage_state {self.config.storage_state} does not exist")
        self.executable = str(chromium.find_executable(self.config.executable))
        note = chromium.sandbox_note(self.config.sandbox)
        self.notes = (note,) if note else ()
        chromium.sweep_leftovers()
        from playwright.async_api import async_playwright

        self._folder = chromium.make_folder()
        with chromium.temporary_files_in(self._folder):
            self._playwright = await async_playwright().start()
        try:
            await self._launch()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for slot in list(self._slots):
            for page in list(slot.pages):
                await page.close()
        await self._stop()

    async def open(
        self,
        start_url: str,
        viewport: tuple[int, int] | None = None,
        scale: float | None = None,
        *,
        own_hosts: Sequence[str] = (),
    ) -> "ChromiumPage":
        """A fresh context at the start address; waits for a free place. Raises BrowserError (launch, navigation)."""
        await self._places.acquire()
        try:
            slot = await self._slot()
            slot.opened += 1
            page = await self._page(slot, Viewport(*(viewport or self.viewport)), scale or self.scale, own_hosts)
        except BaseException:
            self._places.release()
            raise
        try:
            await page.start(start_url)
        except BaseException:
            await page.close()
            raise
        return page

    @property
    def browsers(self) -> frozenset[int]:
        """Identities of the browsers that run now."""
        return frozenset(slot.number for slot in self._slots)

    async def _page(self, slot: _Slot, viewport: Viewport, scale: float, own_hosts: Sequence[str]) -> "ChromiumPage":
        from playwright.async_api import Error

        from rmsweb.web import observe
        from rmsweb.web.network import Gate
        from rmsweb.web.page import OPEN_S, ChromiumPage

        gate = await Gate.open(self.config, own_hosts)
        try:
            context = await asyncio.wait_for(
                slot.browser.new_context(
                    viewport={"width": viewport.width, "height": viewport.height},
                    device_scale_factor=scale,
                    locale="en-US",
                    timezone_id="UTC",
                    reduced_motion="reduce",
                    service_workers="block",
                    proxy=gate.settings(),
                    storage_state=self.config.storage_state or None,
                ),
                OPEN_S,
            )
            await context.add_init_script(observe.INIT_SCRIPT)
        except BaseException as error:
            await gate.close()
            if not isinstance(error, Error | TimeoutError):
                raise
            slot.retiring = True
            await self._retire(slot)
            raise BrowserError(
                f"no new context: {str(error).partition(chr(10))[0] or 'no answer'}", "browser_gone"
            ) from error

        async def closed(failed: str) -> None:
            slot.pages.discard(page)
            slot.retiring = slot.retiring or bool(failed) or slot.opened >= self.config.recycle_after
            self._places.release()
            await self._retire(slot)

        page = ChromiumPage(context, self.config, self._images, viewport, gate, self._downloads, closed)
        slot.pages.add(page)
        return page

    async def _slot(self) -> _Slot:
        """The least used browser that takes new pages; launches one where there is room."""
        async with self._launching:
            able = [slot for slot in self._slots if not slot.retiring and slot.browser.is_connected()]
            if len(able) < self.config.browsers and all(slot.pages for slot in able):
                able.append(await self._launch())
            return min(able, key=lambda slot: len(slot.pages))

    async def _launch(self) -> _Slot:
        from playwright.async_api import Error

        if self._playwright is None or self._folder is None:
            raise RuntimeError("the pool is not open: use it in 'async with'")
        try:
            browser = await self._playwright.chromium.launch(
                executable_path=self.executable,
                args=[*chromium.RENDER_ARGS, *chromium.QUIET_ARGS],
                chromium_sandbox=not chromium.sandbox_note(self.config.sandbox),
                headless=True,
                handle_sigint=False,
                timeout=30_000,
                env=chromium.environment(self._folder),
            )
        except Error as error:
            raise BrowserError(
                f"{self.executable} does not start (no user namespaces for a sandbox? browser.sandbox=false): {error}",
                "launch",
            ) from error
        self._launched += 1
        slot = _Slot(browser, self._launched)
        self._slots.append(slot)
        self.version = browser.version
        browser.on("disconnected", lambda _: self._lost(slot))
        return slot

    def _lost(self, slot: _Slot) -> None:
        slot.retiring = True
        for page in slot.pages:
            page.browser_lost()

    async def _retire(self, slot: _Slot) -> None:
        """Closes a browser that takes no new pages once its last one is gone."""
        if not slot.retiring or slot.pages or slot not in self._slots:
            return
        self._slots.remove(slot)
        from playwright.async_api import Error

        try:
            await asyncio.wait_for(slot.browser.close(), CLOSE_S)
        except (Error, TimeoutError):
            log.warning("a browser did not close within %g s; it ends with the pool", CLOSE_S)

    async def _stop(self) -> None:
        for slot in list(self._slots):
            slot.retiring = True
            slot.pages.clear()
            await self._retire(slot)
        if self._playwright is not None:
            await self._playwright.stop()
            self._playwright = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
