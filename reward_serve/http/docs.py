"""Registers the routes and documents them in OpenAPI, so that clients can be generated.

A route is described by its function here, which is never called: the ingress's handler of the same
name answers, and parses the body itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from reward_serve.config.app import ServerConfig
from reward_serve.explanation import Explanation
from reward_serve.groups.schema import GroupRequest, GroupResult
from reward_serve.http.bodies import (
    ChatCompletion,
    FailedExplanation,
    FailedGroup,
    FailedScore,
    Fault,
    Health,
    Models,
    OpenAIError,
    OpenRlhfRequest,
    OpenRlhfRewards,
    Problem,
    ScoreBatch,
    ScoreResults,
    SlimeRequest,
    StreamedScore,
    Waiting,
)
from reward_serve.http.contract import NDJSON
from reward_serve.reward_models.chat import ChatRequest
from reward_serve.schema import MAX_TIMEOUT_S, ScoreRequest, ScoreResult
from reward_serve.version import VERSION_HEADER, __version__

Responses = dict[int | str, Any]

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

Handler = Callable[[Request], Awaitable[Response]]


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            handler: Handler = request.app.state.handlers[self.name]
            return await handler(request)

        return handle


def _in_url(
    model: str = Query(None, description="Name of the reward model; default: the first."),
    template: str = Query(
        None, description="Name of the judging template; default: the deployment's."
    ),
    timeout_s: float = Query(None, gt=0, le=MAX_TIMEOUT_S, description="Deadline, in seconds."),
) -> None:
    """The query of a remote reward URL."""


_scores, _explanations, _lists, _probes = (APIRouter(route_class=_Route) for _ in range(4))
_chats = APIRouter(route_class=_Route)
_rewards = {
    name: APIRouter(route_class=_Route, dependencies=[Depends(_in_url)])
    for name in ("openrlhf", "slime")
}


@_scores.post(
    "/v1/score",
    responses={
        200: _reply("A score, or a judge's failure (status)", ScoreResult),
        404: _reply("Unknown model", Problem),
        **_TOO_LARGE,
        422: _reply(_REFUSED, FailedScore | Problem),
        **_FAULT,
        503: _reply("Overloaded: nothing was done", FailedScore, **_RETRY_AFTER),
        504: _reply(_LATE, FailedScore),
    },
)
def score(request: ScoreRequest) -> None:
    """Score one response."""


@_scores.post(
    "/v1/score/batch",
    responses={
        200: {
            **_reply(f"Results in order, or with Accept: {NDJSON} as they finish", ScoreResults),
            "content": {NDJSON: _LINES},
        },
        **_TOO_LARGE,
        422: _reply("The body is not a batch", Problem),
        **_FAULT,
    },
)
def score_batch(batch: ScoreBatch) -> None:
    """Score a batch; with ``Accept: application/x-ndjson``, results are streamed."""


@_scores.post(
    "/v1/score/group",
    responses={
        200: _reply("A result for each response, in order", GroupResult),
        404: _reply("Unknown model", Problem),
        **_TOO_LARGE,
        422: _reply(_REFUSED, FailedGroup | Problem),
        **_FAULT,
        503: _reply("Overloaded: nothing was done", FailedGroup, **_RETRY_AFTER),
        504: _reply(_LATE, FailedGroup),
    },
)
def score_group(request: GroupRequest) -> None:
    """Judge the responses to one prompt against each other."""


@_explanations.post(
    "/v1/explain",
    responses={
        200: _reply("The result and how it came about", Explanation),
        404: _reply("Unknown model, or server.explain is false", Problem),
        **_TOO_LARGE,
        422: _reply(_REFUSED, FailedExplanation | Problem),
        **_FAULT,
        503: _reply("Overloaded: nothing was done", FailedExplanation, **_RETRY_AFTER),
        504: _reply(_LATE, FailedExplanation),
    },
)
def explain(request: ScoreRequest) -> None:
    """Explain the result of a request."""


@_lists.get("/v1/models", responses={200: _reply("The reward models", Models), **_FAULT})
def models() -> None:
    """List the reward models: kind, fingerprint, templates, limits and readiness."""


@_chats.post(
    "/v1/chat/completions",
    responses={
        200: _reply("The completion", ChatCompletion),
        400: _reply("A field is invalid or not supported", OpenAIError),
        404: _reply("Unknown model", OpenAIError),
        **_TOO_LARGE,
        422: _reply("The body is not JSON", Problem),
        500: _reply("The engine or the service failed", OpenAIError | Fault),
        503: _reply("Overloaded: nothing was done", OpenAIError, **_RETRY_AFTER),
        504: _reply("The deadline passed", OpenAIError),
    },
)
def chat_completions(request: ChatRequest) -> None:
    """OpenAI's chat completions, by a judge's model."""


@_rewards["openrlhf"].post(
    "/get_reward",
    responses={200: _reply("The scores, in order", OpenRlhfRewards), **_NO_REWARD},
)
def get_reward(batch: OpenRlhfRequest) -> None:
    """OpenRLHF's ``--remote_rm_url``: scores ``query``, ``prompts`` and ``labels``."""


@_rewards["slime"].post("/remote_rm", responses={200: _reply("The score", float), **_NO_REWARD})
def remote_rm(sample: SlimeRequest) -> None:
    """Slime's ``--rm-url``: scores a sample's ``prompt``, ``response`` and ``label``."""


@_probes.get("/health", responses={200: _reply("The HTTP process is up", Health)})
def health() -> None:
    """Report that the HTTP process is up."""


@_probes.get(
    "/ready",
    responses={
        200: _reply("Every reward model has a replica that can score", Health),
        **_FAULT,
        503: _reply("No replica can score yet", Waiting),
    },
)
def ready() -> None:
    """Report whether every reward model has a replica that can score."""


class DocumentedApi(FastAPI):
    """The application with its routes and their documentation.

    Args:
        handlers: the routes' handlers, by the names of this module's functions.
        server: the optional routes.
        has_keys: whether every route except ``/health`` and ``/ready`` needs an API key.
    """

    def __init__(
        self, handlers: Mapping[str, Handler], server: ServerConfig, has_keys: bool
    ) -> None:
        super().__init__(
            title="reward_serve",
            version=__version__,
            generate_unique_id_function=lambda route: route.name,
        )
        self.state.handlers = handlers
        key: Any = {"dependencies": [Security(_BEARER)], "responses": _KEY} if has_keys else {}
        limited: Any = {**key, "responses": _KEY | _LIMIT} if has_keys else {}
        self.include_router(_scores, **limited)
        self.include_router(_explanations, include_in_schema=server.explain, **limited)
        self.include_router(_lists, **key)
        for name, router in {"openai": _chats, **_rewards}.items():
            if name in server.compatible_with:
                self.include_router(router, **limited)
        self.include_router(_probes)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, with the type of a streamed line, which no response has."""
        document = super().openapi()
        line = StreamedScore.model_json_schema(ref_template=_REFERENCE, mode="serialization")
        del line["$defs"]  # a batch's results have them too
        document["components"]["schemas"][StreamedScore.__name__] = line
        return document
