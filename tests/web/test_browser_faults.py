"""Pages that hang, hide, move or lie (field log, b): each fault of the log once, on a page of our own."""

import asyncio
import hashlib
import io
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from rmsweb.actions import Action, Key, LeftClick, Point, Scroll, Type, Wait
from rmsweb.config import BrowserConfig
from rmsweb.records import Effect, Observation
from rmsweb.web.browser import ChromiumPool
from rmsweb.web.page import ChromiumPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

Serve = Callable[..., Any]


class Store(dict[str, bytes]):
    def put(self, png: bytes) -> str:
        sha = hashlib.sha256(png).hexdigest()
        self[sha] = png
        return sha


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChromiumPool]:
    async with ChromiumPool(BrowserConfig(action_timeout_s=20), Store(), (1280, 720)) as opened:
        yield opened


async def step(page: ChromiumPage, action: Action) -> tuple[Effect, Observation]:
    effect = await page.act(action)
    return effect, await page.observe()


async def shown(page: ChromiumPage, title: str) -> Observation:
    """The first look at a tab of this title; a loaded machine takes its time to open one."""
    end = time.monotonic() + 20
    while (now := await page.observe()).title != title and time.monotonic() < end:
        await asyncio.sleep(0.1)
    return now


def click(x: int, y: int) -> LeftClick:
    return LeftClick(point=Point(x=x, y=y))


def document(title: str, html: str) -> dict[str, str]:
    return {"/": f"<!doctype html><title>{title}</title>{html}"}


