"""What all routes share: bodies, API keys, limits, status codes, errors and the OpenAPI document.

Handlers parse bodies and write responses themselves; the types here only document them, so that
clients can be generated.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import math
import re
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import Depends, FastAPI, HTTPException, Request, Response, Security
from fastapi.exception_handlers import http_exception_handler
from fastapi.middleware import Middleware
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field
from ray.exceptions import RayError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reward_serve.config.app import ServerConfig
from reward_serve.keys import digest_of
from reward_serve.off_loop import off_loop
from reward_serve.schema import PAUSE_S, ResultModel, ScoreRequest, ScoreResult, seconds_in
from reward_serve.version import VERSION_HEADER, __version__

logger = logging.getLogger("ray.serve")

NDJSON = "application/x-ndjson"
MAX_BODY_DEPTH = 64
_PARSED = 0.25  # what a byte of JSON costs
_BODY_S, _BODY_BYTES_PER_S = 20.0, 2**16
_LOOPBACK = re.compile(r"(https?://)?(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)
_OPEN_PATHS = frozenset(["/health", "/ready"])  # for probes: they only report a state
_HEADERS = {
    VERSION_HEADER: __version__,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def reply(content: Any, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(content), code, headers, media_type="application/json")


def retry_after(failed: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The ``Retry-After`` header for the longest pause that results ask for, at least 1 s."""
    pause_s = max(seconds_in(result["details"], PAUSE_S) for result in failed)
    return {"Retry-After": str(max(1, math.ceil(pause_s)))}


async def read_json(request: Request, limit: int) -> Any:
    """Parse the body as JSON.

    Raises:
        HTTPException: 408, the body arrives too slowly; 413, it has more than ``limit`` bytes; 422,
            it is not valid JSON.
    """
    body, began = bytearray(), asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(_BODY_S) as arriving:
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    detail = f"body: has more than {limit} bytes, the limit server.max_body_bytes; "
                    raise HTTPException(413, detail + "split the batch, or shorten the item")
                if len(body) > _BODY_BYTES_PER_S:
                    arriving.reschedule(began + _BODY_S + len(body) / _BODY_BYTES_PER_S)
    except TimeoutError:
        detail = f"body: incomplete after {len(body)} bytes; send {_BODY_BYTES_PER_S} bytes/s"
        raise HTTPException(408, detail, {"Connection": "close"}) from None
    return await off_loop(_PARSED * len(body), _parsed, body)


def _parsed(body: bytearray) -> Any:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # orjson rejects a whole batch for one lone surrogate, which only makes its item invalid.
        try:
            content = json.loads(body, parse_int=_number)
        except (ValueError, RecursionError):
            raise HTTPException(422, f"body: is not JSON: {error}") from None
    if _deeper_than(content, MAX_BODY_DEPTH):
        raise HTTPException(
            422, f"body: is nested more than {MAX_BODY_DEPTH} levels deep; flatten it"
        )
    return content


def _number(digits: str) -> int | float:
    """An integer as orjson reads it: a float beyond 64 bits."""
    number = float(digits)
    return int(digits) if -(2**63) < number < 2**64 else number


def _deeper_than(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper_than(part, levels - 1) for part in parts)


class KeyLimit:
    """Limits the items and requests in flight of each key.

    Args:
        server: its ``max_concurrent_items_per_key`` and ``max_ongoing_requests`` are the limits.
    """

    def __init__(self, server: ServerConfig) -> None:
        self._server = server
        self._in_flight: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def held(self, name: str, field: str, count: int) -> Iterator[None]:
        """Count in addition to what a key has in flight, towards a limit, during the block.

        Raises:
            HTTPException: the limit would be exceeded: 413 by this count alone, else 429.
        """
        limit, in_flight = getattr(self._server, field), self._in_flight[name, field]
        if limit is not None and in_flight + count > limit:
            detail = (
                f"key {name!r}: {count} in addition to {in_flight} in flight exceed "
                f"server.{field}: {limit}; "
                f"{'split the batch' if count > limit else 'retry after a pause'}"
            )
            logger.warning("request rejected: %s", detail)
            if count > limit:
                raise HTTPException(413, detail)
            raise HTTPException(429, detail, {"Retry-After": "1"})
        self._in_flight[name, field] += count
        try:
            yield
        finally:
            self._in_flight[name, field] -= count


