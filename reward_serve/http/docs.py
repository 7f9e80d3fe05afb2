"""Documents the routes in OpenAPI, so that clients can be generated.

Handlers parse bodies and write responses themselves; the types here are only for the document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Depends, FastAPI, Query, Request, Response, Security
from fastapi.exception_handlers import http_exception_handler
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from reward_serve.explanation import Explanation
from reward_serve.groups.schema import GroupResult
from reward_serve.http.bodies import (
    ChatCompletion,
    FailedExplanation,
    FailedGroup,
    FailedScore,
    Fault,
    Health,
    Models,
    OpenAIError,
    OpenRlhfRewards,
    Problem,
    ScoreResults,
    StreamedScore,
    Waiting,
)
from reward_serve.http.contract import NDJSON
from reward_serve.http.middleware import OPEN_PATHS
from reward_serve.schema import MAX_TIMEOUT_S, ScoreResult
from reward_serve.version import VERSION_HEADER, __version__

Responses = dict[int | str, Any]
Handler = Callable[[Request], Awaitable[Response]]

_REFERENCE = "#/components/schemas/{model}"
_BEARER = HTTPBearer(
    scheme_name="API key", description="One of the deployment's API keys", auto_error=False
)


def _header(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, "required": True, "schema": schema}


_HEADERS = {VERSION_HEADER: _header("The service's version", type="string")}
_RETRY_AFTER = {
    "Retry-After": _header("Seconds to wait before the next attempt", type="integer", minimum=1)
}
_CHALLENGE = {"WWW-Authenticate": _header("Bearer", type="string")}


def _reply(description: str, model: Any, **headers: Any) -> dict[str, Any]:
    """A JSON response, with the headers of every response."""
    return {"description": description, "model": model, "headers": _HEADERS | headers}


_KEY: Responses = {
    401: _reply("Missing or unknown API key: send Authorization: Bearer", Problem, **_CHALLENGE),
}
_LIMIT: Responses = {
    429: _reply("The key's limit of items in flight is reached", Problem, **_RETRY_AFTER),
}
_FAULT: Responses = {500: _reply("Internal error; the service's log has the request_id", Fault)}
_TOO_LARGE: Responses = {413: _reply("Body or batch too large; split it", Problem)}
_REFUSED = "A field is invalid; detail names it and the remedy"
_LATE = "The deadline timeout_s passed"

_LINES = {
    "schema": {
        "type": "string",
        "description": "A line of JSON for each request when it finishes, with its result and its "
        "index in the batch.",
    },
    "x-line-schema": {"$ref": _REFERENCE.format(model=StreamedScore.__name__)},
}

_NO_REWARD: Responses = {
    404: _reply("Unknown model", Problem),
    **_TOO_LARGE,
    422: _reply(_REFUSED, Problem),
    **_FAULT,
    503: _reply("Items without a score, and absent_reward is not set", Problem, **_RETRY_AFTER),
}


def _single(answer: str, body: Any, failed: Any, not_found: str = "Unknown model") -> Responses:
    """The replies to a request that one model answers."""
    return {
        200: _reply(answer, body),
        404: _reply(not_found, Problem),
        **_TOO_LARGE,
        422: _reply(_REFUSED, failed | Problem),
        **_FAULT,
        503: _reply("Overloaded: nothing was done", failed, **_RETRY_AFTER),
        504: _reply(_LATE, failed),
    }


SCORE = _single("A score, or a judge's failure (status)", ScoreResult, FailedScore)

SCORE_BATCH: Responses = {
    200: {
        **_reply(f"Results in order, or with Accept: {NDJSON} as they finish", ScoreResults),
        "content": {NDJSON: _LINES},
    },
    **_TOO_LARGE,
    422: _reply("The body is not a batch", Problem),
    **_FAULT,
}

SCORE_GROUP = _single("A result for each response, in order", GroupResult, FailedGroup)

EXPLAIN = _single(
    "The result and how it came about",
    Explanation,
    FailedExplanation,
    not_found="Unknown model, or server.explain is false",
)

MODELS: Responses = {200: _reply("The reward models", Models), **_FAULT}

CHAT_COMPLETIONS: Responses = {
    200: _reply("The completion", ChatCompletion),
    400: _reply("A field is invalid or not supported", OpenAIError),
    404: _reply("Unknown model", OpenAIError),
    **_TOO_LARGE,
    422: _reply("The body is not JSON", Problem),
    500: _reply("The engine or the service failed", OpenAIError | Fault),
    503: _reply("Overloaded: nothing was done", OpenAIError, **_RETRY_AFTER),
    504: _reply("The deadline passed", OpenAIError),
}

GET_REWARD: Responses = {200: _reply("The scores, in order", OpenRlhfRewards), **_NO_REWARD}

REMOTE_RM: Responses = {200: _reply("The score", float), **_NO_REWARD}

HEALTH: Responses = {200: _reply("The HTTP process is up", Health)}

READY: Responses = {
    200: _reply("Every reward model has a replica that can score", Health),
    **_FAULT,
    503: _reply("No replica can score yet", Waiting),
}


class _Route(APIRoute):
    """A route whose dependencies only document what its handler reads."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.endpoint


def _reads(body: type[BaseModel]) -> Callable[..., None]:
    """A dependency that documents the type of a body."""

    def documented(body: Any) -> None: ...

    documented.__annotations__["body"] = body
    return documented


def reward_url(
    model: str = Query(None, description="Name of the reward model; default: the first."),
    template: str = Query(
        None, description="Name of the judging template; default: the deployment's."
    ),
    timeout_s: float = Query(None, gt=0, le=MAX_TIMEOUT_S, description="Deadline, in seconds."),
) -> None:
    """A dependency that documents the query of a remote reward URL."""


async def _with_remedy(request: Request, error: HTTPException) -> Response:
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
            exception_handlers={HTTPException: _with_remedy},
        )
        self.router.route_class = _Route
        self._has_keys = has_keys

    def add(
        self,
        path: str,
        handler: Handler,
        responses: Responses,
        body: type[BaseModel] | None = None,
        *,
        query: Callable[..., None] | None = None,
        name: str | None = None,
        documented: bool = True,
    ) -> None:
        """Register a route: POST with a body, otherwise GET.

        Args:
            path: its path.
            handler: its handler, whose docstring describes it.
            responses: its responses by status code, without those that concern API keys.
            body: type of the request's body.
            query: a function with the query's parameters.
            name: its id in the document; by default the handler's name.
            documented: whether it is in the document.
        """
        dependencies = [Depends(query)] if query else []
        if body is not None:
            dependencies.append(Depends(_reads(body)))
        if self._has_keys and path not in OPEN_PATHS:
            dependencies.append(Security(_BEARER))
            responses = _KEY | (_LIMIT if body else {}) | responses
        self.add_api_route(
            path,
            handler,
            methods=["POST" if body else "GET"],
            responses=responses,
            dependencies=dependencies,
            name=name,
            include_in_schema=documented,
        )

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, with the type of a streamed line, which no route refers to."""
        document = super().openapi()
        line = StreamedScore.model_json_schema(ref_template=_REFERENCE, mode="serialization")
        del line["$defs"]  # a batch's results have them too
        document["components"]["schemas"][StreamedScore.__name__] = line
        return document
