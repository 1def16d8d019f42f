"""A small HTTP proxy on loopback: the one way out of an episode's browser context.

Owns the check of each connection: by the name asked for, then by every address that the name resolves to, and it
connects to the address it has checked (a name that changes its mind between two look-ups gains nothing). Speaks plain
HTTP and CONNECT; never looks into encrypted traffic, never stores what passes.
"""

import asyncio
import ipaddress
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmsweb.web.network import Place, Rules

HEAD_BYTES = 256 * 1024
CONNECT_S = 10.0
CHUNK = 64 * 1024
HOP_HEADERS = (b"proxy-connection:", b"connection:", b"keep-alive:", b"proxy-authorization:")


class Proxy:
    """`await Proxy.start(rules)`; `refused` maps `host:port` to why."""

    def __init__(self, rules: "Rules") -> None:
        self._rules = rules
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0
        self.refused: dict[str, str] = {}
        self.untold: list[str] = []
        """Places refused since somebody last looked, in order."""

    @classmethod
    async def start(cls, rules: "Rules") -> "Proxy":
        """Listens on a free loopback port."""
        proxy = cls(rules)
        proxy._server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0, limit=HEAD_BYTES)
        proxy.port = proxy._server.sockets[0].getsockname()[1]
        return proxy

    async def close(self) -> None:
        """Stops listening and cuts what is open."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=1.0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the episode is over; nobody waits for this connection
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the other side went away or does not speak HTTP
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from rmsweb.web.network import Place, place_of

        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        method, target, _ = line.decode("latin-1").split(" ", 2)
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            place: Place | None = Place(host.strip("[]").rstrip(".").lower(), int(port))
        else:
            place = place_of(target)
        if place is None:
            return
        reason, addresses = await self._check(place)
        if reason:
            self.refused[str(place)] = reason
            self.untold.append(str(place))
            await _answer(writer, "403 Forbidden", f"This address is refused: {reason}.")
            return
        upstream = await _connect(addresses, place.port)
        if upstream is None:
            await _answer(writer, "502 Bad Gateway", f"{place.host} cannot be reached.")
            return
        up_reader, up_writer = upstream
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                up_writer.write(_origin_head(line, rest, target))
            await _join(reader, writer, up_reader, up_writer)
        finally:
            up_writer.close()

    async def _check(self, place: "Place") -> tuple[str, list[str]]:
        """Why the place is refused, else the addresses to connect to; an unknown name has none."""
        if reason := self._rules.place_reason(place):
            return reason, []
        loop = asyncio.get_running_loop()
        try:
            found = await asyncio.wait_for(loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM), CONNECT_S)
        except (OSError, TimeoutError, UnicodeError):
            return "", []
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for address in addresses:
            if reason := self._rules.address_reason(place, ipaddress.ip_address(address.partition("%")[0])):
                return reason, []
        return "", addresses


def _origin_head(line: bytes, rest: bytes, target: str) -> bytes:
    """The request head for the server itself, one request for each connection."""
    method, _, version = line.split(b" ", 2)
    path = target.split("://", 1)[1].partition("/")[2]
    kept = [header for header in rest.split(b"\r\n") if header and not header.lower().startswith(HOP_HEADERS)]
    first = b" ".join((method, b"/" + path.encode("latin-1"), version))
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


async def _connect(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    for address in addresses:
        with suppress(OSError, TimeoutError):
            return await asyncio.wait_for(asyncio.open_connection(address, port), CONNECT_S)
    return None


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    page = f"<!doctype html><title>{status}</title><p>{text}</p>".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + page)
    await writer.drain()


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    up_reader: asyncio.StreamReader,
    up_writer: asyncio.StreamWriter,
) -> None:
    """Passes bytes both ways until the server has said all."""

    async def forward() -> None:
        with suppress(OSError):
            await _pump(reader, up_writer)

    upwards = asyncio.create_task(forward())
    try:
        await _pump(up_reader, writer)
    finally:
        upwards.cancel()
        with suppress(asyncio.CancelledError):
            await upwards


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        target.write(data)
        await target.drain()
