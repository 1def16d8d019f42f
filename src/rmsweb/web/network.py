"""The network rules below the model: which hosts a page may reach, and which writes are held back.

Owns `Rules` (pure: what an address or a write looks like) and `Gate` (one episode's enforcement). Every byte that does
not go to an own server passes the gate's proxy (proxy.py), which checks each connection by name and by the resolved
address: before and after redirects, for frames, scripts and sockets alike. Promises that what was refused or stopped is
said in the episode's messages. Never asks the model and never opens an exception by itself.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote_plus, urlsplit

from playwright.async_api import BrowserContext, Error, ProxySettings, Request, Route

from rmsweb.config import BrowserConfig
from rmsweb.web.proxy import Proxy
from rmsweb.web.watch import SAFE_METHODS, Watch

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
ACT_WORDS = frozenset(
    {
        *("order", "orders", "checkout", "purchase", "buy", "bid", "pay", "payment", "payments", "donate", "transfer"),
        *("book", "booking", "bookings", "reserve", "reservation", "reservations", "apply", "subscribe", "unsubscribe"),
        *(
            "send",
            "message",
            "messages",
            "publish",
            "comment",
            "comments",
            "reply",
            "review",
            "reviews",
            "vote",
            "tweet",
        ),
        *("delete", "remove", "destroy", "cancel", "confirm", "register", "signup", "unfollow", "deactivate"),
    }
)
"""Words of an address or of the control that was pressed which say that a write cannot be taken back."""
BODY_WORDS = frozenset({"purchase", "checkout", "payment", "donate", "delete", "unsubscribe", "cardnumber", "iban"})
"""Fewer for the body: field names such as `order=asc` stand in harmless forms."""
BODY_CHARACTERS = 20_000


class Place(NamedTuple):
    """Where an address leads."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def place_of(url: str) -> Place | None:
    """Host and port of an http(s) or ws(s) address; None for other schemes and for what is no address."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    if port is None or not parts.hostname:
        return None
    return Place(parts.hostname.rstrip("."), port)


def literal_address(host: str) -> Address | None:
    """The address that a host is written as, in any notation a browser takes (`127.1`, `0x7f000001`)."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    if not re.fullmatch(r"(0[xX])?[0-9a-fA-F]+(\.(0[xX])?[0-9a-fA-F]+){0,3}", host) or not re.match(r"[0-9]", host):
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def private_reason(address: Address) -> str:
    """Why an address is not public; empty when it is."""
    if isinstance(address, ipaddress.IPv6Address) and (inner := address.ipv4_mapped or address.sixtofour) is not None:
        return private_reason(inner)
    if address.is_loopback:
        return "a loopback address"
    if address.is_link_local:
        return "a link-local address (cloud metadata lives there)"
    if address.is_global and not address.is_multicast:
        return ""
    return "a private address"


class Rules:
    """What one episode may reach. Pure."""

    def __init__(self, allowed_hosts: Sequence[str], own_hosts: Sequence[str], *, allow_writes: bool) -> None:
        self._own = frozenset(host.lower() for host in own_hosts)
        self._allowed = tuple(host.lower().lstrip(".") for host in allowed_hosts)
        self.allow_writes = allow_writes

    @property
    def own(self) -> frozenset[str]:
        """`host:port` of our own servers."""
        return self._own

    def is_own(self, place: Place) -> bool:
        return str(place) in self._own or (":" in place.host and f"[{place.host}]:{place.port}" in self._own)

    def is_named(self, place: Place) -> bool:
        """In the allow-list: a host, one of its subdomains, or a host with a port."""
        host = place.host
        return any(
            name in (host, str(place)) or (host.endswith(f".{name}") and literal_address(host) is None)
            for name in self._allowed
        )

    def place_reason(self, place: Place) -> str:
        """Why a host is refused by its name; empty when it is not."""
        if self.is_own(place) or self.is_named(place):
            return ""
        address = literal_address(place.host)
        if address is not None and (reason := private_reason(address)):
            return reason
        if place.host == "localhost" or place.host.endswith((".localhost", ".local", ".internal")):
            return "a name of this machine or network"
        return f"{place.host} is not among browser.allowed_hosts" if self._allowed else ""

    def address_reason(self, place: Place, address: Address) -> str:
        """Why a host is refused by what its name resolves to; a name in the allow-list may lead anywhere."""
        reason = "" if self.is_own(place) or self.is_named(place) else private_reason(address)
        return f"{place.host} leads to {reason}" if reason else ""

    def url_reason(self, url: str) -> str:
        """Why an address is refused; empty when it is not. Resolves nothing."""
        place = place_of(url)
        if place is None:
            return "" if url in ("", "about:blank") else "only http and https are opened"
        return self.place_reason(place)

    def stops(self, method: str, url: str, body: str, pressed: str) -> bool:
        """Whether a request to a host that is not ours looks like an act that cannot be taken back."""
        place = place_of(url)
        if self.allow_writes or method.upper() in SAFE_METHODS or place is None or self.is_own(place):
            return False
        if method.upper() == "DELETE":
            return True
        parts = urlsplit(url)
        said = words(f"{parts.path} {parts.query} {pressed}")
        return bool(said & ACT_WORDS) or bool(words(body[:BODY_CHARACTERS]) & BODY_WORDS)


