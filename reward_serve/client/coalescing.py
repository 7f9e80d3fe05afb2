"""Single requests that come together travel in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from reward_serve.schema import ScoreResult

Body = dict[str, Any]
Ask = Callable[[Sequence[Body]], Awaitable[list[ScoreResult]]]


class Coalescer:
    """Gathers requests of one event loop into batches.

    Args:
        ask: answers a batch, in order; never raises.
        window_s: how long a request waits for others; 0 for those of the same turn of the loop.
        max_batch: most requests a batch.
    """

    def __init__(self, ask: Ask, window_s: float, max_batch: int) -> None:
        self._ask = ask
        self._window_s = window_s
        self._max_batch = max_batch
        self._waiting: list[tuple[Body, asyncio.Future[ScoreResult]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sent: set[asyncio.Task[None]] = set()

    async def ask(self, body: Body) -> ScoreResult:
        """The result of one request; a batch whose callers have all gone is cancelled."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ScoreResult] = loop.create_future()
        self._waiting.append((body, answer))
        if len(self._waiting) >= self._max_batch:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(self._window_s, self._send)
        return await answer

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [(body, answer) for body, answer in self._waiting if not answer.done()]
        self._waiting = []
        if not batch:
            return
        task = asyncio.create_task(self._answer(batch))
        self._sent.add(task)
        task.add_done_callback(self._sent.discard)
        left = len(batch)

        def gone(answer: asyncio.Future[ScoreResult]) -> None:
            nonlocal left
            left -= answer.cancelled()
            if not left:
                task.cancel()

        for _, answer in batch:
            answer.add_done_callback(gone)

    async def _answer(self, batch: Sequence[tuple[Body, asyncio.Future[ScoreResult]]]) -> None:
        try:
            results = await self._ask([body for body, _ in batch])
        except Exception as error:  # a fault of ours; the callers must not wait forever
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), result in zip(batch, results, strict=True):
            if not answer.done():
                answer.set_result(result)
