"""HTTP: FastAPI on Serve. Routes, limits and status codes; no scoring logic.

Requests pass to a reward model's replica as they came: what they say is checked there, once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from typing import Any

import orjson
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from ray import serve
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from reward_serve.affinity import Share
from reward_serve.auth import KeyLimit, KeyLimitError
from reward_serve.calls import GroupedHandle, call_errors, cancelled_by_caller
from reward_serve.config import ServerConfig
from reward_serve.http_contract import NDJSON, http_status, read_json
from reward_serve.routes import build_api
from reward_serve.schema import Status, echoes, failure, longest_timeout_s, retry_after_s
from reward_serve.version import __version__

logger = logging.getLogger("ray.serve")

_GRACE_S = 2.0  # the replica keeps the deadline; this is for calls that never reach one
_READY_TIMEOUT_S = 2.0
_CALL_ERRORS = call_errors()
_NO_ANSWER: tuple[type[BaseException], ...] = (asyncio.CancelledError, *_CALL_ERRORS)


def _fault(error: BaseException) -> tuple[Status, str]:
    if isinstance(error, TimeoutError):
        return Status.TIMEOUT, "no replica answered in time"
    if isinstance(error, BackPressureError):
        return Status.OVERLOADED, "every replica is at its limit of calls; retry after a pause"
    return Status.ERROR, f"the replica was lost ({type(error).__name__}); retry"


def _failure(model: str, item: Any, status: Status, reason: str) -> dict[str, Any]:
    return failure(status, reason, model=model, **echoes(item)).model_dump(mode="json")


def _reply(content: Any, code: int, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), code, headers, media_type="application/json")


async def _answer(model: str, items: list[Any], call: Any) -> list[dict[str, Any]]:
    """A replica's answer; where none comes, a typed failure for each item."""
    try:
        async with asyncio.timeout(longest_timeout_s(items) + _GRACE_S):
            answer: list[dict[str, Any]] = await call
    except _NO_ANSWER as error:
        call.cancel()
        if isinstance(error, asyncio.CancelledError) and cancelled_by_caller():
            raise
        status, reason = _fault(error)
        logger.warning("reward model %s: %d items unanswered: %r", model, len(items), error)
        return [_failure(model, item, status, reason) for item in items]
    return answer


async def _stream_share(
    lines: asyncio.Queue[bytes | None], model: str, items: dict[int, Any], stream: Any
) -> None:
    """Lines of the results as they finish, each with its ``index``: the item's key."""
    places = list(items)
    missing = dict(items)
    call = stream.remote(list(items.values()))
    try:
        async with asyncio.timeout(longest_timeout_s(list(items.values())) + _GRACE_S):
            async for chunk in call:
                for result in chunk:
                    result["index"] = places[result["index"]]
                    missing.pop(result["index"])
                await lines.put(b"".join(orjson.dumps(r) + b"\n" for r in chunk))
    except Exception as error:  # whatever it was, every item gets its line
        status, reason = _fault(error)
        logger.warning("reward model %s: a stream broke: %r", model, error)
        for index, item in missing.items():
            line = {"index": index, **_failure(model, item, status, reason)}
            await lines.put(orjson.dumps(line) + b"\n")
    finally:
        if missing:
            call.cancel()


