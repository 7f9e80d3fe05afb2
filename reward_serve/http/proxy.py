"""Middleware of Serve's HTTP proxy that rejects headers that are not UTF-8.

The proxy decodes some request headers as UTF-8 before it passes a request to an application, and
answers 500 if that fails. A cluster started with this variable answers 400 instead:

    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=reward_serve.http.proxy:middleware serve run FILE
"""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_POLICY_VIOLATION = 1008


class ReadableHeaders:
    """Rejects a request with a header that is not UTF-8, with a 400 that names the header."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
        name = _unreadable(scope)
        if name is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            reply = JSONResponse({"detail": f"{name}: is not UTF-8; send ASCII"}, 400)
            await reply(scope, receive, send)


def middleware() -> list[Middleware]:
    """Called by each of Serve's HTTP proxies at start-up."""
    return [Middleware(ReadableHeaders)]


def _unreadable(scope: Scope) -> str | None:
    for name, value in scope.get("headers", ()):
        try:
            value.decode()
        except UnicodeDecodeError:
            return ascii(name.decode("latin-1"))[1:-1][:64]
    return None
