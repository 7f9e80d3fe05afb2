"""The HTTP deployment: FastAPI on Serve, with routes, limits and status codes.

A reward model's replica validates the requests. The ingress passes them on and only replaces an
alias in ``model`` by the model's name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import orjson
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from ray import serve
from ray.serve.handle import DeploymentHandle

from reward_serve.config.app import ServerConfig
from reward_serve.explanation import Explanation
from reward_serve.http.api import (
    NDJSON,
    DocumentedApi,
    KeyLimit,
    Models,
    ScoreBatch,
    ScoreResults,
    read_json,
    reply,
    retry_after,
)
from reward_serve.http.compat import CompatRoutes, openai_models
from reward_serve.logprobs import LogprobsRequest, LogprobsResult, as_json_values
from reward_serve.off_loop import off_loop
from reward_serve.routing.dispatch import Dispatcher, UnknownModelError, handle_of
from reward_serve.schema import (
    GroupRequest,
    GroupResult,
    ScoreRequest,
    ScoreResult,
    Status,
    size_of_group,
)
from reward_serve.version import __version__


@serve.ingress()
class Ingress:
    """The HTTP deployment of one application.

    Args:
        server: a ``ServerConfig`` as plain data.
        models: name to the reward model's handle, or to its application; the first is the default.
        keys: API key name to digest; without keys, anyone who reaches the port can send requests.
    """

    def __init__(
        self,
        server: dict[str, Any],
        models: dict[str, DeploymentHandle | str],
        keys: dict[str, str],
    ) -> None:
        self._server = ServerConfig.model_validate(server)
        handles = {
            name: handle_of(model, name) if isinstance(model, str) else model
            for name, model in models.items()
        }
        by_row = self._server.by_row
        self._dispatcher = Dispatcher(
            handles, self._server.aliases, by_row.model_dump() if by_row else None
        )
        self._keys = keys
        self._key_limit = KeyLimit(self._server)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called once by Serve to build the ASGI application."""
        api = DocumentedApi(self._keys, self._key_limit)
        api.add("/v1/score", self.score, ScoreResult, ScoreRequest)
        api.add("/v1/score/batch", self.score_batch, ScoreResults, ScoreBatch)
        api.add("/v1/score/group", self.score_group, GroupResult, GroupRequest)
        api.add("/v1/logprobs", self.logprobs, LogprobsResult, LogprobsRequest)
        if self._server.explain:
            api.add("/v1/explain", self.explain, Explanation, ScoreRequest)
        api.add("/v1/models", self.list_models, Models)
        CompatRoutes(self._dispatcher, self._server, self._admit).add_to(api)
        api.add("/health", self.health, dict[str, str])
        api.add("/ready", self.ready, dict[str, str])
        api.add_exception_handler(
            UnknownModelError, lambda _, error: reply({"detail": str(error)}, 404)
        )
        return api

    async def models(self) -> dict[str, Any]:
        """For clients by handle: the reward models, their applications, limit and version."""
        applications = self._dispatcher.applications
        return {
            "models": list(applications),
            "applications": applications,
            "aliases": self._dispatcher.aliases,
            "by_row": self._dispatcher.by_row,
            "max_batch_items": self._server.max_batch_items,
            "version": __version__,
        }

    async def score(self, request: Request) -> Response:
        """Score one response."""
        body = await self._single(request)
        (result,) = await self._dispatcher.score_batch([body], (None, request.state.key))
        return _answered(result, result)

    async def score_batch(self, request: Request) -> Response:
        """Score a batch; with ``Accept: application/x-ndjson``, results are streamed."""
        body = await read_json(request, self._server.max_body_bytes)
        items = body.get("requests") if isinstance(body, dict) else None
        if not isinstance(items, list):
            raise HTTPException(
                422, 'requests: must be a list of score requests; send {"requests": [{...}, ...]}'
            )
        self._admit(request, len(items))
        if NDJSON in request.headers.get("accept", ""):
            return StreamingResponse(self._lines(items, request.state.key), media_type=NDJSON)
        origin = None, request.state.key
        return reply({"results": await self._dispatcher.score_batch(items, origin)})

    async def score_group(self, request: Request) -> Response:
        """Judge the responses to one prompt against each other."""
        body = await self._single(request, size_of_group)
        result = await self._dispatcher.score_group(body, (None, request.state.key))
        return _answered(result, result)

    async def logprobs(self, request: Request) -> Response:
        """The log-probability of each token of a sequence, by a teacher."""
        body = await self._single(request)
        result = await self._dispatcher.logprobs(body, (None, request.state.key))
        content = await off_loop(
            len(result["top_ids"] or ()), as_json_values, result, body.get("encoding_format")
        )
        return _answered(result, content)

    async def explain(self, request: Request) -> Response:
        """Explain the result of a request."""
        body = await self._single(request)
        explanation = await self._dispatcher.explain(body, (None, request.state.key))
        return _answered(explanation["result"], explanation)

    async def list_models(self, _: Request) -> Response:
        """List the reward models: kind, fingerprint, templates, limits and readiness."""
        content = {"models": await self._dispatcher.describe(), "version": __version__}
        if "openai" in self._server.compatible_with:
            content |= openai_models([*self._dispatcher.applications, *self._dispatcher.aliases])
        return reply(content)

    async def health(self, _: Request) -> Response:
        """Report that the HTTP process is up."""
        return reply({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Report whether every reward model, or the one in ``?model=``, can score."""
        asked = request.query_params.get("model")
        only = self._dispatcher.pick(asked) if asked else None
        why = {
            entry["name"]: entry.get("outage")
            for entry in await self._dispatcher.describe()
            if not entry["ready"] and only in (None, entry["name"])
        }
        if not why:
            return reply({"status": "ok"})
        status = "down" if all(why.values()) else "waiting"
        detail = "; ".join(f"{name}: {why[name] or 'no replica answers yet'}" for name in why)
        if self._keys:  # anyone may ask
            detail = f"not ready: {', '.join(why)}; /v1/models says why"
        return reply({"status": status, "detail": detail}, 503)

    async def _single(
        self, request: Request, items: Callable[[object], int] = lambda body: 1
    ) -> dict[str, Any]:
        """The body of a single request for a known model; admits its items."""
        body = await read_json(request, self._server.max_body_bytes)
        if not isinstance(body, dict):
            raise HTTPException(422, f"body: must be an object (found {type(body).__name__})")
        self._dispatcher.pick(body.get("model"))
        self._admit(request, items(body))
        return body

    async def _lines(self, items: list[Any], key: str | None) -> AsyncGenerator[bytes, None]:
        """A line of JSON for each result, as it finishes."""
        async with aclosing(self._dispatcher.score_stream(items, (None, key))) as stream:
            async for results in stream:
                yield b"".join(orjson.dumps({"index": i, **r}) + b"\n" for i, r in results)

    def _admit(self, request: Request, items: int) -> None:
        """Count items for the caller's key until the response is sent or abandoned."""
        limit = self._server.max_batch_items
        if items > limit:
            raise HTTPException(
                413,
                f"{items} items; the limit is server.max_batch_items: {limit}, so split the batch",
            )
        if key := request.state.key:
            held = self._key_limit.held(key, "max_concurrent_items_per_key", items)
            request.state.until_end.enter_context(held)


def _answered(result: dict[str, Any], content: dict[str, Any]) -> Response:
    """The response for a single result or its explanation, with the result's status code."""
    code = Status(result["status"]).http_code
    headers = retry_after([result]) if code == 503 else None
    if code != 200:
        content = {"detail": result["reason"], **content}
    return reply(content, code, headers)
