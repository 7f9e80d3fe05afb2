"""Before Serve's HTTP proxy: what it would stumble over is refused.

Serve decodes some request headers as UTF-8 before any application sees the request, and answers 500
where they are not. It takes middleware from where its environment says, so that a cluster started
with this has none of those:

    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=reward_serve.http.proxy:middleware serve run FILE
"""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_POLICY_VIOLATION = 1008


class ReadableHeaders:
    """Refuses a request with a header that is not UTF-8: 400, and which."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        name = _unreadable(scope)
        if name is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            reply = JSONResponse({"detail": f"{name}: is not UTF-8; send ASCII"}, 400)
            await reply(scope, receive, send)


def middleware() -> list[Middleware]:
    """Called by each of Serve's HTTP proxies as it starts."""
    return [Middleware(ReadableHeaders)]


def _unreadable(scope: Scope) -> str | None:
    for name, value in scope.get("headers", ()):
        try:
            value.decode()
        except UnicodeDecodeError:
            return ascii(name.decode("latin-1"))[1:-1][:64]
    return None
