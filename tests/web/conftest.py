"""Small servers on loopback with pages of the kinds that make browsers trip, and a picture store in memory."""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Pictures(dict[str, bytes]):
    """What a run's image store is to a page: put a picture, get its SHA-256."""

    def put(self, png: bytes) -> str:
        sha = hashlib.sha256(png).hexdigest()
        self[sha] = png
        return sha


class Served:
    """A server of fixed pages; `requests` lists (method, path, cookie)."""

    def __init__(self, pages: Mapping[str, str], host: str) -> None:
        self.pages = dict(pages)
        self.requests: list[tuple[str, str, str]] = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                served.requests.append((self.command, self.path, self.headers.get("Cookie", "")))
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                text = served.pages.get(self.path.partition("?")[0])
                body = (text or "").encode()
                headers = {"Content-Type": "text/html; charset=utf-8"}
                status = 200 if text is not None else 404
                if body.startswith(b"redirect:"):
                    status, headers["Location"], body = 302, body.decode().removeprefix("redirect:"), b""
                if body.startswith(b"attachment:"):
                    headers["Content-Disposition"] = 'attachment; filename="report.csv"'
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET
            do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.host = f"{host}:{self.port}"
        self.url = f"http://{self.host}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def count(self, method: str, path: str) -> int:
        return sum((m, p) == (method, path) for m, p, _ in self.requests)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """`serve({"/": html, ...}, host="127.0.0.1")` starts a server that stops with the test."""
    running: list[Served] = []

    def start(pages: Mapping[str, str], host: str = "127.0.0.1") -> Served:
        running.append(Served(pages, host))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def pictures() -> Pictures:
    return Pictures()
