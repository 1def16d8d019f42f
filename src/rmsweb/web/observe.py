"""Looks at a page: the picture, the elements in the viewport, what lies at a point, what scrolls there.

Promises pictures of the viewport only, at CSS scale, and boxes in CSS pixels of the viewport also for what stands in
a frame. Reads through the one script `page.js`; a document that is replaced while it is read is read again.
Never acts (the native drop-down is the exception: no coordinate can choose in it).
"""

import asyncio
import io
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import Error, Frame, Page

from rmsweb.actions import Point, Viewport
from rmsweb.records import Box, Element

FRAMES = 8
"""Frames of one page that are read; more are advertisements."""
DESTROYED = ("Execution context was destroyed", "Cannot find context", "frame was detached", "Frame was detached")

INIT_SCRIPT = """(() => {
  const key = Symbol.for('rmsweb.printed');
  window.print = () => { globalThis[key] = (globalThis[key] || 0) + 1; };
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(':root { caret-color: transparent !important; }');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
})();"""
"""Runs in every document before its own scripts: counts printing, and keeps a blinking caret out of pictures."""


@cache
def script() -> str:
    """The page script, read once."""
    return (Path(__file__).parent / "page.js").read_text(encoding="utf-8")


class Spot(NamedTuple):
    """A point of the viewport in the document that shows there."""

    frames: tuple[Frame, ...]
    """From the main frame to the deepest one."""
    x: float
    """In the deepest frame's own pixels."""
    y: float
    left: float
    """Where the deepest frame starts in the viewport."""
    top: float
    hit: Element | None


class Look(NamedTuple):
    """What the script read of a whole page."""

    title: str
    printed: int
    scrolled: bool
    """What shows in the middle is not at its beginning any more: one colour there is an empty stretch of a page."""
    elements: tuple[Element, ...]


async def read(frame: Frame, *request: Any) -> Any:
    """One answer of the page script. Tried again while a navigation replaces the document."""
    for attempt in range(6):
        try:
            return await frame.evaluate(script(), list(request))
        except Error as error:
            if attempt == 5 or not any(text in str(error) for text in DESTROYED):
                raise
            await asyncio.sleep(0.03 * (attempt + 1))
    raise AssertionError("unreachable")


FONTS = """() => document.fonts.status === 'loading'
  ? Promise.race([document.fonts.ready, new Promise((done) => setTimeout(done, 1500))]).then(() => true) : false"""
"""Text in a web font is invisible until the font is there: a picture taken before it is a lie."""


async def fonts_ready(page: Page) -> None:
    """Waits (bounded) for web fonts that are being loaded; a document that is being replaced has none."""
    try:
        await page.evaluate(FONTS)
    except Error as error:
        if not any(text in str(error) for text in DESTROYED):
            raise


def element(row: dict[str, Any], left: float, top: float, frame: str) -> Element:
    """A row of the script as a record, moved to where its frame stands in the viewport."""
    x, y, width, height = row["box"]
    box = Box(x=round(x + left, 1), y=round(y + top, 1), width=round(width, 1), height=round(height, 1))
    return Element(
        role=row["role"], name=_text(row["name"]), box=box, value=_text(row["value"]), frame=frame,
        selector=row["selector"], covered=row["covered"],
    )  # fmt: skip


