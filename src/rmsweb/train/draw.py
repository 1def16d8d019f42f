"""Synthetic pages as pixels: every label's alpha mask is taken once from a real Chromium, pages are blended from them.

Owns `Glyphs` (masks by style and label) and `draw` (cells -> 224x320x3 bytes, below a millisecond). Promises that a
drawn page equals Chromium's screenshot of the same cells up to anti-aliasing noise (a test compares them). It draws
only the plain elements of `rmsweb.web.compact`; it knows no site.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from rmsweb.errors import MissingPartError
from rmsweb.web.chromium import QUIET_ARGS, RENDER_ARGS, find_executable, sandbox_note
from rmsweb.web.compact import ACCENTS, BACKGROUNDS, CELL, CSS, HEIGHT, WIDTH, Cell, page_html

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    """(height, width, 3)."""

Style = Literal["text", "link", "button", "hint"]
"""How a label is written: black, accent and underlined, white on accent, grey on white (a placeholder)."""

HINT = (117, 117, 117)
"""Colour of a placeholder in compact.css."""
FONT = Path(__file__).parents[1] / "web" / "static" / "fonts" / "compact-bold.woff2"
_FONT_URL = "/static/fonts/compact-bold.woff2"
_SHEET_COLUMNS, _SHEET_ROWS = 6, 60
"""Labels of one sheet: WIDTH px wide slots, CELL px high."""


class Drawn(NamedTuple):
    """One element to draw: the cell and, for an input, what has been typed into it."""

    cell: Cell
    typed: str = ""


def rgb(colour: str) -> tuple[int, int, int]:
    """`#rrggbb` as three bytes."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def with_font(html: str) -> str:
    """The page with its web font inside, so that it needs no server."""
    data = base64.b64encode(FONT.read_bytes()).decode()
    return html.replace(_FONT_URL, f"data:font/woff2;base64,{data}")


def screenshots(pages: list[str], executable: str = "", width: int = WIDTH, height: int = HEIGHT) -> list[Pixels]:
    """Each document as this machine's Chromium shows it. Raises MissingPartError without a Chromium.

    Runs in a thread of its own, so that it may be called from within an event loop too.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_screenshots, pages, executable, width, height).result()


def _screenshots(pages: list[str], executable: str, width: int, height: int) -> list[Pixels]:
    import numpy as np
    from PIL import Image
    from playwright.sync_api import Error, sync_playwright

    found = str(find_executable(executable))
    arguments = [*RENDER_ARGS, *QUIET_ARGS, *(["--no-sandbox"] if sandbox_note(True) else [])]
    shots = []
    with sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=found, args=arguments)
        except Error as error:
            raise MissingPartError(f"{found} does not start as a browser: {error}") from error
        page = browser.new_page(viewport={"width": width, "height": height})
        for html in pages:
            page.set_content(with_font(html))
            page.evaluate("document.fonts.ready")
            shots.append(np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).copy())
        browser.close()
    return shots


def drawn_html(elements: Iterable[Drawn], background: str, accent: str) -> str:
    """The document that `draw` draws: for comparisons with a real browser."""
    cells = [e.cell if not e.typed else e.cell._replace(html=_typed_html(e)) for e in elements]
    return page_html(cells, background, accent)


def _typed_html(element: Drawn) -> str:
    cell = element.cell
    label, value = escape(cell.label), escape(element.typed)
    return f'<input class="cell input" style="{cell.style()}" placeholder="{label}" value="{value}">'


class Glyphs:
    """Alpha masks of labels, (28, width) floats of 0..1, by style; what is not in it is drawn empty."""

    def __init__(self, masks: Mapping[tuple[Style, str], NDArray[np.float32]]) -> None:
        self._masks = dict(masks)

    def __contains__(self, key: tuple[Style, str]) -> bool:
        return key in self._masks

    def __len__(self) -> int:
        return len(self._masks)

    def mask(self, style: Style, label: str) -> NDArray[np.float32] | None:
        """The mask, or None for a label that was never rendered (a policy may type anything)."""
        return self._masks.get((style, label))

    def cells(self, style: Style, label: str) -> int:
        """Grid cells that the label needs, its paddings included. Raises KeyError for an unknown label."""
        return -(-(int(self._masks[style, label].shape[1]) + 4) // CELL)

    @classmethod
    def render(cls, labels: Iterable[tuple[Style, str]], executable: str = "") -> Glyphs:
        """Masks of these labels from this machine's Chromium: about 1 ms a label."""
        wanted = sorted(set(labels))
        size = _SHEET_COLUMNS * _SHEET_ROWS
        groups: list[list[tuple[Style, str]]] = []
        for style in ("text", "link", "button", "hint"):
            same = [key for key in wanted if key[0] == style]
            groups += [same[start : start + size] for start in range(0, len(same), size)]
        sheets = [_sheet_html(group) for group in groups]
        shots = screenshots(sheets, executable, _SHEET_COLUMNS * WIDTH, _SHEET_ROWS * CELL)
        masks: dict[tuple[Style, str], NDArray[np.float32]] = {}
        for group, shot in zip(groups, shots, strict=True):
            masks.update(_cut(group, shot))
        return cls(masks)

    @classmethod
    def blank(cls, labels: Iterable[tuple[Style, str]]) -> Glyphs:
        """Grey bars, nine pixels a letter: pages can be laid out with them where no browser is at hand."""
        import numpy as np

        return cls({key: np.full((28, 9 * len(key[1])), 0.5, np.float32) for key in labels})


