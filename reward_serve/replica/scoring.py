"""Scores requests with one reward model: validation, admission, deadlines, typed failures.

This is what a replica does, without Ray: no request raises, each gets a ``ScoreResult``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.replica.admission import Admission
from reward_serve.replica.observing.base import Observer, Times
from reward_serve.reward_models.base import InvalidRequestError, Scores, Verdict
from reward_serve.routing.calls import cancelled_by_caller
from reward_serve.routing.sizes import bounded, size_of
from reward_serve.schema import (
    DEFAULT_ITEM_CHARS,
    ScoreRequest,
    ScoreResult,
    Status,
    describe_errors,
    echoes,
)

logger = logging.getLogger(__name__)

_FLUSH_S = 0.02
_LONG_CHARS = 2**14


class _DeadlinePassedError(Exception):
    """The request's own deadline, as against a timeout inside the reward model."""


@dataclass(slots=True)
class _Visit:
    """When a request came, and when the reward model had it."""

    began: float
    placed: float | None = None

    def times(self, now: float) -> Times:
        if self.placed is None:
            return Times(now - self.began)
        return Times(now - self.began, self.placed - self.began, now - self.placed)


class Scorer:
    """Turns requests into results; never raises for one.

    Args:
        name: the reward model's name, as it stands in results.
        model: what scores.
        admission: bounds the items at work and waiting.
        max_batch_items: a larger batch is invalid as a whole.
        max_item_chars: an item whose texts together are longer is invalid.
        observers: see every request end.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        name: str,
        model: Scores,
        admission: Admission,
        max_batch_items: int,
        max_item_chars: int = DEFAULT_ITEM_CHARS,
        observers: Sequence[Observer] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._model = model
        self._admission = admission
        self._max_batch_items = max_batch_items
        self._observers = observers
        self._max_item_chars = max_item_chars
        self._clock = clock
        self._long_items = asyncio.Lock()

    async def score(self, request: object, batch: object = None) -> dict[str, Any]:
        """The result of one request, as a plain dict; its deadline runs from here.

        Args:
            request: a ``ScoreRequest`` as plain data.
            batch: what it came with; batches are admitted in turn.
        """
        visit = _Visit(self._clock())
        try:
            result = await self._result(request, batch, visit)
        except asyncio.CancelledError:
            for observer in self._observers:
                observer.cancelled(request, visit.times(self._clock()))
            raise
        times = visit.times(self._clock())
        for observer in self._observers:
            observer.observe(request, result, times)
        return result

    async def _result(self, request: object, batch: object, visit: _Visit) -> dict[str, Any]:
        began = visit.began
        try:
            parsed = ScoreRequest.model_validate(request)
        except ValidationError as error:
            return self._failed(Status.INVALID, describe_errors(error), echoes(request), began)
        echoed = {"id": parsed.id, "metadata": parsed.metadata}
        try:
            verdict = await self._within_deadline(parsed, batch, visit)
            result = ScoreResult(
                **{name: getattr(verdict, name) for name in Verdict.__slots__},
                **echoed,
                model=self._name,
                latency_ms=1000 * (self._clock() - began),
            )
            return result.model_dump(mode="json")
        except InvalidRequestError as error:
            return self._failed(Status.INVALID, str(error), echoed, began)
        except OverloadedError as error:
            told = {"details": {"retry_after_s": error.retry_after_s}, **echoed}
            return self._failed(Status.OVERLOADED, str(error), told, began)
        except _DeadlinePassedError:
            reason = f"timeout_s: {parsed.timeout_s:g} s passed before a verdict"
            return self._failed(Status.TIMEOUT, reason, echoed, began)
        except EngineError as error:
            return self._failed(Status.ERROR, str(error), echoed, began)
        except Exception as error:
            logger.exception("reward model %s failed at request id=%r", self._name, parsed.id)
            return self._failed(Status.ERROR, f"{type(error).__name__}: {error}", echoed, began)

    async def score_batch(self, requests: object, batch: object = None) -> list[dict[str, Any]]:
        """A result for each request, in order; one item's failure is its own.

        Args:
            requests: the batch, or a part of it.
            batch: shared by the parts of a batch, which are admitted in turn as one.

        Raises:
            TypeError: ``requests`` is not a list.
        """
        items = self._items(requests)
        if len(items) > self._max_batch_items:
            return [self._too_large(item, len(items)) for item in items]
        batch = batch or object()
        return list(await asyncio.gather(*(self.score(item, batch) for item in items)))

    async def score_stream(
        self, requests: object, batch: object = None
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """The results of ``score_batch`` as they finish, in chunks, each with its ``index``.

        Raises:
            TypeError: ``requests`` is not a list.
        """
        items = self._items(requests)
        if len(items) > self._max_batch_items:
            refused = [{"index": i, **self._too_large(r, len(items))} for i, r in enumerate(items)]
            for part, _ in bounded(refused, size_of):
                yield list(part)
            return
        finished: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        batch = batch or object()

        async def one(index: int, item: object) -> None:
            finished.put_nowait({"index": index, **await self.score(item, batch)})

        tasks = [asyncio.ensure_future(one(i, item)) for i, item in enumerate(items)]
        try:
            left = len(items)
            while left:
                chunk = [await finished.get()]
                await asyncio.sleep(_FLUSH_S)  # a yielded chunk costs as much as a call
                while not finished.empty():
                    chunk.append(finished.get_nowait())
                left -= len(chunk)
                for part, _ in bounded(chunk, size_of):
                    yield list(part)
        finally:
            for task in tasks:
                task.cancel()

    async def _within_deadline(
        self, request: ScoreRequest, batch: object, visit: _Visit
    ) -> Verdict:
        if request.model not in (None, self._name):
            asked = ascii((request.model or "")[:64])
            raise InvalidRequestError(f"model: {asked} was sent to {self._name!r}")
        is_long = self._characters(request) > _LONG_CHARS
        try:
            place = self._admission.place(request.timeout_s, batch)
            async with asyncio.timeout(request.timeout_s) as deadline, place:
                visit.placed = self._clock()
                # Rules never wait: without this a batch of them would hold the event loop. Long
                # items start one by one, so that a short one waits for one of them at most.
                async with self._long_items if is_long else nullcontext():
                    await asyncio.sleep(0)
                left_s = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
                return await self._model.score(request.model_copy(update={"timeout_s": left_s}))
        except TimeoutError:
            if deadline.expired():
                raise _DeadlinePassedError from None
            raise
        except asyncio.CancelledError:
            if cancelled_by_caller():
                raise
            raise EngineError("the engine cancelled the request") from None

    def _characters(self, request: ScoreRequest) -> int:
        """How long the item is; InvalidRequestError where that is too long."""
        sizes = request.characters
        total, longest = sum(sizes.values()), max(sizes, key=sizes.__getitem__)
        if total > self._max_item_chars:
            raise InvalidRequestError(
                f"{longest}: {sizes[longest]} characters of the item's {total}, where "
                f"max_item_chars allows {self._max_item_chars}; send less, such as the end of it"
            )
        return total

    def _failed(
        self, status: Status, reason: str, echoed: dict[str, Any], began: float
    ) -> dict[str, Any]:
        result = ScoreResult(
            status=status,
            reason=reason,
            model=self._name,
            latency_ms=1000 * (self._clock() - began),
            **echoed,
        )
        return result.model_dump(mode="json")

    def _too_large(self, request: object, size: int) -> dict[str, Any]:
        reason = f"requests: {size} items; a batch takes {self._max_batch_items}, so split it"
        return self._failed(Status.INVALID, reason, echoes(request), self._clock())

    @staticmethod
    def _items(requests: object) -> Sequence[object]:
        if not isinstance(requests, list | tuple):
            raise TypeError(f"requests: must be a list of dicts (found {type(requests).__name__})")
        return requests
