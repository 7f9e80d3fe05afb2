"""The wire contract over HTTP: bodies, status codes, and the OpenAPI document.

Handlers parse bodies and write responses themselves; the types here only document them, so that
clients can be generated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import Depends, FastAPI, HTTPException, Request, Response, Security
from fastapi.exception_handlers import http_exception_handler
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException

from reward_serve.http.auth import OPEN_PATHS
from reward_serve.off_loop import off_loop
from reward_serve.schema import ResultModel, ScoreRequest, ScoreResult, Status, deeper_than
from reward_serve.version import __version__

NDJSON = "application/x-ndjson"
MAX_BODY_DEPTH = 64
_LONG_BODY = 2**18
_SHORTEN = "shorten the item, whose texts may have max_item_bytes in total"

_CODES = {Status.INVALID: 422, Status.TIMEOUT: 504, Status.OVERLOADED: 503}


def http_status(status: Status) -> int:
    """The HTTP status code of a single result; a judge's failure is still 200."""
    return _CODES.get(status, 200)


def reply(content: Any, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(content), code, headers, media_type="application/json")


def retry_after(seconds: float) -> dict[str, str]:
    """The ``Retry-After`` header for a pause, rounded up and at least 1 s."""
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


async def read_json(request: Request, limit: int, *, one_item: bool = False) -> Any:
    """Parse the body as JSON.

    Args:
        request: the request.
        limit: maximum bytes.
        one_item: whether the body is a single item, not a batch.

    Raises:
        HTTPException: 413, the body has more than ``limit`` bytes; 422, it is not valid JSON.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            remedy = _SHORTEN if one_item else f"split the batch, or if it is one item, {_SHORTEN}"
            raise HTTPException(
                413, f"body: has more than {limit} bytes, the limit server.max_body_bytes; {remedy}"
            )
    return await off_loop(len(body) > _LONG_BODY, _parsed, body)


def _parsed(body: bytearray) -> Any:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # orjson rejects a whole batch for one lone surrogate, which only makes its item invalid.
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            raise HTTPException(422, f"body: is not JSON: {error}") from None
    if deeper_than(content, MAX_BODY_DEPTH):
        raise HTTPException(
            422, f"body: is nested more than {MAX_BODY_DEPTH} levels deep; flatten it"
        )
    return content


class Problem(BaseModel):
    """Every answer with another status than 200.

    A single result or explanation without a score (422, 503, 504) has its own fields too.
    """

    model_config = ConfigDict(extra="allow")

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


class Model(BaseModel):
    """A replica's description of its reward model; further fields depend on the kind."""

    model_config = ConfigDict(extra="allow")

    name: str
    ready: bool = Field(description="Whether a replica can score.")
    kind: str | None = None
    fingerprint: str | None = None
    engine: dict[str, Any] | None = Field(
        None, description="Weights, revision, dtype, device, engine."
    )
    templates: list[str] | None = None
    items: int | None = Field(None, description="Items in progress or waiting.")


class Models(BaseModel):
    """The reward models; with ``openai`` in ``compatible_with``, in OpenAI's format too."""

    model_config = ConfigDict(extra="allow")

    models: list[Model]
    version: str


_PROBLEM = {
    "model": Problem,
    "description": "401 unknown API key; 404 unknown model; 413 body or batch too large; 422 a "
    "field is invalid; 429 the key's limit of items in flight; 500 internal error, of which the "
    "log has the request_id; 503 overloaded, or not ready (Retry-After: seconds); 504 the deadline "
    "timeout_s passed",
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
        has_keys: whether the service has API keys.
    """

    def __init__(self, has_keys: bool) -> None:
        super().__init__(
            title="reward_serve",
            version=__version__,
            generate_unique_id_function=lambda route: route.name,
            exception_handlers={StarletteHTTPException: _with_remedy},
        )
        self.router.route_class = _Route
        self._has_keys = has_keys

    def add(
        self,
        path: str,
        handler: Callable[[Request], Awaitable[Response]],
        answer: Any,
        body: type | None = None,
    ) -> None:
        """Register a route: POST with a body, otherwise GET.

        Args:
            path: its path.
            handler: its handler, whose docstring describes it.
            answer: type of the answer with status 200.
            body: type of the request's body.
        """
        dependencies = [] if body is None else [Depends(_reads(body))]
        if self._has_keys and path not in OPEN_PATHS:
            dependencies.append(Security(_BEARER))
        streams = {"content": {NDJSON: _LINES}} if answer is ScoreResults else {}
        self.add_api_route(
            path,
            handler,
            methods=["POST" if body else "GET"],
            responses={200: {"model": answer, "description": "OK", **streams}, "default": _PROBLEM},
            dependencies=dependencies,
        )
