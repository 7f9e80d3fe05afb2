"""ASGI middleware around every route: what each reply carries, and who may ask.

Pure ASGI, so that a streamed reply stays one.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import ExitStack

from ray.exceptions import RayError
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    SimpleUser,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reward_serve.http.auth import ApiKeys
from reward_serve.version import VERSION_HEADER, __version__

logger = logging.getLogger("ray.serve")

OPEN_PATHS = frozenset(["/health", "/ready"])
"""What probes ask: they carry no key, and learn no more than up or not."""

_HEADERS = {
    VERSION_HEADER: __version__,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_LONGEST_SHOWN = 64


class Exchange:
    """Around one request and its reply.

    Every reply carries the service's version, and is neither cached nor sniffed. A fault of ours
    is a JSON 500 that tells the caller no more than a request id; the log has the rest. What is
    entered on ``request.state.until_end`` is left when the reply is sent, or given up.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; see to its reply."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def receive_from_caller() -> Message:
            try:
                return await receive()
            except RayError as error:  # Serve's proxy took the call back
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
                if started:  # too late for a status: the reply breaks off, and Serve logs why
                    raise
                await _internal_error(scope)(scope, receive, send_with_headers)


def _internal_error(scope: Scope) -> JSONResponse:
    """Logs the exception at hand, and says so to the caller."""
    request_id = _shown(Headers(scope=scope).get("x-request-id") or str(uuid.uuid4()))
    user = scope.get("user")
    logger.exception(
        "request %s failed: %s %s, key %s",
        request_id,
        scope["method"],
        _shown(scope["path"]),
        user.display_name if user else "none",
    )
    detail = f"the service failed; its log says why, under request {request_id}; retry"
    return JSONResponse({"detail": detail, "request_id": request_id}, 500)


def _shown(text: str) -> str:
    """What a caller wrote, as a log and a terminal may show it."""
    return ascii(text)[1:-1][:_LONGEST_SHOWN]


class BearerKeys(AuthenticationBackend):
    """Names the caller by the key in ``Authorization: Bearer``; for AuthenticationMiddleware.

    Args:
        keys: whose holders may ask.
    """

    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        """The key's name as the user; None where no key is needed.

        Raises:
            AuthenticationError: no key, or none of ours.
        """
        if conn.scope["path"].removeprefix(conn.scope.get("root_path", "")) in OPEN_PATHS:
            return None
        scheme, _, key = conn.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise AuthenticationError("Authorization: is missing; send Bearer and an API key")
        name = self._keys.name_of(key.strip())
        if name is None:
            raise AuthenticationError("Authorization: the API key is none of this service's")
        return AuthCredentials(["score"]), SimpleUser(name)


def unauthorized(conn: HTTPConnection, error: AuthenticationError) -> JSONResponse:
    """The reply to a caller without a key of ours."""
    return JSONResponse({"detail": str(error)}, 401, {"WWW-Authenticate": "Bearer"})
