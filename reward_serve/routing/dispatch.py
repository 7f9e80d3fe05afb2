"""Puts items to reward models by name, through their handles: typed failures where none answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from reward_serve.routing.calls import GroupedHandle, call_errors, cancelled_by_caller
from reward_serve.routing.placement import Share
from reward_serve.schema import Status, echoes, failure, longest_timeout_s

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


class UnknownModelError(LookupError):
    """No reward model of that name; says which there are."""


class Dispatcher:
    """Asks reward models.

    Args:
        models: their handles, by name; the first is the default.
        aliases: other names by which callers know them.
    """

    def __init__(
        self, models: Mapping[str, DeploymentHandle], aliases: Mapping[str, str] | None = None
    ) -> None:
        self._models = {name: GroupedHandle(handle) for name, handle in models.items()}
        self._default = next(iter(models))
        self._aliases = aliases or {}

    @property
    def applications(self) -> dict[str, str]:
        """Each reward model's name and its application's, the default first."""
        return {name: handle.application for name, handle in self._models.items()}

    def pick(self, name: object) -> str:
        """The model that is meant; the default where none is named.

        Raises:
            UnknownModelError: there is none such.
        """
        if name is None:
            return self._default
        name = self._aliases.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in self._models:
            raise UnknownModelError(
                f"model: there is no {ascii(name)[:80]}; choose of {', '.join(self._models)}"
            )
        return name

    async def answers(self, model: str, items: list[Any]) -> list[Any]:
        """The model's answer to each item; where none comes, a typed failure."""
        handle = self._models[model]
        items = [self._addressed(item) for item in items] if self._aliases else items
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

    async def batch(self, items: list[Any]) -> list[Any]:
        """Each item's answer from the model that it names."""
        results: list[Any] = [None] * len(items)

        async def fill(model: str, part: list[int]) -> None:
            answers = await self.answers(model, [items[i] for i in part])
            for i, result in zip(part, answers, strict=True):
                results[i] = result

        await asyncio.gather(*(fill(*each) for each in self._parts(items).items()))
        return results

    async def stream(self, items: list[Any]) -> AsyncIterator[bytes]:
        """A line of JSON for each item as it finishes: its result, and its ``index``."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=16)
        items = [self._addressed(item) for item in items] if self._aliases else items
        tasks = [
            asyncio.create_task(self._stream_part(lines, model, items, part))
            for model, part in self._parts(items).items()
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

    async def complete(self, model: str, body: dict[str, Any], within_s: float) -> dict[str, Any]:
        """The model's answer to a conversation; where none comes, a typed failure."""
        call = self._models[model].anywhere().complete.remote(body)
        answer: dict[str, Any] | BaseException = await _outcome(call, within_s + _GRACE_S)
        if isinstance(answer, BaseException):
            status, reason = _fault(answer)
            logger.warning("reward model %s: a conversation unanswered: %r", model, answer)
            return {"status": status.value, "reason": reason, "retry_after_s": 0.0}
        return answer

    async def describe(self) -> list[dict[str, Any]]:
        """What each model says of itself, and whether it answers."""
        return await asyncio.gather(*map(self._describe, self._models))

    async def _describe(self, name: str) -> dict[str, Any]:
        call = self._models[name].anywhere().describe.remote()
        told: dict[str, Any] | BaseException = await _outcome(call, _READY_TIMEOUT_S)
        if isinstance(told, BaseException):
            return {"name": name, "ready": False}
        return {**told, "ready": True}

    def _addressed(self, item: Any) -> Any:
        """The item with its model's own name, which is the one that its replica answers to."""
        name = item.get("model") if isinstance(item, dict) else None
        own = self._aliases.get(name) if isinstance(name, str) else None
        return {**item, "model": own} if own else item

    def _parts(self, items: list[Any]) -> dict[str, list[int]]:
        """Model to the indices of its items; an unknown model's go to the default's refusal."""
        parts: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            name = item.get("model") if isinstance(item, dict) else None
            name = self._aliases.get(name, name) if isinstance(name, str) else None
            model = name if name in self._models else self._default
            parts.setdefault(model, []).append(i)
        return parts


async def _answer(model: str, items: list[Any], call: Any) -> list[dict[str, Any]]:
    """A replica's answer; where none comes, a typed failure for each item."""
    answer: list[dict[str, Any]] | BaseException = await _outcome(
        call, longest_timeout_s(items) + _GRACE_S
    )
    if isinstance(answer, BaseException):
        status, reason = _fault(answer)
        logger.warning("reward model %s: %d items unanswered: %r", model, len(items), answer)
        return [_failure(model, item, status, reason) for item in items]
    return answer


async def _outcome(call: Any, within_s: float) -> Any:
    """What a call gives, or why it gives nothing; cancelled with whoever waits for it."""
    try:
        async with asyncio.timeout(within_s):
            return await call
    except _NO_ANSWER as error:
        call.cancel()
        if isinstance(error, asyncio.CancelledError) and cancelled_by_caller():
            raise
        return error


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
