"""The page over a real Chromium: what each action does, and the pages that make agents trip (field log, b)."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

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
    SelectOption,
    SwitchTab,
    TripleClick,
    Type,
    Wait,
    WebSearch,
)
from rmsweb.config import BrowserConfig
from rmsweb.records import Effect, Element, Observation
from rmsweb.web.browser import ChromiumPool
from rmsweb.web.page import ChromiumPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

Serve = Callable[..., Any]


class Store(dict[str, bytes]):
    def put(self, png: bytes) -> str:
        sha = hashlib.sha256(png).hexdigest()
        self[sha] = png
        return sha


STORE = Store()
CONFIG = BrowserConfig(search_url="http://127.0.0.1:9/find?q={query}", action_timeout_s=20, navigation_timeout_s=20)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChromiumPool]:
    async with ChromiumPool(CONFIG, STORE, (640, 480)) as opened:
        yield opened


async def step(page: ChromiumPage, action: Action) -> tuple[Effect, Observation]:
    effect = await page.act(action)
    return effect, await page.observe()


def at(x: int, y: int) -> Point:
    return Point(x=x, y=y)


def named(now: Observation, name: str) -> Element:
    assert now.elements is not None
    return next(element for element in now.elements if element.name == name)


def body(html: str, title: str = "page") -> dict[str, str]:
    return {"/": f"<!doctype html><title>{title}</title>{html}"}


async def test_first_look_names_what_is_there(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        body(
            '<style>*{position:absolute;margin:0}</style><h2 style="top:5px;left:8px">Shop</h2>'
            '<a href="/x" style="left:10px;top:50px">Red mug</a><button style="left:10px;top:80px">Buy</button>'
            '<input aria-label="Search" value="mug" style="left:10px;top:120px">'
            '<label style="left:10px;top:160px"><input type="checkbox" checked style="position:static">Gift</label>'
            '<label for="s" style="left:10px;top:200px">Size</label>'
            '<select id="s" style="left:80px;top:200px"><option>S<option selected>XL</select>'
            '<p style="left:10px;top:900px">below the fold</p><p style="display:none">hidden</p>'
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    now = await page.observe()
    rows = {(element.role, element.name): element for element in now.elements or ()}
    wanted = {("text", "Shop"), ("link", "Red mug"), ("button", "Buy"), ("input", "Search"), ("checkbox", "Gift")}
    assert wanted | {("select", "Size")} <= set(rows)
    assert rows["input", "Search"].value == "mug"
    assert rows["checkbox", "Gift"].value == "checked"
    assert rows["select", "Size"].value == "XL"
    assert not any("fold" in name or "hidden" in name for _, name in rows)
    assert (now.title, now.tabs, now.tab, now.status, now.blank) == ("page", ("page",), 0, 200, False)
    assert Image.open(io.BytesIO(STORE[now.image])).size == (640, 480)
    await page.close()


async def test_a_click_tells_what_it_hit_and_follows_the_link(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        {
            **body('<a href="/two" style="position:absolute;left:40px;top:60px">Second</a>'),
            "/two": "<title>2</title>two",
        }
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    await page.observe()
    effect, now = await step(page, LeftClick(point=at(60, 68)))
    assert effect.hit is not None and (effect.hit.role, effect.hit.name) == ("link", "Second")
    assert effect.changed and now.title == "2" and now.url.endswith("/two")
    assert any('link "Second"' in message for message in now.messages)
    effect, now = await step(page, GoBack())
    assert effect.changed and now.url == site.url
    effect, now = await step(page, GoBack())
    assert "no earlier page" in effect.error and now.url == site.url
    await page.close()


async def test_a_click_that_does_nothing_is_quick_and_says_so(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(body("<p>still</p>"))
    page = await pool.open(site.url, own_hosts=[site.host])
    before = await page.observe()
    effect, now = await step(page, LeftClick(point=at(300, 300)))
    assert not effect.changed and now.image == before.image
    await page.close()


async def test_pointer_actions_reach_the_page_as_the_events_they_are(pool: ChromiumPool, serve: Serve) -> None:
    script = (
        "<script>for (const kind of ['click','dblclick','contextmenu','mousemove'])"
        "addEventListener(kind, e => { document.title = kind + (e.detail || '') })</script>"
    )
    site = serve(body(f"<body style='height:400px'>here{script}"))
    page = await pool.open(site.url, own_hosts=[site.host])
    for action, title in (
        (LeftClick(point=at(50, 50)), "click1"),
        (DoubleClick(point=at(90, 50)), "dblclick2"),
        (TripleClick(point=at(50, 90)), "click3"),
        (RightClick(point=at(50, 120)), "contextmenu"),
        (MouseMove(point=at(80, 150)), "mousemove"),
    ):
        _, now = await step(page, action)
        assert now.title == title
    await page.close()


async def test_drag_moves_from_where_to_where(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        body(
            "pull<script>addEventListener('mousedown',e=>start=[e.x,e.y]);"
            "addEventListener('mouseup',e=>document.title=start+'>'+[e.x,e.y])</script>"
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    _, now = await step(page, Drag(start=at(20, 30), point=at(200, 90)))
    assert now.title == "20,30>200,90"
    _, now = await step(page, Drag(point=at(5, 5)))
    assert now.title == "200,90>5,5"
    await page.close()


async def test_typing_into_a_field_with_enter(pool: ChromiumPool, serve: Serve) -> None:
    field = '<input name="q" value="old" style="position:absolute;left:40px;top:60px;width:200px">'
    form = f'<form action="/found">{field}</form>'
    site = serve({**body(form), "/found": "<title>found</title>x"})
    page = await pool.open(site.url, own_hosts=[site.host])
    effect, _ = await step(page, Type(text="red mug", point=at(100, 70), clear_first=True))
    assert effect.value == "red mug" and effect.hit is not None and effect.hit.role == "input"
    effect, now = await step(page, Type(text=" xl", press_enter=True))
    assert effect.value == "red mug xl" and now.url.endswith("/found?q=red+mug+xl")
    await page.close()


@pytest.mark.parametrize("text", ['café 🍵 "ok" C:\\new\nline2', "日本", "half \ud83c"])
async def test_text_arrives_as_written(pool: ChromiumPool, serve: Serve, text: str) -> None:
    site = serve(body('<textarea style="position:absolute;left:40px;top:60px"></textarea>'))
    page = await pool.open(site.url, own_hosts=[site.host])
    effect, now = await step(page, Type(text=text, point=at(60, 70)))
    assert effect.value == text.replace("\ud83c", "\ufffd") if "half" in text else effect.value == text
    assert effect.model_dump_json() and now.model_dump_json()
    await page.close()


async def test_typing_without_a_field_is_told(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(body("<p>nothing to type into</p>"))
    page = await pool.open(site.url, own_hosts=[site.host])
    effect, now = await step(page, Type(text="lost"))
    assert effect.value is None and any("no field had the focus" in message for message in now.messages)
    await page.close()


async def test_keys_and_an_unknown_one(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        body(
            "press<script>addEventListener('keydown',e=>document.title+=' '+(e.ctrlKey?'C-':'')+e.key)</script>", "keys"
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    for keys in (("PageDown",), ("Control", "A"), ("+",)):
        effect, now = await step(page, Key(keys=keys))
        assert not effect.error
    assert now.title == "keys PageDown C-Control C-A +"
    effect, now = await step(page, Key(keys=("Retrun",)))
    assert "unknown key 'Retrun'" in effect.error and now.title.endswith("+")
    await page.close()


async def test_native_drop_down_by_its_text_also_in_a_frame(pool: ChromiumPool, serve: Serve) -> None:
    select = (
        '<select aria-label="City" style="position:absolute;left:20px;top:20px" '
        'onchange="parent.document.title=this.value"><option>Any<option value=r>Rome <option value=n>New  York'
        "<option value=j>New Jersey<option disabled>Oslo</select>"
    )
    style = "position:absolute;left:100px;top:100px;width:300px;height:200px;border:3px solid"
    frame = f'<iframe src="/in" style="{style}"></iframe>'
    site = serve({**body(select + frame), "/in": select})
    page = await pool.open(site.url, own_hosts=[site.host])
    effect, now = await step(page, SelectOption(point=at(30, 30), text="rome"))
    assert effect.value == "Rome" and now.title == "r" and effect.changed and not effect.error
    effect, now = await step(page, SelectOption(point=at(133, 133), text="new york"))
    assert effect.value == "New York" and now.title == "n"
    assert effect.hit is not None and effect.hit.frame.endswith("/in") and effect.hit.box.x == 123
    for text, error in (
        ("New", "several options match"),
        ("Paris", 'no option reads "Paris"; options: Any | Rome'),
        ("Oslo", "disabled"),
    ):
        effect, _ = await step(page, SelectOption(point=at(30, 30), text=text))
        assert error in effect.error
    effect, _ = await step(page, SelectOption(point=at(600, 400), text="Rome"))
    assert "no native drop-down" in effect.error
    await page.close()


async def test_addresses_are_repaired_or_refused(pool: ChromiumPool, serve: Serve) -> None:
    site = serve({**body("<p>home"), "/a.html": "<title>A</title>a"})
    page = await pool.open(site.url, own_hosts=[site.host])
    for text in (f"<{site.url}a.html>", f"{site.host}/a.html", f"  {site.url}a.html"):
        effect, now = await step(page, Goto(url=text))
        assert not effect.error and now.title == "A"
    for text in (
        "checkout.html",
        "file:///etc/hosts",
        "javascript:alert(1)",
        "chrome://crash",
        "view-source:http://a.com",
    ):
        effect, now = await step(page, Goto(url=text))
        assert effect.error and not effect.changed and now.title == "A"
    effect, _ = await step(page, WebSearch(query="red mug"))
    assert "refused address http://127.0.0.1:9/find?q=red+mug" in effect.error
    await page.close()


async def test_tabs_open_switch_and_close(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        {
            **body('<a target=_blank href="/two" style="position:absolute;left:40px;top:60px">Two</a>'),
            "/two": "<title>2</title>two",
        }
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    _, now = await step(page, LeftClick(point=at(50, 68)))
    messages = now.messages
    for _ in range(100):  # a loaded machine takes its time to open a tab
        if now.title == "2":
            break
        await asyncio.sleep(0.1)
        now = await page.observe()
        messages += now.messages
    assert (now.tabs, now.tab, now.title) == (("page", "2"), 1, "2")
    assert any("new tab" in message for message in messages)
    _, now = await step(page, SwitchTab(tab=0))
    assert (now.tab, now.title) == (0, "page")
    effect, now = await step(page, SwitchTab(tab=7))
    assert "there is no tab 7" in effect.error
    _, now = await step(page, NewTab(url=f"{site.url}two"))
    assert (len(now.tabs), now.tab) == (3, 2)
    _, now = await step(page, CloseTab(tab=0))
    assert (now.tabs, now.tab) == (("2", "2"), 1)
    _, now = await step(page, CloseTab())
    effect, now = await step(page, CloseTab())
    assert now.tabs == ("2",) and "last tab" in effect.error
    await page.close()


async def test_actions_without_an_effect_on_the_page(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(body("<p>calm</p>"))
    page = await pool.open(site.url, own_hosts=[site.host])
    before = await page.observe()
    for action in (Memorize(fact="x"), Answer(text="y"), Wait(seconds=0.05)):
        effect, now = await step(page, action)
        assert effect == Effect() and now.image == before.image
    await page.close()


async def test_writes_are_recorded_with_their_status(pool: ChromiumPool, serve: Serve) -> None:
    form = (
        '<form action="/post" method="post"><button style="position:absolute;left:40px;top:60px">Send</button></form>'
    )
    site = serve({**body(form), "/post": "redirect:/done", "/done": "<title>done</title>ok"})
    page = await pool.open(site.url, own_hosts=[site.host])
    effect, now = await step(page, LeftClick(point=at(50, 70)))
    assert [(w.method, w.status, w.stopped) for w in effect.writes] == [("POST", 302, False)]
    assert now.title == "done" and site.count("POST", "/post") == 1
    await page.close()


async def test_device_scale_is_handled_once(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        body(
            '<button style="position:absolute;left:300px;top:220px;width:40px;height:40px" '
            'onclick="document.title=1">B</button>'
        )
    )
    page = await pool.open(site.url, (640, 480), 2.0, own_hosts=[site.host])
    now = await page.observe()
    assert Image.open(io.BytesIO(STORE[now.image])).size == (640, 480)
    _, now = await step(page, LeftClick(point=at(320, 240)))
    assert now.title == "1" and named(now, "B").box.x == 300
    await page.close()