async def test_alert_on_load_is_answered_and_told(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(document("stock", "<p>Left: 41</p><script>setTimeout(() => alert('Pick a size'), 150)</script>"))
    page = await pool.open(site.url, own_hosts=[site.host])
    first = await page.observe()
    _, now = await step(page, Wait(seconds=0.3))
    messages = (*first.messages, *now.messages)
    assert any('alert dialog "Pick a size" was accepted' in message for message in messages)
    await page.close()


async def test_confirm_follows_the_setting(serve: Serve) -> None:
    ask = "document.title = confirm('Sure?') ? 'yes' : 'no'"
    site = serve(document("ask", f'<button style="position:absolute;left:40px;top:40px" onclick="{ask}">Go</button>'))
    for setting, title in (("accept", "yes"), ("dismiss", "no")):
        async with ChromiumPool(BrowserConfig(dialogs=setting), Store(), (320, 224)) as pool:
            page = await pool.open(site.url, own_hosts=[site.host])
            effect, now = await step(page, click(50, 50))
            assert now.title == title and any("Sure?" in message for message in now.messages) and not effect.error


async def test_click_on_a_layer_names_the_layer(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        document(
            "shop",
            '<button style="position:absolute;left:40px;top:300px;width:200px;height:40px" onclick="document.title=1">'
            'Add</button><div id=c style="position:fixed;left:0;right:0;bottom:0;top:200px;background:#eee">'
            "We use cookies"
            '<button style="position:absolute;right:20px;top:10px" onclick="c.remove()">Reject</button></div>',
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    now = await page.observe()
    assert next(e for e in now.elements or () if e.name == "Add").covered
    effect, now = await step(page, click(140, 320))
    assert effect.hit is not None and effect.hit.name.startswith("We use cookies") and not effect.changed
    assert now.title == "shop" and any("We use cookies" in message for message in now.messages)
    reject = next(e for e in now.elements or () if e.name == "Reject").box
    await step(page, click(round(reject.x + 10), round(reject.y + 8)))
    effect, now = await step(page, click(140, 320))
    assert now.title == "1" and effect.hit is not None and effect.hit.name == "Add"
    await page.close()


async def test_wheel_scrolls_an_inner_box_and_says_how_far(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        document(
            "chat",
            '<body style="margin:0;height:100vh;overflow:hidden"><div style="height:100vh;overflow-y:auto">'
            '<div style="height:3000px">top</div><b>code word: PLUM</b></div>',
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    effect, now = await step(page, Scroll(dy=600))
    assert effect.moved == 600
    effect, now = await step(page, Scroll(dy=6000))
    assert effect.moved and any(e.name == "code word: PLUM" for e in now.elements or ())
    effect, now = await step(page, Scroll(dy=600))
    assert effect.moved == 0 and not effect.changed and "nothing moved" in now.messages
    await page.close()


async def test_frame_of_another_site_is_acted_in_and_read(pool: ChromiumPool, serve: Serve) -> None:
    card = serve(
        {"/card": '<input aria-label="Card" style="position:absolute;left:10px;top:20px;width:200px;height:30px">'},
        "localhost",
    )
    frame = (
        f'<iframe src="{card.url}card" style="position:absolute;left:40px;top:80px;width:300px;height:120px"></iframe>'
    )
    site = serve(document("pay", f"<h3>Card details</h3>{frame}"))
    page = await pool.open(site.url, own_hosts=[site.host, card.host])
    effect, now = await step(page, Type(text="4111", point=Point(x=110, y=115)))
    assert effect.hit is not None and effect.hit.name == "Card" and effect.hit.frame == f"{card.url}card"
    assert effect.hit.box.contains(Point(x=110, y=115)) and effect.value == "4111"
    inner = next(e for e in now.elements or () if e.name == "Card")
    assert inner.value == "4111" and (inner.box.x, inner.box.y) == (52, 102)
    await page.close()


async def test_replacing_the_text_of_a_field_that_formats_itself(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        document(
            "amount",
            '<input id=a value="0.00" style="position:absolute;left:40px;top:60px;width:160px;height:30px">'
            "<script>a.onchange = () => { a.value = (Number(a.value) || 0).toFixed(2) }</script>",
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    effect, _ = await step(page, Type(text="12.5", point=Point(x=60, y=70), clear_first=True))
    assert effect.value == "12.5"
    _, now = await step(page, Key(keys=("Tab",)))
    assert [e.value for e in now.elements or () if e.role == "input"] == ["12.50"]
    await page.close()


async def test_a_page_that_fills_late_is_waited_for(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        document(
            "report", "<div id=r></div><script>setTimeout(() => r.innerHTML = '<h2>Total 5,310</h2>', 900)</script>"
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    now = await page.observe()
    assert not now.blank and any("5,310" in e.name for e in now.elements or ())
    await page.close()


async def test_a_page_that_stays_empty_is_marked_blank(serve: Serve) -> None:
    site = serve(document("empty", ""))
    async with ChromiumPool(BrowserConfig(first_paint_s=0.3), Store(), (320, 224)) as pool:
        page = await pool.open(site.url, own_hosts=[site.host])
        assert (await page.observe()).blank


@pytest.mark.parametrize("inner", [False, True])
async def test_an_empty_stretch_of_a_page_that_was_scrolled_is_not_blank(serve: Serve, inner: bool) -> None:
    style = "position:fixed;inset:0;overflow:auto" if inner else ""
    site = serve(document("shop", f"<div style='{style}'><h1>Tea</h1><div style='height:3000px'></div>End</div>"))
    store = Store()
    async with ChromiumPool(BrowserConfig(first_paint_s=0.3), store, (320, 224)) as pool:
        page = await pool.open(site.url, own_hosts=[site.host])
        assert not (await page.observe()).blank
        _, now = await step(page, Scroll(point=Point(x=150, y=110), dy=900))
        with Image.open(io.BytesIO(store[now.image])) as picture:
            middle = picture.convert("RGB").crop((0, 0, 290, 224))  # without a scroll bar
        assert len(middle.getcolors() or ()) == 1 and not now.blank, "the world did not fail: the agent went there"


async def test_a_tab_that_opens_late_is_found_in_the_next_look(pool: ChromiumPool, serve: Serve) -> None:
    late = "setTimeout(() => window.open('/detail'), 400)"
    site = serve(
        {
            **document("list", f'<button style="position:absolute;left:40px;top:60px" onclick="{late}">Open</button>'),
            "/detail": "<title>detail</title>d",
        }
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    _, now = await step(page, click(50, 70))
    now = await shown(page, "detail")
    assert (now.tabs, now.tab, now.title) == (("list", "detail"), 1, "detail")
    await page.close()


async def test_an_endless_feed_gives_viewport_pictures(pool: ChromiumPool, serve: Serve) -> None:
    feed = (
        "<div id=f></div><script>let n = 0; const more = () => { for (let i = 0; i < 20; i++) {"
        "const d = document.createElement('p'); d.textContent = 'post ' + ++n; d.style.height = '80px';"
        "f.append(d) } }; more(); addEventListener('scroll', () => {"
        "if (innerHeight + scrollY > document.body.scrollHeight - 400) more() })</script>"
    )
    site = serve(document("feed", feed))
    page = await pool.open(site.url, own_hosts=[site.host])
    for _ in range(12):
        effect, now = await step(page, Scroll(dy=700))
        assert effect.moved
    assert now.elements is not None and len(now.elements) < 20
    await page.close()


async def test_choosers_and_printing_are_told(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        document(
            "os",
            '<input type=file style="position:absolute;left:40px;top:40px">'
            '<button style="position:absolute;left:40px;top:100px" onclick="print()">Print</button>',
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    _, now = await step(page, click(60, 50))
    assert any("asked for a file" in message for message in now.messages)
    _, now = await step(page, click(55, 110))
    assert any("asked to print" in message for message in now.messages)
    await page.close()


@pytest.mark.parametrize("keep", [False, True])
async def test_downloads_are_named_and_kept_only_when_asked(serve: Serve, tmp_path: Path, keep: bool) -> None:
    site = serve(
        {
            **document("files", '<a href="/r" style="position:absolute;left:40px;top:40px">Report</a>'),
            "/r": "attachment:1,2",
        }
    )
    async with ChromiumPool(BrowserConfig(downloads=keep), Store(), (320, 224), downloads=tmp_path / "kept") as pool:
        page = await pool.open(site.url, own_hosts=[site.host])
        effect, now = await step(page, click(55, 50))
        messages = now.messages
        for _ in range(100):
            if any("report.csv" in message for message in messages):
                break
            await asyncio.sleep(0.1)
            messages = (*messages, *(await page.observe()).messages)
        assert any("report.csv" in message for message in messages) and now.url == site.url
        assert effect.downloads == ("report.csv",) and not effect.error
        kept = [file.read_text() for file in (tmp_path / "kept").glob("*")]
        assert kept == (["attachment:1,2"] if keep else [])


async def test_a_navigation_under_way_is_not_mistaken_for_an_empty_page(pool: ChromiumPool, serve: Serve) -> None:
    hop = "setTimeout(() => { location = '/two' }, 20)"
    site = serve(
        {
            **document("one", f'<button style="position:absolute;left:40px;top:60px" onclick="{hop}">Go</button>'),
            "/two": "<title>two</title><p>Second</p>",
        }
    )
    for _ in range(5):
        page = await pool.open(site.url, own_hosts=[site.host])
        _, now = await step(page, click(50, 70))
        assert now.title == "two" and [e.name for e in now.elements or ()] == ["Second"]
        await page.close()


async def test_fetched_content_is_there_in_the_next_look(pool: ChromiumPool, serve: Serve) -> None:
    load = "fetch('/data').then(r => r.text()).then(t => o.textContent = t)"
    site = serve(
        {
            **document(
                "ajax", f'<button style="position:absolute;left:40px;top:60px" onclick="{load}">Load</button><p id=o>'
            ),
            "/data": "fresh",
        }
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    _, now = await step(page, click(50, 70))
    assert any(e.name == "fresh" for e in now.elements or ())
    await page.close()


async def test_a_tab_that_closes_itself_leaves_the_other(pool: ChromiumPool, serve: Serve) -> None:
    pages = document("main", '<a target=_blank href="/pop" style="position:absolute;left:40px;top:60px">Pop</a>')
    pages["/pop"] = (
        '<title>pop</title><button style="position:absolute;left:40px;top:60px" onclick="window.close()">Close</button>'
    )
    site = serve(pages)
    page = await pool.open(site.url, own_hosts=[site.host])
    await step(page, click(50, 68))
    assert (await shown(page, "pop")).title == "pop"
    await step(page, click(50, 68))
    assert (await shown(page, "main")).tabs == ("main",)
    await page.close()


async def test_of_a_page_of_many_nodes_the_viewport_is_read(pool: ChromiumPool, serve: Serve) -> None:
    site = serve(
        document(
            "big",
            "<body><script>for (let i = 0; i < 5000; i++)"
            "document.body.insertAdjacentHTML('beforeend', `<div><a href=#>${i}</a></div>`)</script>",
        )
    )
    page = await pool.open(site.url, own_hosts=[site.host])
    now = await page.observe()
    assert 10 < len(now.elements or ()) < 60
    await page.close()
