"""One episode's page over real Chromium: look, act, close.

Owns the order of things in a step: act, settle, picture, effect. Promises that a call comes back: what hangs raises
BrowserError `hang`, a dead renderer `page_crash`, a dead browser `browser_gone`, all within the configured limits; and
that what the page (not the browser) did wrong is text in the step. Single use: never reset, never shared.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from playwright.async_api import BrowserContext, Error

from rmsweb.actions import (
    Action,
    Answer,
    DoubleClick,
    Goto,
    LeftClick,
    Memorize,
    MouseMove,
    RightClick,
    Scroll,
    Terminate,
    TripleClick,
    Viewport,
    Wait,
    WebSearch,
)  # fmt: skip
from rmsweb.config import BrowserConfig
from rmsweb.errors import BrowserError
from rmsweb.records import Effect, Element, Observation
from rmsweb.web import observe
from rmsweb.web.acting import Done, Hands, StepError
from rmsweb.web.network import Gate
from rmsweb.web.watch import Watch

T = TypeVar("T")

QUIET_S = 0.06
"""Nothing started for this long after an action: nothing will. A navigation asks for its document within it."""
SLOW_QUIET_S = 0.6
"""The same at most, on a machine that takes long over everything."""
SHORT_QUIET_S = 0.02
"""The same for actions that rarely start anything."""
REUSE_S = 0.25
"""A picture taken at the end of `act` serves a look that follows at once."""
LOOKS = 4
OPEN_S = 30.0
"""A new tab may need a new process, which on a loaded machine takes far longer than any action."""
CLOSE_S = 4.0


class ImageStore(Protocol):
    """Where pictures go: `store.Images` is one."""

    def put(self, png: bytes) -> str: ...


class ChromiumPage:
    """A fresh context with its tabs. `tags` holds safety tags: refused_address, write_stopped."""

    def __init__(
        self,
        context: BrowserContext,
        config: BrowserConfig,
        images: ImageStore,
        viewport: Viewport,
        gate: Gate,
        downloads: Path | None,
        on_closed: Callable[[str], Awaitable[None]],
    ) -> None:
        self._context, self._config, self._images, self.viewport = context, config, images, viewport
        self._watch = Watch(context, config.dialogs, downloads)
        self._gate = gate
        self._hands = Hands(self._watch, config, viewport, gate.reason)
        self._on_closed = on_closed
        self._before: Observation | None = None
        """The last look: what the next action is compared with."""
        self._last: Observation | None = None
        """The look at the end of `act`, until it has been given out."""
        self._taken = 0.0
        self._failed = ""
        self._closed = False

    @property
    def tags(self) -> frozenset[str]:
        """Safety tags of the episode so far."""
        return frozenset(self._gate.tags)

    def browser_lost(self) -> None:
        """The browser disconnected: whatever is under way ends now."""
        self._watch.fail("browser_gone")

    async def start(self, url: str) -> None:
        """Opens the first tab. Raises BrowserError `navigation` when the start address is refused or does not load."""
        await self._gate.attach(self._context, self._watch)
        limit = self._config.navigation_timeout_s + self._config.settle_s + 2
        try:
            await self._within(self._context.new_page(), OPEN_S)
            if url:
                await self._within(self._hands.goto(url), limit)
                await self._within(self._watch.settle(QUIET_S, self._config.settle_s), limit)
        except StepError as error:
            raise BrowserError(f"start page: {error}", "navigation") from error

    async def observe(self) -> Observation:
        """What is shown now. Raises BrowserError when the browser cannot say."""
        last = self._last
        if last is not None and not self._watch.messages and time.monotonic() - self._taken < REUSE_S:
            self._last = None
            return last
        seen = await self._observe()
        self._before = seen
        return seen

    async def act(self, action: Action) -> Effect:
        """Carries the action out and waits until the page has settled. Raises BrowserError when the browser breaks."""
        before = self._before if self._before is not None else await self._observe()
        watch = self._watch
        watch.begin()
        done, error = Done(), ""
        limit = self._config.action_timeout_s
        if isinstance(action, Goto | WebSearch):
            limit = max(limit, self._config.navigation_timeout_s + 2)
        elif isinstance(action, Wait):
            limit += action.seconds
        started = time.monotonic()
        try:
            done = await self._within(self._hands.perform(action), limit)
        except StepError as reason:
            error = str(reason)
        if isinstance(action, Memorize | Answer | Terminate):
            return Effect()
        quiet = QUIET_S
        if isinstance(action, MouseMove | Scroll | Wait):
            quiet = SHORT_QUIET_S
        elif not isinstance(action, Goto | WebSearch):
            # On a machine that is slow to act, what the action started is as slow to show.
            quiet = max(QUIET_S, min(2 * (time.monotonic() - started), SLOW_QUIET_S))
        await self._within(watch.settle(quiet, self._config.settle_s), self._config.settle_s + limit)
        value = done.value
        if done.typed and watch.shown is not None:
            with suppress(StepError):  # the field went away with its page: then it has no value
                value = (await self._within(observe.focus(watch.shown), limit)).value
        if isinstance(action, LeftClick | DoubleClick | TripleClick | RightClick) and done.hit is not None:
            watch.messages.append(f"the click landed on {_told(done.hit)}")
        refused = self._gate.take_refused()
        watch.messages.extend(refused)
        after = await self._observe()
        self._before = self._last = after
        self._taken = time.monotonic()
        return Effect(
            hit=done.hit,
            changed=(before.url, before.tabs, before.tab, before.image)
            != (after.url, after.tabs, after.tab, after.image),
            moved=done.moved,
            writes=tuple(watch.writes),
            downloads=tuple(watch.saved),
            value=value,
            error=error or "; ".join(refused),
        )

    async def evaluate(self, expression: str, argument: Any = None) -> Any:
        """JavaScript in the shown tab, for a suite that reads its own pages; no policy gets at this.

        Raises ValueError when the script fails in the page, BrowserError when the browser does.
        """
        try:
            page = self._hands.page
            return await self._within(page.evaluate(expression, argument), self._config.action_timeout_s)
        except StepError as error:
            raise ValueError(f"script in {self._where()}: {error}") from error

    async def close(self) -> None:
        """Ends the context with its tabs, cookies and downloads under way. May be called again."""
        if self._closed:
            return
        self._closed = True
        try:
            await asyncio.wait_for(self._watch.finish(), CLOSE_S)
            await asyncio.wait_for(self._context.close(), CLOSE_S)
        except (Error, TimeoutError) as error:
            self._failed = self._failed or ("hang" if isinstance(error, TimeoutError) else "browser_gone")
        finally:
            await self._gate.close()
            await self._on_closed(self._failed)

    async def _observe(self) -> Observation:
        """A whole look; again while the first picture of a new document has one single colour."""
        end = time.monotonic() + self._config.first_paint_s
        while True:
            seen = await self._settled_look()
            if seen.url == "about:blank" or not (seen.blank and self._watch.fresh and time.monotonic() < end):
                break
            await asyncio.sleep(0.1)
        self._watch.fresh = False
        self._watch.messages.extend(self._gate.take_refused())
        return seen.model_copy(update={"messages": self._watch.take_messages()})

    async def _settled_look(self) -> Observation:
        """A look; tried again when the page changes under it (a tab that closes, a document that is replaced)."""
        for attempt in range(LOOKS):
            try:
                return await self._within(self._look(), 2 * self._config.action_timeout_s)
            except StepError as error:
                if attempt == LOOKS - 1:
                    self._failed = self._failed or "hang"
                    raise BrowserError(f"{self._where()} cannot be looked at: {error}", "hang") from error
                await asyncio.sleep(0.1 * (attempt + 1))
        raise AssertionError("unreachable")

    def _where(self) -> str:
        return self._watch.shown.url if self._watch.shown is not None else "no tab"

    async def _look(self) -> Observation:
        if self._watch.shown is None:
            self._watch.messages.append("the page closed its last tab; an empty one is shown")
            await self._context.new_page()
        page = self._hands.page
        tabs = self._watch.tabs
        await observe.fonts_ready(page)
        look = await observe.look(page, self.viewport, elements=self._config.elements)
        png = await observe.screenshot(page, self._config.action_timeout_s)
        if self._config.elements:
            for _ in range(LOOKS):
                again = await observe.look(page, self.viewport, elements=True)
                if again._replace(printed=0) == look._replace(printed=0):
                    break
                # The page changed between list and picture: they would belong to two moments.
                look, png = again, await observe.screenshot(page, self._config.action_timeout_s)
        if page is not self._hands.page:
            # A tab opened under the look: picture and next action would belong to different pages.
            raise StepError("another tab came to the front")
        if look.printed:
            self._watch.messages.append("the page asked to print; nothing was printed")
        titles = [look.title if tab is page else await observe.title(tab) for tab in tabs]
        return Observation(
            image=self._images.put(png),
            url=page.url,
            title=look.title,
            tabs=tuple(title or tab.url for title, tab in zip(titles, tabs, strict=True)),
            tab=tabs.index(page) if page in tabs else 0,
            elements=look.elements if self._config.elements else None,
            blank=not look.scrolled and observe.one_color(png, self.viewport),
            status=None if self._gate.refuses(page.url) else self._watch.status.get(page),
        )

    async def _within(self, work: Awaitable[T], seconds: float) -> T:
        """The work's result, or BrowserError when the browser breaks or does not answer in time."""
        task = asyncio.ensure_future(work)
        broken = self._watch.broken
        try:
            waited: set[asyncio.Future[Any]] = {task, broken}
            await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
        if not task.cancelled() and task.done():
            try:
                return task.result()
            except Error as error:
                await asyncio.wait({broken}, timeout=0.1)  # the event that explains the error may come after it
                raise await self._named(error) from error
        reason = broken.result() if broken.done() else "hang"
        self._failed = self._failed or reason
        raise BrowserError(
            f"the page does not answer within {seconds:g} s" if reason == "hang" else f"{reason}", reason
        )

    async def _named(self, error: Error) -> Exception:
        """What a Playwright error means: the browser broke, or only this step cannot be done."""
        text = str(error).partition("\n")[0]
        broken = self._watch.broken
        if "crashed" in text:
            reason = "page_crash"
        elif broken.done():
            reason = broken.result()
        elif "closed" in text and self._context.browser is not None and self._context.browser.is_connected():
            return StepError("the tab closed itself")
        elif "closed" in text or "Connection" in text:
            reason = "browser_gone"
        elif "Timeout" in text:
            reason = "hang"
        else:
            return StepError(text)
        self._failed = self._failed or reason
        return BrowserError(text, reason)


def _told(element: Element) -> str:
    if element.role == "other" and not element.name:
        return "nothing that has a name"
    return f'{element.role} "{element.name[:80]}"' if element.name else f"a {element.role} without a name"