class Exchange:
    """ASGI middleware around every request and response; streamed responses stay streamed.

    A request needs an API key, whose name is then ``request.state.key``, and counts for it before
    its body is read. Without keys, what a web page could send to a loopback address is refused.
    Every response has the service's version and headers against caching and sniffing. An internal
    error is a JSON 500 with only a request id; the log has the details. Contexts entered on
    ``request.state.until_end`` are exited when the response is sent or abandoned.

    Args:
        app: the application.
        keys: the digests of the service's keys, by name; if empty, no key is needed.
        limit: limits each key's requests in flight.
    """

    def __init__(self, app: ASGIApp, keys: Mapping[str, str], limit: KeyLimit) -> None:
        self._app = app
        self._keys = keys
        self._limit = limit

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
            state = scope.setdefault("state", {})
            state.update(until_end=until_end, key=None)
            try:
                path = scope["path"].removeprefix(scope.get("root_path", ""))
                if not self._keys:
                    _refuse_pages(scope)
                elif path not in _OPEN_PATHS:
                    state["key"] = self._key_name(Headers(scope=scope).get("authorization", ""))
                    held = self._limit.held(state["key"], "max_ongoing_requests", 1)
                    until_end.enter_context(held)
                await self._app(scope, receive_from_caller, send_with_headers)
            except HTTPException as refusal:  # of the caller; the application handles its own
                headers = dict(refusal.headers or {"WWW-Authenticate": "Bearer"})
                refused = reply({"detail": refusal.detail}, refusal.status_code, headers)
                await refused(scope, receive, send_with_headers)
            except ClientDisconnect:
                return
            except Exception:
                if started:  # too late for a status code; Serve logs the exception
                    raise
                await _internal_error(scope)(scope, receive, send_with_headers)

    def _key_name(self, authorization: str) -> str:
        """The name of the caller's key.

        The key's digest is compared with every key's in constant time, so that timing reveals
        neither a key's length nor a matching prefix.

        Raises:
            HTTPException: the key is missing or unknown.
        """
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise HTTPException(401, "Authorization: is missing; send Bearer and an API key")
        asked = digest_of(key.strip())
        names = [name for name, digest in self._keys.items() if hmac.compare_digest(asked, digest)]
        if not names:
            raise HTTPException(401, "Authorization: unknown API key")
        return names[0]


def _refuse_pages(scope: Scope) -> None:
    """At a loopback address, refuse what a page of another site could send, if by DNS rebinding."""
    here = str((scope.get("server") or [""])[0]).removeprefix("::ffff:")
    headers = Headers(scope=scope) if here.startswith("127.") or here == "::1" else {}
    for name in ("Host", "Origin"):
        if not _LOOPBACK.fullmatch(given := headers.get(name, "localhost")):
            detail = f"{name}: {_shown(given)} is not a loopback name; send one, or use API keys"
            raise HTTPException(403, detail, {"Connection": "close"})


def _internal_error(scope: Scope) -> Response:
    """Log the current exception and return the response."""
    request_id = _shown(Headers(scope=scope).get("x-request-id") or str(uuid.uuid4()))
    logger.exception(
        "request %s failed: %s %s, key %s",
        request_id,
        scope["method"],
        _shown(scope["path"]),
        scope["state"]["key"],
    )
    detail = f"internal error; see the service's log for request {request_id}; retry"
    return reply({"detail": detail, "request_id": request_id}, 500)


def _shown(text: str) -> str:
    """A caller's text, shortened and escaped for logs and terminals."""
    return ascii(text)[1:-1][:64]


