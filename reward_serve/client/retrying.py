"""Asks again what may fare better later, within each request's own deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, TryAgain, stop_after_attempt, stop_never
from tenacity.wait import wait_random_exponential

from reward_serve.client.counters import Counters
from reward_serve.client.transport import GRACE_S, ServiceUnavailableError, Transport
from reward_serve.schema import (
    ScoreResult,
    Status,
    echoes,
    failure,
    longest_timeout_s,
    retry_after_s,
)

_BACKOFF = wait_random_exponential(multiplier=0.2, max=8)
_WORTH_ANOTHER = frozenset([Status.OVERLOADED, Status.ERROR])
_TOO_LARGE = 413

Deliver = Callable[[dict[int, ScoreResult]], None]


class Retrier:
    """Asks a transport until each request has a result that another attempt would not better.

    Asked again, after a jittered exponential pause or the one that the service asks for: transport
    faults, ``overloaded`` and ``error``. Scoring is pure, so that a repeated request does no harm.
    A replica that is replaced takes half a minute: a request outlives that where its deadline does.

    Args:
        transport: the way to the service.
        counters: where retries are counted.
        max_attempts: how often a request is sent at most; None for as long as its deadline lasts.
    """

    def __init__(
        self, transport: Transport, counters: Counters, max_attempts: int | None = None
    ) -> None:
        self._transport = transport
        self._counters = counters
        self._stop = stop_never if max_attempts is None else stop_after_attempt(max_attempts)

    async def ask(
        self, bodies: Sequence[dict[str, Any]], deliver: Deliver = lambda results: None
    ) -> list[ScoreResult]:
        """A result for each request, in order; a service out of reach is ``error``.

        Args:
            bodies: the requests.
            deliver: told the results that are final, by index, while others are asked again.
        """
        batch = _Batch(bodies, deliver)
        expiring = asyncio.ensure_future(batch.expire()) if batch.mixed else None
        try:
            await self._until_final(batch)
        finally:
            if expiring:
                expiring.cancel()
        return batch.results

    async def _until_final(self, batch: _Batch) -> None:
        async for attempt in AsyncRetrying(
            stop=self._stop,
            wait=batch.pause_s,
            retry_error_callback=lambda _: None,
        ):
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    self._counters.retried(len(batch.open))
                await self._attempt(batch, batch.open)
                if batch.open:
                    raise TryAgain
        batch.close(set(batch.open))

    async def _attempt(self, batch: _Batch, asked: list[int]) -> None:
        if not asked:
            return
        try:
            results = await self._transport.ascore_batch([batch.body(at) for at in asked])
        except ServiceUnavailableError as error:
            half = len(asked) // 2
            if error.status_code == _TOO_LARGE and half:  # together, perhaps, and not alone
                await asyncio.gather(
                    self._attempt(batch, asked[:half]), self._attempt(batch, asked[half:])
                )
            else:
                batch.unanswered(asked, error)
        else:
            batch.answered(asked, results)


class _Batch:
    """The results so far; ``open`` are the indices of the requests to be asked again."""

    def __init__(self, bodies: Sequence[dict[str, Any]], deliver: Deliver) -> None:
        now = time.monotonic()
        self._bodies = bodies
        self._deliver = deliver
        self._ends = [now + longest_timeout_s([body]) for body in bodies]
        self._retry_after_s = 0.0
        self._found: dict[int, ScoreResult] = {}
        self.open = list(range(len(bodies)))

    @property
    def mixed(self) -> bool:
        """Whether deadlines differ: an attempt lasts as long as the longest."""
        return len(set(self._ends)) > 1

    async def expire(self) -> None:
        """Give up each request that has no answer when its own deadline and a grace have passed."""
        for end in sorted(set(self._ends)):
            await asyncio.sleep(end + GRACE_S - time.monotonic())
            late = {index for index in self.open if self._ends[index] <= end}
            for index in late:
                reason = "no answer came by the deadline"
                self._found[index] = failure(Status.TIMEOUT, reason, **echoes(self._bodies[index]))
            self.close(late)

    @property
    def results(self) -> list[ScoreResult]:
        """A result for each request, in order."""
        return [self._result(index) for index in range(len(self._bodies))]

    def _result(self, index: int) -> ScoreResult:
        if index not in self._found:
            late = "the deadline passed before it was sent"
            self._found[index] = failure(Status.TIMEOUT, late, **echoes(self._bodies[index]))
        return self._found[index]

    def body(self, index: int) -> dict[str, Any]:
        """The request, with what is left of its deadline."""
        body, left = self._bodies[index], self._ends[index] - time.monotonic()
        if longest_timeout_s([body]) != body.get("timeout_s"):
            return body  # no valid deadline: for the service to refuse
        return {**body, "timeout_s": max(left, 0.001)}

    def answered(self, asked: Sequence[int], results: Sequence[ScoreResult]) -> None:
        """Keep what an attempt brought."""
        waiting = set(self.open)
        self._found |= {i: r for i, r in zip(asked, results, strict=True) if i in waiting}
        self.close({i for i, r in zip(asked, results, strict=True) if not _again(r)})
        self._retry_after_s = max((retry_after_s(result.details) for result in results), default=0)

    def unanswered(self, asked: Sequence[int], error: ServiceUnavailableError) -> None:
        """An attempt brought nothing."""
        status = Status.ERROR if error.retryable else Status.INVALID
        for index in set(asked).intersection(self.open):
            self._found[index] = failure(status, str(error), **echoes(self._bodies[index]))
        self._retry_after_s = error.retry_after_s or 0.0
        if not error.retryable:
            self.close(set(asked))

    def pause_s(self, state: RetryCallState) -> float:
        """How long to wait for the next attempt; what is due before it is given up."""
        pause = max(_BACKOFF(state), self._retry_after_s)
        self._retry_after_s = 0.0
        then = time.monotonic() + pause
        self.close({index for index in self.open if self._ends[index] < then})
        return pause if self.open else 0.0

    def close(self, indices: set[int]) -> None:
        """The results of these requests are final."""
        final = {index: self._result(index) for index in self.open if index in indices}
        self.open = [index for index in self.open if index not in indices]
        if final:
            self._deliver(final)


def _again(result: ScoreResult) -> bool:
    return result.status in _WORTH_ANOTHER
