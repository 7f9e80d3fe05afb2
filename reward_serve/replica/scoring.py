"""Scores requests with one reward model: validation, admission, deadlines, typed failures.

This is the work of a replica, without Ray. No request raises; each gets a ``ScoreResult``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from reward_serve.replica.admission import Admission
from reward_serve.replica.failures import failure_of, within_deadline
from reward_serve.replica.observing.base import Observer, Times
from reward_serve.reward_models.base import InvalidRequestError, Scores, Verdict
from reward_serve.routing.sizes import bounded, size_of
from reward_serve.schema import (
    DEFAULT_ITEM_CHARS,
    ScoreRequest,
    ScoreResult,
    Status,
    describe_errors,
    echoes,
)

_FLUSH_S = 0.02
_TURN_S = 0.005
_TURN_CHARACTERS = 2**12
_SHORT_CHARACTERS = 2**10
_ITEM_CHARACTERS = 2**9  # no item takes less time than one of this size


@dataclass(slots=True)
class _Timing:
    """When a request arrived, and when it was passed to the reward model."""

    began: float
    placed: float | None = None

    def times(self, now: float) -> Times:
        if self.placed is None:
            return Times(now - self.began)
        return Times(now - self.began, self.placed - self.began, now - self.placed)


class _Turns:
    """Limits the work that items begin in one turn of the event loop, so that others get theirs.

    A turn has room for ``_TURN_S`` of validation, and for the rules and prompts of one long item
    and of short ones with ``_TURN_CHARACTERS``. Tasks of a reward model do the latter work later.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._left = _TURN_CHARACTERS
        self._has_long = False
        self._renewing = False

    async def validation(self) -> None:
        """Wait for a turn with time left."""
        while time.monotonic() - self._began > _TURN_S:
            await self._ends()

    async def work(self, characters: int) -> None:
        """Wait for a turn with room for an item, and take it."""
        if characters > _SHORT_CHARACTERS:
            while self._has_long:
                await self._ends()
            self._has_long = True
            return
        while self._left <= 0:
            await self._ends()
        self._left -= max(characters, _ITEM_CHARACTERS)

    async def _ends(self) -> None:
        if not self._renewing:
            self._renewing = True
            asyncio.get_running_loop().call_soon(self._renew)
        await asyncio.sleep(0)

    def _renew(self) -> None:
        self._began, self._left = time.monotonic(), _TURN_CHARACTERS
        self._has_long = self._renewing = False


class Scorer:
    """Turns requests into results and never raises.

    Args:
        name: the reward model's name in results.
        model: the reward model.
        admission: limits the items in progress and waiting.
        max_batch_items: all items of a larger batch are invalid.
        max_item_chars: an item with more characters in total is invalid.
        observers: notified of the end of every request.
        clock: monotonic clock in seconds.
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
        self._turns = _Turns()

    async def score(self, request: object, batch: object = None) -> dict[str, Any]:
        """Score one request; its deadline starts now.

        Args:
            request: a ``ScoreRequest`` as plain data.
            batch: the batch that it belongs to; batches are admitted in turn.
        """
        timing = _Timing(self._clock())
        try:
            result = await self._result(request, batch, timing)
        except asyncio.CancelledError:
            for observer in self._observers:
                observer.cancelled(request, timing.times(self._clock()))
            raise
        times = timing.times(self._clock())
        for observer in self._observers:
            observer.observe(request, result, times)
        return result

    async def _result(self, request: object, batch: object, timing: _Timing) -> dict[str, Any]:
        began = timing.began
        await self._turns.validation()  # validation takes up to 20 ms
        try:
            parsed = ScoreRequest.model_validate(request)
        except ValidationError as error:
            return self._failed(Status.INVALID, describe_errors(error), echoes(request), began)
        echoed: dict[str, Any] = {"id": parsed.id, "metadata": parsed.metadata}
        try:
            verdict = await self._verdict(parsed, batch, timing)
            result = ScoreResult(
                **{name: getattr(verdict, name) for name in Verdict.__slots__},
                **echoed,
                model=self._name,
                latency_ms=1000 * (self._clock() - began),
            )
            return result.model_dump(mode="json")
        except Exception as error:
            failed = failure_of(error, f"reward model {self._name}, request id={parsed.id!r}")
            if failed.retry_after_s:
                echoed["details"] = {"retry_after_s": failed.retry_after_s}
            return self._failed(failed.status, failed.reason, echoed, began)

    async def score_batch(self, requests: object, batch: object = None) -> list[dict[str, Any]]:
        """Score each request, in order; one item's failure does not affect the others.

        Args:
            requests: the batch, or a part of it.
            batch: identifies the batch; its parts are admitted as one.

        Raises:
            TypeError: ``requests`` is not a list.
        """
        items = self._items(requests)
        if len(items) > self._max_batch_items:
            return [self._too_large(item, len(items)) for item in items]
        batch = batch or object()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.score(item, batch)) for item in items]
        return [task.result() for task in tasks]

    async def score_stream(
        self, requests: object, batch: object = None
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """The results of ``score_batch`` in chunks as they finish, each with its ``index``.

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

        tasks = [asyncio.create_task(one(i, item)) for i, item in enumerate(items)]
        try:
            left = len(items)
            while left:
                chunk = [await finished.get()]
                await asyncio.sleep(_FLUSH_S)  # yielding a chunk costs as much as a call
                while not finished.empty():
                    chunk.append(finished.get_nowait())
                left -= len(chunk)
                for part, _ in bounded(chunk, size_of):
                    yield list(part)
        finally:
            for task in tasks:
                task.cancel()

    async def _verdict(self, request: ScoreRequest, batch: object, timing: _Timing) -> Verdict:
        if request.model not in (None, self._name):
            asked = ascii((request.model or "")[:64])
            raise InvalidRequestError(
                f"model: no model is named {asked} in this deployment; choose {self._name!r}"
            )
        characters = self._checked_length(request)
        place = self._admission.place(request.timeout_s, batch)
        async with within_deadline(request.timeout_s) as deadline, place:
            timing.placed = self._clock()
            await self._turns.work(characters)
            left_s = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
            return await self._model.score(request.model_copy(update={"timeout_s": left_s}))

    def _checked_length(self, request: ScoreRequest) -> int:
        sizes = request.characters
        total, longest = sum(sizes.values()), max(sizes, key=sizes.__getitem__)
        if total > self._max_item_chars:
            raise InvalidRequestError(
                f"{longest}: has {sizes[longest]} of the item's {total} characters; the limit is "
                f"max_item_chars: {self._max_item_chars}, so send less, such as its end"
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
        reason = f"requests: {size} items; the limit is {self._max_batch_items}, so split the batch"
        return self._failed(Status.INVALID, reason, echoes(request), self._clock())

    @staticmethod
    def _items(requests: object) -> Sequence[object]:
        if not isinstance(requests, list | tuple):
            raise TypeError(f"requests: must be a list of dicts (found {type(requests).__name__})")
        return requests