def _colours(style: Style) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Foreground and background that a style's masks are taken with."""
    match style:
        case "text":
            return (0, 0, 0), (255, 255, 255)
        case "link":
            return rgb(ACCENTS[0]), (255, 255, 255)
        case "button":
            return (255, 255, 255), rgb(ACCENTS[0])
        case "hint":
            return HINT, (255, 255, 255)


def _sheet_html(group: list[tuple[Style, str]]) -> str:
    foreground, background = _colours(group[0][0])
    line = "underline" if group[0][0] == "link" else "none"
    spans = []
    for index, (_, label) in enumerate(group):
        left, top = index % _SHEET_COLUMNS * WIDTH, index // _SHEET_COLUMNS * CELL + 2
        spans.append(f'<span style="left:{left}px;top:{top}px">{escape(label)}</span>')
    sheet = (
        f"html,body{{width:{_SHEET_COLUMNS * WIDTH}px;height:{_SHEET_ROWS * CELL}px;background:rgb{background}}}"
        f"span{{position:absolute;height:28px;padding:0 0 0 2px;white-space:nowrap;color:rgb{foreground};"
        f"text-decoration:{line}}}"
    )
    return f"<!doctype html><meta charset=utf-8><style>{CSS}{sheet}</style><body>{''.join(spans)}</body>"


def _cut(group: list[tuple[Style, str]], shot: Pixels) -> dict[tuple[Style, str], NDArray[np.float32]]:
    import numpy as np

    foreground, background = (np.array(c, np.float32) for c in _colours(group[0][0]))
    channel = int(np.abs(foreground - background).argmax())
    alpha = (shot[:, :, channel] - background[channel]) / (foreground[channel] - background[channel])
    masks = {}
    for index, key in enumerate(group):
        left, top = index % _SHEET_COLUMNS * WIDTH, index // _SHEET_COLUMNS * CELL + 2
        slot = alpha[top : top + 28, left : left + WIDTH]
        inked = np.nonzero(slot.any(0))[0]
        masks[key] = slot[:, : int(inked.max()) + 1 if len(inked) else 1].clip(0, 1).astype(np.float32).copy()
    return masks


def style_of(element: Drawn) -> tuple[Style, str]:
    """Style and text that an element shows."""
    match element.cell.kind:
        case "input":
            return ("text", element.typed) if element.typed else ("hint", element.cell.label)
        case "select" | "text":
            return "text", element.cell.label
        case "link":
            return "link", element.cell.label
        case "button":
            return "button", element.cell.label


def draw(
    elements: Iterable[Drawn], glyphs: Glyphs, background: str = BACKGROUNDS[0], accent: str = ACCENTS[0]
) -> Pixels:
    """The page, (224, 320, 3). Later elements lie over earlier ones."""
    import numpy as np

    page = np.empty((HEIGHT, WIDTH, 3), np.float32)
    page[:] = rgb(background)
    accent_rgb = np.array(rgb(accent), np.float32)
    for element in elements:
        kind, _, column, row, width, _ = element.cell
        left, top, right = column * CELL, row * CELL + 2, min(WIDTH, (column + width) * CELL - 2)
        style, label = style_of(element)
        edge = 0
        if kind == "button":
            page[top : top + 28, left:right] = accent_rgb
        elif kind in ("input", "select"):
            page[top : top + 28, left:right] = accent_rgb
            page[top + 2 : top + 26, left + 2 : right - 2] = 255.0
            edge = 2
        mask = glyphs.mask(style, label)
        if mask is None:
            continue
        # the mask's own 2 px of padding are in it; a border moves the text by its width
        start = left + edge
        room = min(mask.shape[1], right - edge - start)
        if room <= 0:
            continue
        colour = {"text": np.zeros(3, np.float32), "link": accent_rgb, "button": np.full(3, 255.0, np.float32)}.get(
            style, np.array(HINT, np.float32)
        )
        slot = page[top + edge : top + 28 - edge, start : start + room]
        slot += mask[edge : 28 - edge, :room, None] * (colour - slot)
    return np.round(page).astype(np.uint8)
