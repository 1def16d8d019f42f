"""Carries actions out in a tab: pointer, keyboard, wheel, drop-down, addresses, tabs.

Owns the meaning of each action in terms of Playwright's calls. Promises that what cannot be done is a `StepError` whose
text goes to the model, and that text is typed as given. Never decides whether an address is allowed (network.py) and
never waits for a page to settle (watch.py).
"""

import asyncio
import ipaddress
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote_plus

from playwright.async_api import Error, Page

from rmsweb.actions import (
    Action,
    Answer,
    CloseTab,
    DoubleClick,
    Drag,
    GoBack,
    Goto,
    Key,
    LeftClick,
    Memorize,
    MouseMove,
    NewTab,
    Point,
    RightClick,
    Scroll,
    SelectOption,
    SwitchTab,
    Terminate,
    TripleClick,
    Type,
    Viewport,
    Wait,
    WebSearch,
)  # fmt: skip
from rmsweb.config import BrowserConfig
from rmsweb.records import Element
from rmsweb.web import observe
from rmsweb.web.watch import Watch

TYPED_KEY_BY_KEY = 200
"""Longer texts, and texts with line breaks, are put in at once: Enter would submit a form half-way."""
FILE_ENDINGS = frozenset(
    {
        *("html", "htm", "php", "asp", "aspx", "jsp", "pdf", "txt", "csv", "doc", "docx", "xls", "xlsx", "xml", "json"),
        *("jpg", "jpeg", "png", "gif", "svg", "webp", "js", "css", "zip", "md", "py"),
    }
)
"""A bare `checkout.html` is a file, whatever top-level domains exist."""
SCROLL_POLL_S, SCROLL_WAIT_S = 0.016, 0.15


class StepError(Exception):
    """The action could not be done; the page is still usable."""


class Done(NamedTuple):
    """What carrying out an action found out by itself."""

    hit: Element | None = None
    moved: int | None = None
    value: str | None = None
    typed: bool = False
    """The final value of the focused field is to be read after the page has settled."""