def _text(value: str) -> str:
    """A half of a surrogate pair (cut text, hostile pages) would make the record unwritable."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def look(page: Page, viewport: Viewport, *, elements: bool) -> Look:
    """Title, printing, and what is in the viewport, frames of the page included."""
    main = await read(page.main_frame, "list", elements)
    rows = [element(row, 0, 0, "") for row in main["rows"]]
    printed = main["printed"]
    if elements and len(page.frames) > 1:
        for frame, left, top in await _child_frames(page.main_frame, 0, 0, viewport):
            try:
                inner = await asyncio.wait_for(read(frame, "list", True), 1.0)
            except Exception as error:  # an advertisement that hangs or goes must not cost the picture of the page
                if _fatal(error):
                    raise
                continue
            printed += inner["printed"]
            found = (element(row, left, top, frame.url) for row in inner["rows"])
            rows += [row for row in found if _in_view(row.box, viewport)]
    return Look(_text(main["title"]), printed, bool(main["scrolled"]), tuple(rows))


def _fatal(error: Exception) -> bool:
    """Whether an error says more than that a frame or a tab does not answer."""
    if isinstance(error, TimeoutError):
        return False
    return "crashed" in str(error) or not isinstance(error, Error)


def _in_view(box: Box, viewport: Viewport) -> bool:
    return box.x < viewport.width and box.y < viewport.height and box.x + box.width > 0 and box.y + box.height > 0


async def _child_frames(parent: Frame, left: float, top: float, viewport: Viewport) -> list[tuple[Frame, float, float]]:
    """Frames below `parent` with their offsets; ones that go away or do not answer meanwhile are left out."""
    found: list[tuple[Frame, float, float]] = []
    for child in parent.child_frames[:FRAMES]:
        try:
            holder = await asyncio.wait_for(child.frame_element(), 1.0)
            x, y = await holder.evaluate(f"(element) => ({script()})(['inside', element])")
        except (Error, TimeoutError):
            continue
        if left + x < viewport.width and top + y < viewport.height:
            found.append((child, left + x, top + y))
            if child.child_frames:
                found += await _child_frames(child, left + x, top + y, viewport)
    return found[:FRAMES]


async def locate(page: Page, point: Point) -> Spot:
    """What is at the point, in the deepest frame that shows there."""
    frames, x, y = [page.main_frame], float(point.x), float(point.y)
    while len(frames) < FRAMES:
        found = await read(frames[-1], "at", x, y)
        if found is None or "row" in found:
            left, top = point.x - x, point.y - y
            url = frames[-1].url if len(frames) > 1 else ""
            return Spot(
                tuple(frames), x, y, left, top, None if found is None else element(found["row"], left, top, url)
            )
        child = await _content_frame(frames[-1], "element", x, y)
        if child is None:
            break
        frames.append(child)
        x, y = x - found["frame"][0], y - found["frame"][1]
    return Spot(tuple(frames), x, y, point.x - x, point.y - y, None)


async def _content_frame(frame: Frame, *request: Any) -> Frame | None:
    handle = await frame.evaluate_handle(script(), list(request))
    holder = handle.as_element()
    return None if holder is None else await holder.content_frame()


class Focus(NamedTuple):
    """What has the keyboard."""

    editable: bool
    value: str
    row: dict[str, Any] | None
    frame: str
    """URL of the frame it is in; empty in the main frame."""


async def focus(page: Page) -> Focus:
    """What has the focus, in whatever frame, and the value it holds."""
    frame = page.main_frame
    for _ in range(FRAMES):
        found = await read(frame, "focus")
        if found is None:
            break
        if "frame" not in found:
            url = "" if frame == page.main_frame else frame.url
            return Focus(found["editable"], _text(found["value"]), found["row"], url)
        child = await _content_frame(frame, "focused")
        if child is None:
            break
        frame = child
    return Focus(False, "", None, "")


async def scroll_positions(spot: Spot) -> list[tuple[float, float]]:
    """Left and top of all that can scroll under the spot, the inner ones first."""
    found: list[tuple[float, float]] = []
    for frame in spot.frames:
        deepest = frame is spot.frames[-1]
        x, y = (spot.x, spot.y) if deepest else (spot.x + spot.left, spot.y + spot.top)
        answer = await read(frame, "scrolls", x, y)
        found = [(across, down) for across, down in answer] + found
    return found


async def screenshot(page: Page, seconds: float) -> bytes:
    """PNG of the viewport at CSS scale. Tried three times: a loaded machine at times cannot capture."""
    for attempt in range(3):
        try:
            return await page.screenshot(type="png", scale="css", caret="initial", timeout=seconds * 1000)
        except Error as error:
            text = str(error)
            if attempt == 2 or "crashed" in text or "closed" in text or "Timeout" in text:
                raise
            await asyncio.sleep(0.1 * (attempt + 1))
    raise AssertionError("unreachable")


def one_color(png: bytes, viewport: Viewport) -> bool:
    """Whether the picture has one single colour. A picture of much more than that does not compress so far."""
    if len(png) > viewport.width * viewport.height // 100 + 1500:
        return False
    from PIL import Image

    with Image.open(io.BytesIO(png)) as picture:
        colors = picture.convert("RGB").getcolors(1)
    return colors is not None


async def title(page: Page) -> str:
    """Title of a tab that is not shown; empty when it does not say within half a second."""
    try:
        return _text(await asyncio.wait_for(page.title(), 0.5))
    except Exception as error:
        if _fatal(error):
            raise
        return ""
