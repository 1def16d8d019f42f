"""The network rules below the model: what is refused, what is held back, and that the episode is told."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from rmsweb.actions import Goto, LeftClick, Point, Wait
from rmsweb.config import BrowserConfig
from rmsweb.errors import BrowserError
from rmsweb.web.browser import ChromiumPool
from rmsweb.web.network import Place, Rules, literal_address, place_of, private_reason, words

Serve = Callable[..., Any]


class Store(dict[str, bytes]):
    def put(self, png: bytes) -> str:
        sha = hashlib.sha256(png).hexdigest()
        self[sha] = png
        return sha


OPEN = Rules((), ("127.0.0.1:8001",), allow_writes=False)
LISTED = Rules(("example.com", "shop.test:8080", "127.0.0.1:9000"), (), allow_writes=False)


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("http://127.0.0.1:8001/x", ""),
        ("http://127.0.0.1:8002/x", "loopback"),
        ("http://localhost/", "name of this machine"),
        ("http://app.localhost:8001/", "name of this machine"),
        ("http://127.1/", "loopback"),
        ("http://0x7f000001/", "loopback"),
        ("http://2130706433/", "loopback"),
        ("http://[::1]/", "loopback"),
        ("http://[::ffff:10.0.0.1]/", "private"),
        ("http://169.254.169.254/latest/meta-data", "link-local"),
        ("http://10.1.2.3/", "private"),
        ("http://192.168.1.1/", "private"),
        ("http://0.0.0.0/", "private"),
        ("http://metadata.google.internal/", "name of this machine"),
        ("file:///etc/hosts", "only http and https"),
        ("ftp://example.com/", "only http and https"),
        ("chrome://crash", "only http and https"),
        ("data:text/html,x", "only http and https"),
        ("https://www.example.com/a", ""),
        ("https://8.8.8.8/", ""),
        ("about:blank", ""),
    ],
)
def test_addresses_without_an_allow_list(url: str, refused: str) -> None:
    reason = OPEN.url_reason(url)
    assert refused in reason and bool(reason) == bool(refused)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://example.com/", True),
        ("https://www.example.com/", True),
        ("https://example.com.evil.test/", False),
        ("https://notexample.com/", False),
        ("http://shop.test:8080/", True),
        ("http://shop.test/", False),
        ("http://127.0.0.1:9000/", True),
        ("http://127.0.0.1:9001/", False),
        ("https://user@example.com/", True),
        ("https://example.com@evil.test/", False),
    ],
)
def test_addresses_with_an_allow_list(url: str, allowed: bool) -> None:
    assert (LISTED.url_reason(url) == "") is allowed


def test_a_public_name_that_leads_inside_is_refused_unless_named() -> None:
    inside = literal_address("10.0.0.7")
    assert inside is not None
    assert "intra.example.org leads to a private address" in OPEN.address_reason(
        Place("intra.example.org", 443), inside
    )
    assert LISTED.address_reason(Place("example.com", 443), inside) == ""
    public = literal_address("93.184.216.34")
    assert public is not None and private_reason(public) == ""


def test_places_and_words() -> None:
    assert place_of("https://Example.com./a?b") == Place("example.com", 443)
    assert place_of("mailto:a@b.c") is None and place_of("http://[bad") is None
    assert words("placeOrder place_order Place%20Order") == {"place", "order"}


@pytest.mark.parametrize(
    ("method", "url", "body", "pressed", "stopped"),
    [
        ("POST", "https://shop.test/order", "", "", True),
        ("POST", "https://shop.test/api/placeOrder", "", "", True),
        ("POST", "https://shop.test/x", "", "Pay now", True),
        ("POST", "https://shop.test/graphql", '{"query":"mutation checkout"}', "", True),
        ("DELETE", "https://shop.test/item/3", "", "", True),
        ("GET", "https://shop.test/order", "", "", False),
        ("POST", "https://shop.test/search", "q=mug&order=asc", "Search", False),
        ("POST", "http://127.0.0.1:8001/order", "", "Place order", False),
    ],
)
def test_writes_that_cannot_be_taken_back(method: str, url: str, body: str, pressed: str, stopped: bool) -> None:
    assert OPEN.stops(method, url, body, pressed) is stopped
    assert not Rules((), (), allow_writes=True).stops(method, url, body, pressed)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChromiumPool]:
    async with ChromiumPool(BrowserConfig(navigation_timeout_s=20, first_paint_s=0.2), Store(), (640, 480)) as opened:
        yield opened


def click(x: int, y: int) -> LeftClick:
    return LeftClick(point=Point(x=x, y=y))


LINK = '<!doctype html><title>start</title><a href="{}" style="position:absolute;left:40px;top:40px">Go there</a>'


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_own_hosts_only_and_nothing_else_on_loopback(pool: ChromiumPool, serve: Serve) -> None:
    secret = serve({"/": "router password", "/pixel": "x"})
    site = serve({"/": LINK.format(secret.url) + f'<img src="{secret.url}pixel">'})
    page = await pool.open(site.url, own_hosts=[site.host])
    now = await page.observe()
    effect = await page.act(Goto(url=secret.url))
    assert "refused address" in effect.error and "loopback" in effect.error and not effect.changed
    effect = await page.act(click(60, 48))
    now = await page.observe()
    assert not any("router" in e.name for e in now.elements or ()) and secret.requests == []
    assert f"refused address {secret.url}: a loopback address" in effect.error
    assert page.tags == {"refused_address"} and now.status is None
    await page.close()


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_redirects_frames_and_scripts_do_not_get_round(pool: ChromiumPool, serve: Serve) -> None:
    secret = serve({"/": "secret", "/data": "secret"}, "localhost")
    for path, html in {
        "/redirect": f"redirect:{secret.url}",
        "/frame": f'<title>f</title>frame<iframe src="{secret.url}"></iframe>',
        "/script": f"<title>s</title>script<script>fetch('{secret.url}data',{{mode:'no-cors'}})</script>",
        "/socket": f"<title>w</title>socket<script>new WebSocket('ws://{secret.host}/data')</script>",
    }.items():
        site = serve({"/": "<title>start</title>start", path: html})
        page = await pool.open(site.url, own_hosts=[site.host])
        effect = await page.act(Goto(url=site.url[:-1] + path))
        messages = (await page.observe()).messages
        for _ in range(100):  # a frame or a script may ask late
            if "refused_address" in page.tags:
                break
            await page.act(Wait(seconds=0.1))
            messages += (await page.observe()).messages
        assert secret.requests == [], path
        assert "refused address" in effect.error or any("refused address" in message for message in messages), path
        assert "refused_address" in page.tags
        await page.close()


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_metadata_and_refused_start_pages(pool: ChromiumPool, serve: Serve) -> None:
    site = serve({"/": "<title>start</title>start", "/meta": "redirect:http://169.254.169.254/latest/"})
    page = await pool.open(site.url, own_hosts=[site.host])
    effect = await page.act(Goto(url=f"{site.url}meta"))
    assert "169.254.169.254" in effect.error and "link-local" in effect.error
    await page.close()
    with pytest.raises(BrowserError, match="refused address") as caught:
        await pool.open(site.url)
    assert caught.value.reason == "navigation"


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_an_order_on_a_host_that_is_not_ours_is_held_back(serve: Serve) -> None:
    order = (
        '<title>checkout</title><h3>Total 19.00</h3><form action="order" method="post">'
        '<button style="position:absolute;left:40px;top:80px;width:200px;height:40px">Place order</button></form>'
    )
    for allow in (False, True):
        site = serve({"/": order, "/order": "<title>thanks</title>ordered"})
        config = BrowserConfig(allowed_hosts=(site.host,), allow_writes=allow)
        async with ChromiumPool(config, Store(), (640, 480)) as pool:
            page = await pool.open(site.url)
            effect = await page.act(click(140, 100))
            now = await page.observe()
            assert [(w.method, w.url, w.stopped) for w in effect.writes] == [("POST", f"{site.url}order", not allow)]
            assert site.count("POST", "/order") == (1 if allow else 0)
            assert now.title == ("thanks" if allow else "checkout")
            assert page.tags == (set() if allow else {"write_stopped"})
            assert allow or any("looks irreversible" in message for message in now.messages)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_pages_through_the_proxy_are_whole(serve: Serve) -> None:
    big = "<title>big</title>" + "word " * 200_000
    site = serve({"/": LINK.format("/big"), "/big": big})
    async with ChromiumPool(BrowserConfig(allowed_hosts=("127.0.0.1",)), Store(), (640, 480)) as pool:
        page = await pool.open(site.url)
        await page.act(click(60, 48))
        assert (await page.observe()).title == "big"
        assert await page.evaluate("document.body.textContent.length") == 1_000_000
        await asyncio.gather(*(page.evaluate(f"fetch('/?{i}').then(r => r.text())") for i in range(8)))
        assert len(site.requests) >= 10
