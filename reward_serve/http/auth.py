"""ASGI middleware for every route: API keys, response headers and internal errors.

It is pure ASGI, so that streamed responses stay streamed.
"""

from __future__ import annotations

import hmac
import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from ray.exceptions import RayError
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    SimpleUser,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reward_serve.keys import digest_of
from reward_serve.version import VERSION_HEADER, __version__

logger = logging.getLogger("ray.serve")

OPEN_PATHS = frozenset(["/health", "/ready"])
"""The paths for probes, which need no key and only report a state."""

_HEADERS = {
    VERSION_HEADER: __version__,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_LONGEST_SHOWN = 64


class BearerKeys(AuthenticationBackend):
    """Identifies the caller by the key in ``Authorization: Bearer``; for AuthenticationMiddleware.

    Args:
        digests: the digests of the service's keys, by name.
    """

    def __init__(self, digests: Mapping[str, str]) -> None:
        self._digests = digests

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        """The key's name as the user; None if the path needs no key.

        The key's digest is compared with every key's in constant time, so that timing reveals
        neither a key's length nor a matching prefix.

        Raises:
            AuthenticationError: the key is missing or unknown.
        """
        if conn.scope["path"].removeprefix(conn.scope.get("root_path", "")) in OPEN_PATHS:
            return None
        scheme, _, key = conn.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise AuthenticationError("Authorization: is missing; send Bearer and an API key")
        asked = digest_of(key.strip())
        names = [name for name, own in self._digests.items() if hmac.compare_digest(asked, own)]
        if not names:
            raise AuthenticationError("Authorization: unknown API key")
        return AuthCredentials(["score"]), SimpleUser(names[0])


def unauthorized(conn: HTTPConnection, error: AuthenticationError) -> JSONResponse:
    """The response to a caller without a valid key."""
    return JSONResponse({"detail": str(error)}, 401, {"WWW-Authenticate": "Bearer"})


class KeyLimit:
    """Limits the items in flight of each key.

    Args:
        items: maximum items per key; None for no limit.
    """

    def __init__(self, items: int | None) -> None:
        self._limit = items
        self._in_flight: Counter[str] = Counter()

    @contextmanager
    def held(self, name: str, items: int) -> Iterator[None]:
        """Count ``items`` for a key during the block.

        Raises:
            HTTPException: the key's limit would be exceeded: 413 by these items alone, else 429.
        """
        in_flight = self._in_flight[name]
        if self._limit is not None and in_flight + items > self._limit:
            too_large = items > self._limit
            detail = (
                f"key {name!r}: {items} items in addition to {in_flight} in flight exceed "
                f"server.max_concurrent_items_per_key: {self._limit}; "
                f"{'split the batch' if too_large else 'retry after a pause'}"
            )
            logger.warning("request rejected: %s", detail)
            if too_large:
                raise HTTPException(413, detail)
            raise HTTPException(429, detail, {"Retry-After": "1"})
        self._in_flight[name] += items
        try:
            yield
        finally:
            self._in_flight[name] -= items


class Exchange:
    """Wraps a request and its response.

    Every response has the service's version and headers against caching and sniffing. An internal
    error is a JSON 500 with only a request id; the log has the details. Contexts entered on
    ``request.state.until_end`` are exited when the response is sent or abandoned.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def receive_from_caller() -> Message:
            try:
                return await receive()
            except RayError as error:  # Serve's proxy cancelled the call
                raise ClientDisconnect from error

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        with ExitStack() as until_end:
            scope.setdefault("state", {})["until_end"] = until_end
            try:
                await self._app(scope, receive_from_caller, send_with_headers)
            except ClientDisconnect:
                return
            except Exception:
                if started:  # too late for a status code; Serve logs the exception
                    raise
                await _internal_error(scope)(scope, receive, send_with_headers)


def _internal_error(scope: Scope) -> JSONResponse:
    """Log the current exception and return the response."""
    request_id = _shown(Headers(scope=scope).get("x-request-id") or str(uuid.uuid4()))
    user = scope.get("user")
    logger.exception(
        "request %s failed: %s %s, key %s",
        request_id,
        scope["method"],
        _shown(scope["path"]),
        user.display_name if user else "none",
    )
    detail = f"internal error; see the service's log for request {request_id}; retry"
    return JSONResponse({"detail": detail, "request_id": request_id}, 500)


def _shown(text: str) -> str:
    """A caller's text, shortened and escaped for logs and terminals."""
    return ascii(text)[1:-1][:_LONGEST_SHOWN]
