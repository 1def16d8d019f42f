"""Listens to one browser context: tabs, dialogs, downloads, choosers, crashes, requests.

Promises that a dialog is answered at once (a page that waits for one hangs), that the newest tab is the one that is
shown, that each request which may change a server is recorded, and that `settle` is over as soon as what an action
started has arrived. Never acts on a page.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import BrowserContext, Dialog, Download, Error, FileChooser, Frame, Page, Request, Response

from rmsweb.records import Write

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
WAITED_FOR = frozenset({"document", "xhr", "fetch", "script", "stylesheet"})
"""Requests whose answer changes what the page shows; pictures and media come when they come."""
NO_DOCUMENT = frozenset({204, 205})
QUIET_S = 0.03
"""A page is settled when nothing has been under way for this long."""


class Watch:
    """What happens in one context, collected between two looks at it."""

    def __init__(self, context: BrowserContext, dialogs: str, downloads: Path | None) -> None:
        self.context, self._dialogs, self._downloads = context, dialogs, downloads
        self.broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Set to the reason of a BrowserError when the browser, not the page, has failed."""
        self.shown: Page | None = None
        self.messages: list[str] = []
        self.writes: list[Write] = []
        self.saved: list[str] = []
        self.status: dict[Page, int] = {}
        self.fresh = True
        """A document was loaded in the shown tab since the last look."""
        self.last_hit = ""
        """Name of what the last action hit: a part of the rule for irreversible requests."""
        self._stirred = asyncio.Event()
        self._pending: set[Request] = set()
        self._loading: set[Page | None] = set()
        """Tabs whose new document was asked for and has not been read to its end."""
        self._tasks: set[asyncio.Task[None]] = set()
        context.on("page", self._on_page)
        context.on("dialog", self._on_dialog)
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("requestfinished", self._on_request_end)
        context.on("requestfailed", self._on_request_failed)
        context.on("close", lambda _: self.fail("browser_gone"))

    def fail(self, reason: str) -> None:
        """The first reason stays."""
        if not self.broken.done():
            self.broken.set_result(reason)

    @property
    def tabs(self) -> list[Page]:
        """Open tabs in the order of their opening."""
        return [page for page in self.context.pages if not page.is_closed()]

    def begin(self) -> None:
        """Forgets what belongs to the action before."""
        self.writes.clear()
        self.saved.clear()
        self._stirred.clear()
        # A long poll of an earlier action is nothing that this one started.
        self._pending = {request for request in self._pending if request.is_navigation_request()}

    def take_messages(self) -> tuple[str, ...]:
        """What was said since the last call; equal messages once."""
        taken = tuple(dict.fromkeys(self.messages))
        self.messages.clear()
        return taken

    def stopped_write(self, method: str, url: str) -> None:
        """A request that the rule for irreversible acts held back."""
        self.writes.append(Write(method=method, url=url, stopped=True))
        self.messages.append(f"stopped a request that looks irreversible: {method} {url}")

    async def settle(self, quiet: float, limit: float) -> None:
        """Returns after `quiet` seconds in which nothing started, else when what started is there; at most `limit`."""
        end = time.monotonic() + limit
        if not self._pending and not await self._stirs(quiet):
            return
        while (left := end - time.monotonic()) > 0:
            self._stirred.clear()
            if self._pending or self.shown in self._loading:
                await self._stirs(min(left, 0.1))
            elif not await self._stirs(min(left, QUIET_S)):
                return

    async def _stirs(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stirred.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def watch_page(self, page: Page) -> None:
        """Listens to a tab and shows it."""
        self.shown, self.fresh = page, True
        page.on("close", self._on_close)
        page.on("domcontentloaded", self._on_parsed)
        page.on("crash", lambda _: self.fail("page_crash"))
        page.on("download", self._on_download)
        page.on("filechooser", self._on_chooser)
        page.on("framenavigated", self._on_navigated)

    def _on_page(self, page: Page) -> None:
        if self.shown is not None:
            self.messages.append("a new tab was opened and is shown")
        self.watch_page(page)
        self._stirred.set()

    def _on_close(self, page: Page) -> None:
        self._stirred.set()
        self.status.pop(page, None)
        self._loading.discard(page)
        if page is self.shown:
            self.shown = self.tabs[-1] if self.tabs else None
            self.fresh = True

    def _on_navigated(self, frame: Frame) -> None:
        self._stirred.set()
        if frame.parent_frame is None and frame.page is self.shown:
            self.fresh = True

    def _on_dialog(self, dialog: Dialog) -> None:
        accept = self._dialogs == "accept" or dialog.type == "beforeunload"
        done = "accepted" if accept else "dismissed"
        if dialog.type != "beforeunload":
            self.messages.append(f'{dialog.type} dialog "{dialog.message[:300]}" was {done}')
        default = dialog.default_value if dialog.type == "prompt" else None
        self._later(
            lambda: dialog.accept(default) if accept and default else dialog.accept() if accept else dialog.dismiss()
        )

    def _on_chooser(self, chooser: FileChooser) -> None:
        self.messages.append("the page asked for a file; no file was chosen")

    def _on_download(self, download: Download) -> None:
        self._stirred.set()
        self._later(lambda: self._download(download))

    async def _download(self, download: Download) -> None:
        name = Path(download.suggested_filename.replace("\\", "/")).name or "download"
        self.saved.append(name)
        if self._downloads is None:
            self.messages.append(f"download of {name} was dropped")
            await download.cancel()
            await download.delete()
            return
        self._downloads.mkdir(parents=True, exist_ok=True)
        target = self._downloads / f"{len(list(self._downloads.iterdir())):03d}-{name}"
        await download.save_as(target)
        self.messages.append(f"downloaded {name} ({target.stat().st_size} bytes)")

    def _on_request(self, request: Request) -> None:
        if request.resource_type in WAITED_FOR or request.is_navigation_request():
            self._pending.add(request)
            self._stirred.set()
        if request.redirected_from is not None:
            self._pending.discard(request.redirected_from)
        if (page := _document_of(request)) is not None:
            self._loading.add(page)

    def _on_response(self, response: Response) -> None:
        request = response.request
        if request.method not in SAFE_METHODS:
            self.writes.append(Write(method=request.method, url=request.url, status=response.status))
        if (page := _document_of(request)) is not None:
            self.status[page] = response.status
            if response.status in NO_DOCUMENT:
                self._loading.discard(page)

    def _on_request_end(self, request: Request) -> None:
        self._pending.discard(request)
        self._stirred.set()

    def _on_request_failed(self, request: Request) -> None:
        self._loading.discard(_document_of(request))
        self._on_request_end(request)

    def _on_parsed(self, page: Page) -> None:
        self._loading.discard(page)
        self._stirred.set()

    def _later(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            except (Error, OSError) as error:
                self.messages.append(str(error).partition("\n")[0])

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Waits for what is under way (a download being kept), at most three seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=3.0)


def _document_of(request: Request) -> Page | None:
    """The tab that a request gets a new document for; None for all other requests."""
    if not request.is_navigation_request():
        return None
    try:
        return request.frame.page if request.frame.parent_frame is None else None
    except Error:  # a new tab's first request comes before its frame
        return None
