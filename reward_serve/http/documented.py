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
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from reward_serve.http.contract import NDJSON
from reward_serve.http.middleware import OPEN_PATHS
from reward_serve.schema import MAX_TIMEOUT_S, ResultModel, ScoreRequest, ScoreResult
from reward_serve.version import __version__

Handler = Callable[[Request], Awaitable[Response]]

_REFERENCE = "#/components/schemas/{model}"
_BEARER = HTTPBearer(
    scheme_name="API key", description="One of the deployment's API keys", auto_error=False
)


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


class StreamedScore(ScoreResult):
    """One line of a streamed batch."""

    index: int = Field(ge=0, description="The request's 0-based index in the batch.")


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


Label = str | float | list[str | float] | None
"""A reference, several, or none."""


class OpenRlhfRequest(BaseModel):
    """A batch in OpenRLHF's format."""

    query: list[str] = Field(description="The prompts with their responses.")
    prompts: list[str]
    labels: list[Label] | None = None


class SlimeRequest(BaseModel):
    """A sample in slime's format."""

    response: str
    prompt: Any = Field(None, description="The question, or a conversation as messages.")
    label: Label = None


_PROBLEM = {
    "model": Problem,
    "description": "401 unknown API key; 404 unknown model; 413 body or batch too large; 422 a "
    "field is invalid; 429 the key's limit of items in flight; 500 internal error, of which the "
    "log has the request_id; 503 overloaded, or not ready (Retry-After: seconds); 504 the deadline "
    "timeout_s passed",
}
_LINES = {
    "schema": {"type": "string", "description": "A line of JSON for each request when it finishes"},
    "x-line-schema": {"$ref": _REFERENCE.format(model=StreamedScore.__name__)},
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
        answer: Any,
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
            answer: type of the answer with status 200.
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
        streams = {"content": {NDJSON: _LINES}} if answer is ScoreResults else {}
        self.add_api_route(
            path,
            handler,
            methods=["POST" if body else "GET"],
            responses={200: {"model": answer, "description": "OK", **streams}, "default": _PROBLEM},
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
