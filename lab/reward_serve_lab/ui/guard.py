"""Access control of the workbench: only a browser on this machine that has the token.

Pages of other sites can send requests to a loopback port and, with DNS rebinding, read the replies.
A request therefore needs a loopback Host, the page's own Origin (if the browser sends one;
websockets always) and the token: once in the printed URL, afterwards as a same-site cookie.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 16 * 2**20
"""Maximum request body; the largest are uploads."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_POLICY_VIOLATION = 1008
_NOT_THE_TOKEN = (
    "403: the token is missing or wrong. Open the full address that `reward-serve ui` printed, "
    "including ?token=.\n"
)
_HEADERS = {
    # NiceGUI needs inline scripts and eval. Requests to other hosts are blocked.
    "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline' "
    "'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """ASGI middleware around the whole workbench, including its websocket.

    Args:
        app: the workbench.
        token: the token that the first URL must contain.
        port: the workbench's port; part of the cookie's name, because ports share cookies.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._cookie = f"reward_serve_ui_{port}"
        # A random key, so that a stored cookie is valid only for this run of the workbench.
        key = secrets.token_bytes(32)
        self._session = hmac.new(key, self._token, hashlib.sha256).hexdigest().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await refusal(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The response to a refused request or to a token; None if the request may pass."""
        host = headers.get("host", "")
        if not _is_loopback(host):
            return _text(421, "421: the Host is not a loopback address; open 127.0.0.1.\n")
        origin = headers.get("origin")
        if origin is None and scope["type"] == "websocket":
            return _text(403, "403: a websocket needs an Origin.\n")
        if origin is not None and origin != f"http://{host}":
            return _text(403, "403: the request comes from another site.\n")
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
            if "token" in given:
                return self._enter(scope["path"], given)
        if not self._has_session(headers):
            return _text(403, _NOT_THE_TOKEN)
        if int(headers.get("content-length", "0")) > MAX_BODY_BYTES:
            return _text(413, f"413: larger than {MAX_BODY_BYTES // 2**20} MiB.\n")
        return None

    def _enter(self, path: str, given: Mapping[str, str]) -> Response:
        """Exchange the token for the cookie and remove it from the address."""
        if not hmac.compare_digest(given["token"].encode(), self._token):
            return _text(403, _NOT_THE_TOKEN)
        rest = urlencode({name: value for name, value in given.items() if name != "token"})
        reply = RedirectResponse("/" + path.lstrip("/") + (f"?{rest}" if rest else ""), 303)
        reply.set_cookie(self._cookie, self._session.decode(), httponly=True, samesite="strict")
        return reply

    def _has_session(self, headers: Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        cookie = cookies.get(self._cookie)
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._session)


def _is_loopback(host: str) -> bool:
    name, _, port = host.rpartition(":")
    if not port.isdigit():  # no port, as behind a tunnel to port 80
        name = host
    return name.lower() in _LOOPBACK


def _text(status: int, message: str) -> Response:
    return PlainTextResponse(message, status)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