@serve.ingress()
class Ingress:
    """The HTTP deployment of one application.

    Args:
        server: a ``ServerConfig`` as plain data.
        models: handles of the reward models; the first is the default.
        keys: the digests of the API keys, by name; with none, whoever reaches the port may ask.
    """

    def __init__(
        self, server: dict[str, Any], models: dict[str, DeploymentHandle], keys: dict[str, str]
    ) -> None:
        self._server = ServerConfig.model_validate(server)
        self._models = {name: GroupedHandle(handle) for name, handle in models.items()}
        self._default = next(iter(models))
        self._keys = keys
        self._key_limit = KeyLimit(self._server.max_concurrent_items_per_key)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Serve, once, for the application behind the HTTP port."""
        return build_api(self, self._keys)

    async def models(self) -> dict[str, Any]:
        """For clients by handle: the names of the reward models, and the version."""
        return {"models": list(self._models), "version": __version__}

    async def score(self, request: Request) -> Response:
        """What reward does this response earn?"""
        body = await read_json(request, self._server.max_body_bytes)
        if not isinstance(body, dict):
            raise HTTPException(422, f"body: must be an object (found {type(body).__name__})")
        model = self._model_of(body)
        self._hold(request, 1)
        (result,) = await self._answers(model, [body])
        status = Status(result["status"])
        code = http_status(status)
        pause_s = max(1, math.ceil(retry_after_s(result["details"])))
        headers = {"Retry-After": str(pause_s)} if code == 503 else None
        if code != 200:
            result = {"detail": result["reason"], **result}
        return _reply(result, code, headers)

    async def score_batch(self, request: Request) -> Response:
        """A result for each request; with ``Accept: application/x-ndjson``, as they finish."""
        body = await read_json(request, self._server.max_body_bytes)
        items = body.get("requests") if isinstance(body, dict) else None
        if not isinstance(items, list):
            raise HTTPException(422, "requests: must be a list of score requests")
        limit = self._server.max_batch_items
        if len(items) > limit:
            raise HTTPException(
                413, f"requests: {len(items)} items; a batch takes {limit}, so split it"
            )
        self._hold(request, len(items))
        parts = self._parts(items)
        if NDJSON in request.headers.get("accept", ""):
            return StreamingResponse(self._stream(items, parts), media_type=NDJSON)
        results: list[Any] = [None] * len(items)

        async def fill(model: str, part: list[int]) -> None:
            answers = await self._answers(model, [items[i] for i in part])
            for i, result in zip(part, answers, strict=True):
                results[i] = result

        await asyncio.gather(*(fill(model, part) for model, part in parts.items()))
        return _reply({"results": results}, 200)

    async def list_models(self) -> Response:
        """The reward models: kind, fingerprint, templates and limits, and whether each answers."""
        entries = await asyncio.gather(*map(self._describe, self._models))
        return _reply({"models": entries, "version": __version__}, 200)

    async def health(self) -> Response:
        """The HTTP process is up."""
        return _reply({"status": "ok"}, 200)

    async def ready(self) -> Response:
        """Every reward model has a replica that can score."""
        entries = await asyncio.gather(*map(self._describe, self._models))
        waiting = [entry["name"] for entry in entries if not entry["ready"]]
        if waiting:
            detail = f"no replica answers yet for: {', '.join(waiting)}"
            return _reply({"status": "waiting", "detail": detail}, 503)
        return _reply({"status": "ok"}, 200)

    def _hold(self, request: Request, items: int) -> None:
        """Count items for the caller's key until the reply is sent, or given up."""
        caller = request.scope.get("user")
        if caller is None:
            return
        try:
            request.state.until_end.enter_context(self._key_limit.held(caller.username, items))
        except KeyLimitError as error:
            logger.warning("refused: %s", error)
            if error.never:
                raise HTTPException(413, str(error)) from None
            raise HTTPException(429, str(error), {"Retry-After": "1"}) from None

    async def _answers(self, model: str, items: list[Any]) -> list[Any]:
        """The model's answer to each item; where none comes, a typed failure."""
        handle = self._models[model]
        results: list[Any] = [None] * len(items)

        async def one(share: Share) -> None:
            mine = [items[i] for i in share.indices]
            call = handle.to(share).score_batch.remote(mine)
            for i, result in zip(share.indices, await _answer(model, mine, call), strict=True):
                results[i] = result
            handle.done(share)

        with handle.shares(items) as shares:
            await asyncio.gather(*map(one, shares))
        return results

    async def _stream(self, items: list[Any], parts: dict[str, list[int]]) -> AsyncIterator[bytes]:
        lines: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=16)
        tasks = [
            asyncio.create_task(self._stream_part(lines, model, items, part))
            for model, part in parts.items()
        ]
        try:
            left = len(tasks)
            while left:
                chunk = await lines.get()
                if chunk is None:
                    left -= 1
                else:
                    yield chunk
        finally:
            for task in tasks:
                task.cancel()

    async def _stream_part(
        self, lines: asyncio.Queue[bytes | None], model: str, items: list[Any], part: list[int]
    ) -> None:
        handle = self._models[model]

        async def one(share: Share) -> None:
            places = [part[i] for i in share.indices]
            call = handle.to(share, stream=True).score_stream
            await _stream_share(lines, model, {i: items[i] for i in places}, call)
            handle.done(share)

        with handle.shares([items[i] for i in part]) as shares:
            await asyncio.gather(*map(one, shares))
        # Not when cancelled: nobody reads any more, and the queue may be full.
        await lines.put(None)

    async def _describe(self, name: str) -> dict[str, Any]:
        call = self._models[name].anywhere().describe.remote()
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                return {**await call, "ready": True}
        except _CALL_ERRORS:
            call.cancel()
            return {"name": name, "ready": False}

    def _model_of(self, item: dict[str, Any]) -> str:
        name = item.get("model")
        if name is None:
            return self._default
        if not isinstance(name, str) or name not in self._models:
            raise HTTPException(
                404, f"model: there is no {ascii(name)[:80]}; choose of {', '.join(self._models)}"
            )
        return name

    def _parts(self, items: list[Any]) -> dict[str, list[int]]:
        """Model to the indices of its items; an unknown model's go to the default's refusal."""
        parts: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            name = item.get("model") if isinstance(item, dict) else None
            model = name if isinstance(name, str) and name in self._models else self._default
            parts.setdefault(model, []).append(i)
        return parts
