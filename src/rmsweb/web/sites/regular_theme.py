"""The regular theme of the built-in sites: small real-looking web sites at 1280x800.

Renders the same pages as the compact theme through one jinja2 template and one style sheet (`static/regular.css`);
palette, navigation's side, listing style and density come from the world's look. Adds decoration (brand, blurb,
footer), never a control.
"""

import hashlib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from rmsweb.web.sites import markup
from rmsweb.web.sites.pages import Item, Line, LineKind, Page
from rmsweb.web.sites.pictures import drawing
from rmsweb.web.sites.world import World

TEMPLATES = Path(__file__).parent / "templates"
COLOR_CODES = {
    "red": "#d64545", "blue": "#3b6fd4", "green": "#3f9a5f", "black": "#2b2b2f", "white": "#f1efe9", "pink": "#ec8fb2",
    "gold": "#d9a93a", "grey": "#9aa0a8",
}  # fmt: skip


class Palette(NamedTuple):
    """Colours of a site: controls, text, page, panels, tinted panels, text on controls."""

    primary: str
    ink: str
    paper: str
    surface: str
    tint: str


PALETTES = (
    Palette("#1f5f8b", "#1d2730", "#f3f6f9", "#ffffff", "#e3eef6"),
    Palette("#2f7d4f", "#20291f", "#f6f8f2", "#ffffff", "#e2f0e4"),
    Palette("#8a3b6c", "#2a1f29", "#faf5f8", "#ffffff", "#f4e2ed"),
    Palette("#b4531c", "#2d241c", "#fbf6ef", "#ffffff", "#f8e6d3"),
    Palette("#4b3fa5", "#22203a", "#f5f4fb", "#ffffff", "#e6e3f7"),
    Palette("#0f766e", "#14231f", "#ffffff", "#f4f7f6", "#d9efec"),
)


class Voice(NamedTuple):
    """Words that make a site look like one; no task depends on them."""

    brands: tuple[str, ...]
    claim: str
    side_title: str
    side_text: str
    footer: str
    prose: tuple[str, ...]


VOICES = {
    "shop": Voice(
        ("Corner Goods", "Maple & Main", "Daily Supply", "Northside Shop"),
        "Good things for the home, picked by hand.",
        "Free returns",
        "Changed your mind? Send it back within a month, no questions asked.",
        "All prices in dollars, taxes included.",
        (
            "Made in small batches from materials that last, and checked by hand before it leaves the workshop.",
            "Wipe it with a damp cloth. Colours may look a little different on your screen than on your shelf.",
        ),
    ),
    "forum": Voice(
        ("The Porch", "Roundtable", "Open Thread", "Commons"),
        "Talk about the things you love.",
        "Be kind",
        "We are a small community. Read before you write, and stay on topic.",
        "Moderated by volunteers since the early days.",
        ("This thread is open to all members. Say what you mean, quote what you answer, and let others finish.",),
    ),
    "booking": Voice(
        ("Roomly", "Stayhere", "Quiet Nights", "Harbour Hotels"),
        "A good bed in every city.",
        "Pay at the hotel",
        "Prices are per night. Nothing is charged before you arrive.",
        "Hotels in eight cities around the world.",
        (
            "A quiet house near the station, with breakfast until late and a desk that is never closed.",
            "Arrive in the afternoon, leave before noon. Pets are welcome in most rooms.",
        ),
    ),
    "help": Voice(
        ("Support Desk", "Help Centre", "Ask & Answer", "Fixpoint"),
        "Short answers to common questions.",
        "Before you write",
        "Most answers are in the articles. Have your code at hand when you call.",
        "Waiting times are given in minutes.",
        (
            "Have your code ready when you call: it brings you to the right person. The wait is today's.",
            "If this does not help, write to us. Tell us what you tried and what you saw instead.",
        ),
    ),
    "gym": Voice(
        ("Iron & Oak", "Pulse", "Level Up", "Studio Nine"),
        "Move a little every day.",
        "First time here?",
        "Come ten minutes early and bring a towel. Water is free.",
        "Prices per class, in dollars.",
        ("Bring shoes with clean soles. You can leave a class until the evening before.",),
    ),
    "library": Voice(
        ("Elm Street Library", "Riverside Reads", "The Reading Room", "City Libraries"),
        "Free to read, free to borrow.",
        "Your loans",
        "Time is what is left of a loan, in days. Every loan can be given more of it once.",
        "Open all week. Members of any age are welcome.",
        (
            "Ordered books are kept for you at the desk of the house that you choose. Bring your member number.",
            "The wait is in days. It gets shorter when others bring their books back early.",
        ),
    ),
}


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("regular.html.jinja")


class Section(NamedTuple):
    """Lines of one kind that stand together."""

    kind: LineKind
    lines: tuple[Line, ...]


def sections(page: Page) -> list[Section]:
    """The page's lines in the groups that the template lays out."""
    return [Section(kind, tuple(lines)) for kind, lines in groupby(page.lines, key=lambda line: line.kind)]


def thumbnail(label: str) -> str:
    """CSS background that stands for a label of which there is no drawing: a tone of its own."""
    hue = int.from_bytes(hashlib.sha256(label.encode()).digest()[:2]) % 360
    return f"linear-gradient(135deg, hsl({hue} 45% 72%), hsl({(hue + 40) % 360} 50% 52%))"


def render(page: Page, world: World, prefix: str) -> str:
    """The document of a page."""
    voice, look = VOICES[world.site], world.look

    def control(item: Item, style: str = "") -> str:
        from markupsafe import Markup

        return Markup(markup.control(item, prefix, f'class="{item.kind} {style}"'))

    document: str = _template().render(
        page=page,
        links=[item for item in page.nav if item.kind == "link"],
        search=[item for item in page.nav if item.kind != "link"],
        sections=sections(page),
        forms="".join(markup.form(item, prefix) for item in page.forms),
        cookie_forms=markup.cookie_forms(prefix) if page.cookies else "",
        control=control,
        thumbnail=thumbnail,
        drawing=lambda label, size: drawing(label, COLOR_CODES.get(label.split()[0], "var(--primary)"), size),
        late=markup.late,
        hero=len(page.lines) > 2 and page.lines[0].kind == "heading" and world.site in ("shop", "booking"),
        palette=PALETTES[look.palette],
        look=look,
        site=world.site,
        brand=voice.brands[world.seed % len(voice.brands)],
        voice=voice,
    )
    return document
