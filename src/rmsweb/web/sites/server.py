"""Serves the built-in sites on loopback: one state per episode, all of it on the server.

Owns the HTTP side: addresses (`/s/<token>/...`, the token a hash of the episode's id), POST then redirect, fonts and
style sheets under `/static`. Promises an ephemeral port on 127.0.0.1 and pages that depend on the episode's task and
requests only. Runs uvicorn in a background thread, so that a busy event loop of the caller does not slow pages down.
"""

import asyncio
import hashlib
import socket
import threading
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl

from rmsweb.errors import RunError
from rmsweb.records import Task
from rmsweb.web.sites import compact_theme, regular_theme
from rmsweb.web.sites.catalogue import world_for
from rmsweb.web.sites.pages import SLOW_MS, SLOW_PATH, Page
from rmsweb.web.sites.world import State, World

STATIC = Path(__file__).parents[1] / "static"
Theme = Literal["regular", "compact"]


@dataclass(slots=True)
class _Session:
    world: World
    state: State


def token_of(episode: str) -> str:
    """The part of the address that stands for an episode id; the same for the same id."""
    return hashlib.sha256(episode.encode()).hexdigest()[:12]


class SiteServer:
    """`begin` gives the start address of an episode; `state` what it left behind."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.host = ""
        """`127.0.0.1:port` while it runs."""
        self._sessions: dict[str, _Session] = {}
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def begin(self, episode: str, task: Task) -> str:
        """(Re)starts an episode and returns the path of its first page."""
        world = world_for(task)
        token = token_of(episode)
        self._sessions[token] = _Session(world, world.initial())
        return f"/s/{token}/"

    def state(self, episode: str) -> State:
        """What the episode's visitor has changed so far. Raises RunError for an episode that was never begun."""
        session = self._sessions.get(token_of(episode))
        if session is None:
            raise RunError(f"episode {episode} was never begun on this server")
        return deepcopy(session.state)

    def app(self) -> Any:
        """The ASGI application."""
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles

        async def page(request: Any) -> Any:
            return await self._answer(request)

        async def slow(request: Any) -> Any:
            await asyncio.sleep(SLOW_MS / 1000)
            return Response("", headers={"cache-control": "no-store"})

        return Starlette(
            routes=[
                Route(SLOW_PATH, slow),
                Mount("/static", StaticFiles(directory=STATIC)),
                Route("/s/{token}/{path:path}", page, methods=["GET", "POST"]),
            ]
        )

    async def _answer(self, request: Any) -> Any:
        from starlette.responses import HTMLResponse, RedirectResponse, Response

        fresh = {"cache-control": "no-store"}
        token, path = request.path_params["token"], "/" + request.path_params["path"]
        session = self._sessions.get(token)
        if session is None:
            return Response("no such episode", status_code=404, headers=fresh)
        prefix, query = f"/s/{token}", dict(request.query_params)
        if request.method == "POST":
            form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True))
            result = session.world.submit(path, form, session.state)
            if result is not None:
                session.state, location = result
                return RedirectResponse(prefix + location, status_code=303, headers=fresh)
            query = {}
        view = session.world.view(path, query, session.state)
        return HTMLResponse(self.render(view, session.world, prefix), status_code=view.status, headers=fresh)

    def render(self, page: Page, world: World, prefix: str) -> str:
        """The document of a page in this server's theme."""
        if self.theme == "compact":
            return compact_theme.render(page, world.look, prefix)
        return regular_theme.render(page, world, prefix)

    async def start(self) -> None:
        """Starts to serve; returns when pages can be fetched. Raises RunError when the server does not come up."""
        import uvicorn

        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = uvicorn.Config(
            self.app(), log_level="warning", access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="rmsweb-sites", daemon=True
        )
        self._thread.start()
        for _ in range(1000):
            if self._server.started:
                return
            await asyncio.sleep(0.01)
        raise RunError("the built-in sites' server did not start within 10 s")

    async def stop(self) -> None:
        """Stops serving and forgets all episodes."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            await asyncio.to_thread(self._thread.join, 10)
        self._server, self._thread, self.host = None, None, ""
        self._sessions.clear()