class Problem(BaseModel, extra="allow"):
    """Every answer with another status than 200.

    A single result or explanation without a score (422, 502, 503, 504) has its own fields too.
    """

    detail: str = Field(description="What is wrong, and the remedy.")


class ScoreBatch(BaseModel):
    """Requests that are scored independently."""

    requests: list[ScoreRequest] = Field(
        description="At most server.max_batch_items. An invalid request gets the status invalid; "
        "the rest of the batch is scored."
    )


class ScoreResults(ResultModel):
    """The results of a batch."""

    results: list[ScoreResult] = Field(description="A result for each request, in order.")


class Model(BaseModel, extra="allow"):
    """A replica's description of its reward model; further fields depend on the kind."""

    name: str
    ready: bool = Field(description="Whether a replica can score.")
    kind: str | None = None
    items: int | None = Field(None, description="Items in progress or waiting.")


class Models(BaseModel, extra="allow"):
    """The reward models; with ``openai`` in ``compatible_with``, in OpenAI's format too."""

    models: list[Model]
    version: str


_PROBLEM = {
    "model": Problem,
    "description": "401 unknown key; 404 unknown model; 413 body or batch too large; 422 a field "
    "is invalid; 429 the key's limit; 500 internal error, logged by request_id; 502 the reward "
    "model failed; 503 overloaded, or not ready (Retry-After: seconds); 504 timeout_s passed",
}
_LINES = {
    "schema": {
        "type": "string",
        "description": "For each request, as it finishes, a line of JSON: its ScoreResult, and its "
        "0-based index in the batch as index",
    }
}
_BEARER = HTTPBearer(
    scheme_name="API key", description="One of the deployment's API keys", auto_error=False
)


class _Route(APIRoute):
    """A route whose dependencies only document what its handler reads."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.endpoint


def _reads(body: type) -> Callable[..., None]:
    """A dependency that documents the type of a body."""

    def documented(body: Any) -> None: ...

    documented.__annotations__["body"] = body
    return documented


async def _with_remedy(request: Request, error: StarletteHTTPException) -> Response:
    """Add a remedy to Starlette's own errors, whose detail is only the status's phrase."""
    if error.detail == HTTPStatus.NOT_FOUND.phrase:
        error.detail = "no such route; GET /docs lists the routes"
    elif error.detail == HTTPStatus.METHOD_NOT_ALLOWED.phrase:
        allowed = (error.headers or {}).get("Allow", "another method")
        error.detail = f"method {request.method} is not allowed here; send {allowed}"
    return await http_exception_handler(request, error)


class DocumentedApi(FastAPI):
    """An application that documents its routes.

    Args:
        keys: the digests of the service's API keys, by name.
        limit: limits each key's requests in flight.
    """

    def __init__(self, keys: Mapping[str, str], limit: KeyLimit) -> None:
        super().__init__(
            title="reward_serve",
            version=__version__,
            generate_unique_id_function=lambda route: route.name,
            exception_handlers={StarletteHTTPException: _with_remedy},
            middleware=[Middleware(Exchange, keys=keys, limit=limit)],
        )
        self.router.route_class = _Route
        self._has_keys = bool(keys)

    def add(
        self,
        path: str,
        handler: Callable[[Request], Awaitable[Response]],
        answer: Any,
        body: type | None = None,
    ) -> None:
        """Register a route, which its handler's docstring describes: POST with a body, else GET."""
        dependencies = [] if body is None else [Depends(_reads(body))]
        if self._has_keys and path not in _OPEN_PATHS:
            dependencies.append(Security(_BEARER))
        streams = {"content": {NDJSON: _LINES}} if answer is ScoreResults else {}
        self.add_api_route(
            path,
            handler,
            methods=["POST" if body else "GET"],
            responses={200: {"model": answer, "description": "OK", **streams}, "default": _PROBLEM},
            dependencies=dependencies,
        )