def words(text: str) -> set[str]:
    """Lower-case words; `placeOrder`, `place_order` and `place%20order` give the same two."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", unquote_plus(text))
    return set(re.findall(r"[a-z]+", spaced.lower()))


class Gate:
    """Holds one episode's context to the rules. `async` life: `open`, `attach`, `close`."""

    def __init__(self, rules: Rules, proxy: Proxy) -> None:
        self._rules, self._proxy = rules, proxy
        self.tags: set[str] = set()
        """refused_address, write_stopped."""
        self._navigations: dict[str, str] = {}
        """`host:port` -> address, of documents asked for in a main frame."""
        self._told: set[str] = set()

    @classmethod
    async def open(cls, config: BrowserConfig, own_hosts: Sequence[str]) -> "Gate":
        """Starts the episode's proxy on a loopback port."""
        rules = Rules(config.allowed_hosts, own_hosts, allow_writes=config.allow_writes)
        return cls(rules, await Proxy.start(rules))

    def settings(self) -> ProxySettings:
        """For `new_context`: everything goes through the proxy, loopback too, except to our own servers."""
        return {
            "server": f"http://127.0.0.1:{self._proxy.port}",
            "bypass": ",".join(["<-loopback>", *sorted(self._rules.own)]),
        }

    async def attach(self, context: BrowserContext, watch: Watch) -> None:
        """Sees the context's requests; holds irreversible writes back unless they are allowed."""
        context.on("request", self._on_request)
        if self._rules.allow_writes:
            return

        async def decide(route: Route) -> None:
            request = route.request
            method = request.method
            try:
                if method not in SAFE_METHODS and self._rules.stops(
                    method, request.url, _body(request), watch.last_hit
                ):
                    self.tags.add("write_stopped")
                    watch.stopped_write(method, request.url)
                    await route.abort("aborted")
                else:
                    await route.continue_()
            except Error:  # the page went away in between
                pass

        own = "|".join(re.escape(host) for host in sorted(self._rules.own)) or "-"
        await context.route(re.compile(rf"^(?!https?://({own})(/|$))"), decide)

    def reason(self, url: str) -> str:
        """Why the model may not open an address, as a message; empty when it may. Tags the episode."""
        reason = self._rules.url_reason(url)
        if not reason:
            return ""
        self.tags.add("refused_address")
        return f"refused address {url[:200]}: {reason}"

    def refuses(self, url: str) -> bool:
        """Whether the document at this address is the proxy's refusal and not a page."""
        place = place_of(url)
        return place is not None and str(place) in self._proxy.refused

    def take_refused(self) -> list[str]:
        """Messages on what was refused since the last call.

        Documents of a main frame are told each time, parts of a page once and only when they lead inside this
        network: pages ask for trackers all the time.
        """
        messages = []
        for place in dict.fromkeys(self._proxy.untold):
            reason = self._proxy.refused[place]
            document = self._navigations.pop(place, None)
            if document is None and (place in self._told or "not among" in reason):
                continue
            self._told.add(place)
            self.tags.add("refused_address")
            messages.append(f"refused address {(document or place)[:200]}: {reason}")
        self._proxy.untold.clear()
        return messages

    async def close(self) -> None:
        """Ends the proxy and the connections through it."""
        await self._proxy.close()

    def _on_request(self, request: Request) -> None:
        if not request.is_navigation_request():
            return
        place = place_of(request.url)
        try:
            main = request.frame.parent_frame is None
        except Error:  # a new tab's first request comes before its frame
            main = True
        if main and place is not None and not self._rules.is_own(place):
            self._navigations[str(place)] = request.url


def _body(request: Request) -> str:
    try:
        return request.post_data or ""
    except (Error, UnicodeDecodeError):  # binary
        return ""
