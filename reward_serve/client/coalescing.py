"""Batches the requests of concurrent calls from all threads and event loops.

A thread switch costs more than a request, so a burst of requests is passed to the clients' event
loop with one call, and so are the results to each of their callers' event loops.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from reward_serve.client.transport import with_id
from reward_serve.routing.calls import cancelled_by_caller
from reward_serve.routing.sizes import size_of
from reward_serve.schema import ScoreResult

MAX_BYTES = 8 * 2**20
"""Maximum bytes of a batch of several requests; the service's default limit is 32 MiB per body."""
Outcome = ScoreResult | BaseException


class Ticket:
    """A submitted request.

    Args:
        body: the request.
        loop: the event loop that awaits ``answer``; None if a thread waits for it.

    Attributes:
        body: the request with an id.
        has_own_id: whether the caller set the id.
        answer: the future of its outcome.
        gone: whether the caller no longer waits.
    """

    __slots__ = ("answer", "body", "gone", "has_own_id", "loop")

    def __init__(self, body: dict[str, Any], loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.body = with_id(body)
        self.has_own_id = body.get("id") is not None
        self.loop = loop
        self.answer: Any = loop.create_future() if loop else Future()
        self.gone = False


Ask = Callable[[Sequence[Ticket]], Awaitable[None]]


class Coalescer:
    """Collects requests into batches on one event loop.

    A batch is sent when it is full (in requests or bytes), when no other batch is in progress, or
    when its first request has waited for ``window_s``.

    Args:
        ask: sends a batch and delivers each ticket's outcome.
        loop: an event loop in another thread than the callers'.
        window_s: how long a request waits for others while a batch is in progress.
        max_batch: maximum requests per batch.
    """

    def __init__(
        self, ask: Ask, loop: asyncio.AbstractEventLoop, window_s: float, max_batch: int
    ) -> None:
        self._ask = ask
        self._loop = loop
        self._window_s = window_s
        self._max_batch = max_batch
        self._incoming: deque[Ticket] = deque()
        self._is_woken = False
        self._waiting: list[Ticket] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._in_progress: dict[asyncio.Task[None], list[Ticket]] = {}

    def submit(self, tickets: Sequence[Ticket]) -> None:
        """Submit tickets, from any thread."""
        self._incoming.extend(tickets)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._take)
            except BaseException:  # such as KeyboardInterrupt; the next caller tries again
                self._is_woken = False
                raise

    def withdraw(self, tickets: Sequence[Ticket]) -> None:
        """Withdraw tickets whose callers have left; cancels batches for which nobody waits."""
        with suppress(RuntimeError):  # the loop has ended with its process
            self._loop.call_soon_threadsafe(self._abandon, tickets)

    def _take(self) -> None:
        self._is_woken = False  # before emptying the queue, so that later requests wake the loop
        while self._incoming:
            ticket = self._incoming.popleft()
            try:
                size = size_of(ticket.body)
            except Exception as error:  # such as a dict that its caller changes
                hand_out([(ticket, error)])
                continue
            if self._bytes + size > MAX_BYTES and self._waiting:
                self._send()
            self._waiting.append(ticket)
            self._bytes += size
            if len(self._waiting) >= self._max_batch:
                self._send()
        if self._waiting and all(map(_is_abandoned, self._in_progress.values())):
            self._send()
        elif self._waiting and self._timer is None:
            self._timer = self._loop.call_later(self._window_s, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [ticket for ticket in self._waiting if not ticket.gone]
        self._waiting, self._bytes = [], 0
        if batch:
            task = self._loop.create_task(self._answer(batch))
            self._in_progress[task] = batch
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._in_progress[task]
        if self._waiting and not self._in_progress:
            self._send()

    async def _answer(self, batch: Sequence[Ticket]) -> None:
        try:
            await self._ask(batch)
        except asyncio.CancelledError:
            if cancelled_by_caller():
                raise
            lost = RuntimeError("the service cancelled the call")
            hand_out((ticket, lost) for ticket in batch)
        except Exception as error:  # a bug; the callers must not wait forever
            hand_out((ticket, error) for ticket in batch)

    def _abandon(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            ticket.gone = True
        gone = set(tickets)
        for task, batch in self._in_progress.items():
            if not gone.isdisjoint(batch) and _is_abandoned(batch):
                task.cancel()


def _is_abandoned(batch: Sequence[Ticket]) -> bool:
    """Whether nobody waits for an answer any more."""
    return all(ticket.gone or ticket.answer.done() for ticket in batch)


def hand_out(outcomes: Iterable[tuple[Ticket, Outcome]]) -> None:
    """Deliver the tickets' outcomes, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Any, Outcome]]] = {}
    for ticket, outcome in outcomes:
        if ticket.loop is None:
            _resolve([(ticket.answer, outcome)])
        else:
            by_loop.setdefault(ticket.loop, []).append((ticket.answer, outcome))
    for loop, answers in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(_resolve, answers)


def _resolve(answers: Iterable[tuple[Any, Outcome]]) -> None:
    for answer, outcome in answers:
        if answer.done():
            continue
        if isinstance(outcome, BaseException):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