class Hands:
    """Acts in the shown tab of one context."""

    def __init__(self, watch: Watch, config: BrowserConfig, viewport: Viewport, refused: Callable[[str], str]) -> None:
        self._watch, self._config, self._viewport = watch, config, viewport
        self._refused = refused
        """Why the network rules refuse an address; empty when they do not."""
        self._mouse = Point(x=viewport.width // 2, y=viewport.height // 2)

    @property
    def page(self) -> Page:
        page = self._watch.shown
        if page is None:
            raise StepError("no tab is open")
        return page

    async def perform(self, action: Action) -> Done:
        """Carries the action out. Raises StepError for what cannot be done, Playwright's Error for what broke."""
        match action:
            case LeftClick() | DoubleClick() | TripleClick() | RightClick() | MouseMove():
                return await self._pointer(action)
            case Drag():
                return await self._drag(action)
            case Type():
                return await self._type(action)
            case Key(keys=keys):
                return await self._key(keys)
            case Scroll():
                return await self._scroll(action)
            case SelectOption():
                return await self._select(action)
            case Wait(seconds=seconds):
                await asyncio.sleep(seconds)
            case Goto(url=url):
                await self.goto(url)
            case WebSearch(query=query):
                await self.goto(self._config.search_url.format(query=quote_plus(query)))
            case GoBack():
                await self._go_back()
            case SwitchTab(tab=tab):
                await self._switch(tab)
            case NewTab(url=url):
                await self._new_tab(url)
            case CloseTab(tab=tab):
                await self._close_tab(tab)
            case Memorize() | Answer() | Terminate():
                pass
        return Done()

    async def _aim(self, point: Point) -> observe.Spot:
        if not (0 <= point.x < self._viewport.width and 0 <= point.y < self._viewport.height):
            raise StepError(
                f"({point.x}, {point.y}) is outside the viewport {self._viewport.width}x{self._viewport.height}"
            )
        spot = await observe.locate(self.page, point)
        self._mouse = point
        self._watch.last_hit = spot.hit.name if spot.hit is not None else ""
        return spot

    async def _pointer(self, action: LeftClick | DoubleClick | TripleClick | RightClick | MouseMove) -> Done:
        spot = await self._aim(action.point)
        mouse, x, y = self.page.mouse, action.point.x, action.point.y
        match action:
            case LeftClick():
                await mouse.click(x, y)
            case DoubleClick():
                await mouse.dblclick(x, y)
            case TripleClick():
                await mouse.click(x, y, click_count=3)
            case RightClick():
                await mouse.click(x, y, button="right")
            case MouseMove():
                await mouse.move(x, y)
        return Done(hit=spot.hit)

    async def _drag(self, action: Drag) -> Done:
        start = action.start or self._mouse
        spot = await self._aim(start)
        mouse = self.page.mouse
        await mouse.move(start.x, start.y)
        await mouse.down()
        try:
            await mouse.move(action.point.x, action.point.y, steps=12)
        finally:
            await mouse.up()
        self._mouse = action.point
        return Done(hit=spot.hit)

    async def _type(self, action: Type) -> Done:
        hit = None
        if action.point is not None:
            hit = (await self._aim(action.point)).hit
            await self.page.mouse.click(action.point.x, action.point.y)
        focus = await observe.focus(self.page)
        if not focus.editable:
            self._watch.messages.append("no field had the focus: the text went to the page")
        keyboard = self.page.keyboard
        if action.clear_first:
            # Selecting and overwriting is what a person does; emptying by script makes some pages refill the field.
            await keyboard.press("Control+A")
            if not action.text:
                await keyboard.press("Delete")
        text = action.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if text.isascii() and text.isprintable() and len(text) <= TYPED_KEY_BY_KEY:
            await keyboard.type(text)
        elif text:
            await keyboard.insert_text(text)
        value = (await observe.focus(self.page)).value if action.press_enter and focus.editable else None
        if action.press_enter:
            await keyboard.press("Enter")
        if hit is None and focus.row is not None and focus.editable:
            hit = observe.element(focus.row, 0, 0, focus.frame)
        return Done(hit=hit, value=value, typed=focus.editable and not action.press_enter)

    async def _key(self, keys: tuple[str, ...]) -> Done:
        try:
            await self.page.keyboard.press("+".join(keys))
        except Error as error:
            if "Unknown key" in str(error):
                raise StepError(
                    f"unknown key {'+'.join(keys)!r}; examples: Enter, Escape, ArrowDown, Control+A"
                ) from None
            raise
        return Done()

    async def _scroll(self, action: Scroll) -> Done:
        point = action.point or Point(x=self._viewport.width // 2, y=self._viewport.height // 2)
        spot = await self._aim(point)
        before = await observe.scroll_positions(spot)
        await self.page.mouse.move(point.x, point.y)
        await self.page.mouse.wheel(action.dx, action.dy)
        moved, same = 0, 0
        for _ in range(round(SCROLL_WAIT_S / SCROLL_POLL_S)):
            await asyncio.sleep(SCROLL_POLL_S)
            now = await observe.scroll_positions(spot)
            pairs = zip(before, now, strict=False)
            distance = round(max((abs(a - c) + abs(b - d) for (a, b), (c, d) in pairs), default=0))
            same = same + 1 if distance == moved else 0
            moved = distance
            if moved and same:
                break
        if not moved:
            self._watch.messages.append("nothing moved")
        return Done(hit=spot.hit, moved=moved)

    async def _select(self, action: SelectOption) -> Done:
        spot = await self._aim(action.point)
        answer = await observe.read(spot.frames[-1], "choose", spot.x, spot.y, action.text)
        if "error" in answer:
            raise StepError(answer["error"])
        url = spot.frames[-1].url if len(spot.frames) > 1 else ""
        return Done(hit=observe.element(answer["row"], spot.left, spot.top, url), value=answer["value"])

    async def goto(self, text: str) -> None:
        """Opens an address in the shown tab; repaired first, refused by the rules, or reported when it fails."""
        url = repair_address(text)
        if reason := self._refused(url):
            raise StepError(reason)
        try:
            await self.page.goto(url, wait_until="commit", timeout=self._config.navigation_timeout_s * 1000)
        except Error as error:
            line = str(error).partition("\n")[0].removeprefix("Page.goto: ")
            if "Download is starting" in line or "interrupted by another navigation" in line:
                return
            if "crashed" in line or "closed" in line:
                raise
            if "Timeout" in line:
                line = f"no answer within {self._config.navigation_timeout_s:g} s"
            raise StepError(f"{url} did not load: {line}") from None

    async def _go_back(self) -> None:
        session = await self._watch.context.new_cdp_session(self.page)
        history = await session.send("Page.getNavigationHistory")
        await session.detach()
        index = history["currentIndex"]
        # The empty page that every tab starts with is no page the agent has seen.
        if index == 0 or (index == 1 and history["entries"][0]["url"] == "about:blank"):
            raise StepError("there is no earlier page in this tab")
        try:
            await self.page.go_back(wait_until="commit", timeout=self._config.navigation_timeout_s * 1000)
        except Error as error:
            if "Timeout" not in str(error):
                raise
            raise StepError("the earlier page did not load") from None

    def _tab(self, index: int) -> Page:
        tabs = self._watch.tabs
        if index >= len(tabs):
            raise StepError(f"there is no tab {index}; open tabs: 0..{len(tabs) - 1}")
        return tabs[index]

    async def _switch(self, index: int) -> None:
        page = self._tab(index)
        await page.bring_to_front()
        self._watch.shown, self._watch.fresh = page, False

    async def _new_tab(self, text: str) -> None:
        url = repair_address(text) if text.strip() else ""
        if url and (reason := self._refused(url)):
            raise StepError(reason)
        await self._watch.context.new_page()
        if url:
            await self.goto(url)

    async def _close_tab(self, index: int | None) -> None:
        if len(self._watch.tabs) == 1:
            raise StepError("the last tab cannot be closed")
        page = self.page if index is None else self._tab(index)
        await page.close()


def repair_address(text: str) -> str:
    """An address as a model writes it, made whole. Raises StepError for what is none.

    Brackets, quotes and blanks round it go; a host without a scheme gets https, a numeric one or localhost http.
    """
    url = text.strip().strip("<>\"'` ")
    if re.match(r"(?i)^(https?)://[^/\s]", url):
        return url
    scheme = re.match(r"(?i)^([a-z][a-z0-9+.-]*):(?!\d)", url)
    if scheme:
        raise StepError(f"refused address {url[:200]}: only http and https are opened")
    host = re.match(r"^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:\d+)?(?=[/?#]|$)", url)
    if host is None or not _is_host(host[1], bare=host[0] == url):
        raise StepError(f"{text.strip()[:200]!r} is no address; give a whole one, such as https://www.example.com/")
    local = host[1] == "localhost" or _is_number(host[1])
    return f"{'http' if local else 'https'}://{url}"


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _is_host(host: str, *, bare: bool) -> bool:
    if host == "localhost" or _is_number(host):
        return True
    labels = host.split(".")
    if len(labels) < 2 or not all(labels) or not labels[-1].isalpha() or len(labels[-1]) < 2:
        return False
    return not (bare and labels[-1].lower() in FILE_ENDINGS)
