"""The viewer as a server on loopback. Read-only; answers only requests that name a loopback host."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmsweb.view.index import Index
from rmsweb.view.pages import ASSETS, CSP, Addresses, asset, list_page, story_page

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

HOST = "127.0.0.1"
ADDRESSES = Addresses(home="/", assets="/assets/", story=lambda key: f"/t/{key}", image=lambda sha: f"/image/{sha}.png")
HEADERS = {
    "Content-Security-Policy": f"{CSP}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def application(index: Index) -> "Starlette":
    """The web application over an index; the list is read again on every visit, so running runs can be watched."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route

    def missing(what: str) -> Response:
        return PlainTextResponse(f"no such {what}", 404, HEADERS)

    def listed(request: "Request") -> Response:
        index.refresh()
        return HTMLResponse(list_page(index.title, index.rows(), ADDRESSES), headers=HEADERS)

    def told(request: "Request") -> Response:
        story = index.story(request.path_params["key"])
        if story is None:
            return missing("trajectory")
        keys = [row.key for row in index.rows()]
        place = keys.index(story.row.key)
        before = keys[place - 1] if place else None
        after = keys[place + 1] if place + 1 < len(keys) else None
        return HTMLResponse(story_page(index.title, story, before, after, ADDRESSES), headers=HEADERS)

    def pictured(request: "Request") -> Response:
        data = index.image(request.path_params["sha"])
        if data is None:
            return missing("picture")
        forever = {**HEADERS, "Cache-Control": "private, max-age=31536000, immutable"}
        return Response(data, media_type="image/png", headers=forever)

    def styled(request: "Request") -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return missing("file")
        return Response(asset(name), media_type=ASSETS[name], headers=HEADERS)

    routes = [
        Route("/", listed),
        Route("/t/{key}", told),
        Route("/image/{sha}.png", pictured),
        Route("/assets/{name}", styled),
    ]
    # A page of the open web must not reach this server through a name that resolves to loopback.
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    return Starlette(routes=routes, middleware=[guard])


def serve(index: Index, port: int = 0, announce: Callable[[str], None] = lambda url: None) -> None:
    """Serve until interrupted. `announce` is told the address once the port is bound (0: any free one)."""
    import socket

    import uvicorn

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            from rmsweb.errors import ConfigError

            raise ConfigError(f"port {port} on {HOST} is taken ({error}); choose another with --port") from error
        announce(f"http://{HOST}:{listener.getsockname()[1]}/")
        config = uvicorn.Config(application(index), log_level="warning", lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])
