"""Asks again what may fare better later, within each request's own deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    TryAgain,
    retry_if_exception_type,
    stop_after_attempt,
    stop_never,
)
from tenacity.wait import wait_random_exponential

from reward_serve.client.counters import Counters
from reward_serve.client.endpoint import Endpoint, is_answer
from reward_serve.client.transport import (
    GRACE_S,
    NotConnectedError,
    ServiceUnavailableError,
)
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
    """Asks services until each request has a result that another attempt would not better.

    An attempt asks the first service that answers; one that does not is left out until it does. A
    call that ends with no answer of any is an outage: as long as it lasts, requests fail at once.

    Asked again, after a jittered exponential pause or the one that the service asks for: transport
    faults, ``overloaded`` and ``error``. Scoring is pure, so that a repeated request does no harm.
    A replica that is replaced takes half a minute: a request outlives that where its deadline does.

    Args:
        endpoints: the services, in order of preference.
        counters: where retries are counted.
        max_attempts: how often a request is sent at most; None for as long as its deadline lasts.
    """

    def __init__(
        self, endpoints: Sequence[Endpoint], counters: Counters, max_attempts: int | None = None
    ) -> None:
        self._endpoints = endpoints
        self._counters = counters
        self._stop = stop_never if max_attempts is None else stop_after_attempt(max_attempts)

    @property
    def outage(self) -> str | None:
        """Why no service is asked; None where one is."""
        if any(endpoint.up for endpoint in self._endpoints):
            return None
        return "; ".join(endpoint.outage for endpoint in self._endpoints)

    @property
    def in_doubt(self) -> bool:
        """Whether every service is; each says so itself."""
        return all(endpoint.in_doubt for endpoint in self._endpoints)

    async def ask(
        self, bodies: Sequence[dict[str, Any]], deliver: Deliver = lambda results: None
    ) -> list[ScoreResult]:
        """A result for each request, in order; a service out of reach is ``error``.

        Args:
            bodies: the requests.
            deliver: called with the results that are final, by index, while others are asked again.

        Raises:
            NotConnectedError: this process cannot ask the service.
        """
        batch = _Batch(bodies, deliver)
        if self.outage is not None:
            self._give_up(batch)
            return batch.results
        expiring = asyncio.ensure_future(batch.expire()) if batch.mixed else None
        try:
            with self._watched(batch):
                await self._until_final(batch)
        finally:
            if expiring:
                expiring.cancel()
        return batch.results

    @contextmanager
    def _watched(self, batch: _Batch) -> Iterator[None]:
        """Ends the call when an outage is certain that others found."""

        def give_up() -> None:
            self._give_up(batch)

        for endpoint in self._endpoints:
            endpoint.on_outage.add(give_up)
        try:
            yield
        finally:
            for endpoint in self._endpoints:
                endpoint.on_outage.discard(give_up)

    def _give_up(self, batch: _Batch) -> None:
        if (reason := self.outage) is not None:
            batch.fail(batch.open, Status.ERROR, reason)
            batch.close(set(batch.open))

    async def _until_final(self, batch: _Batch) -> None:
        async for attempt in AsyncRetrying(
            stop=self._stop,
            wait=batch.pause_s,
            retry=retry_if_exception_type(TryAgain),
            retry_error_callback=lambda _: None,
        ):
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    self._counters.retried(len(batch.open))
                await self._attempt(batch)
                if batch.open:
                    raise TryAgain
        for endpoint, since in batch.unanswered_since.items():
            endpoint.lost(batch.bodies, since, batch.last_reason)
        batch.close(set(batch.open))

    async def _attempt(self, batch: _Batch) -> None:
        """Ask the services in turn until one answers."""
        for endpoint in [each for each in self._endpoints if each.up] or self._endpoints:
            if not batch.open:
                return
            since = batch.unanswered_since.setdefault(endpoint, time.monotonic())
            if await self._ask(endpoint, batch, batch.open):
                del batch.unanswered_since[endpoint]
                return
            batch.close_due(time.monotonic())
            if batch.open and any(other.up for other in self._endpoints if other is not endpoint):
                endpoint.lost(batch.bodies, since, batch.last_reason)

    async def _ask(self, endpoint: Endpoint, batch: _Batch, asked: list[int]) -> bool:
        """Ask once; whether any request was answered."""
        try:
            results = await endpoint.ascore_batch([batch.body(at) for at in asked])
        except NotConnectedError:
            raise
        except ServiceUnavailableError as error:
            half = len(asked) // 2
            if error.status_code == _TOO_LARGE and half:  # together, perhaps, and not alone
                batch.close_due(time.monotonic())
                halves = [
                    [at for at in part if at in batch.open] for part in (asked[:half], asked[half:])
                ]
                parts = [self._ask(endpoint, batch, part) for part in halves if part]
                return any(await asyncio.gather(*parts)) or not parts
            batch.unanswered(asked, error)
            return error.answered
        batch.answered(asked, results)
        return any(map(is_answer, results))


class _Batch:
    """The results so far; ``open`` are the indices of the requests to be asked again."""

    def __init__(self, bodies: Sequence[dict[str, Any]], deliver: Deliver) -> None:
        now = time.monotonic()
        self.bodies = bodies
        self.unanswered_since: dict[Endpoint, float] = {}
        """When services were first asked that have not answered, by the monotonic clock."""
        self.last_reason = ""
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
            late = [index for index in self.open if self._ends[index] <= end]
            self.fail(late, Status.TIMEOUT, "no answer came by the deadline")
            self.close(set(late))

    @property
    def results(self) -> list[ScoreResult]:
        """A result for each request, in order."""
        return [self._result(index) for index in range(len(self.bodies))]

    def _result(self, index: int) -> ScoreResult:
        if index not in self._found:
            late = "the deadline passed before it was sent"
            self._found[index] = failure(Status.TIMEOUT, late, **echoes(self.bodies[index]))
        return self._found[index]

    def body(self, index: int) -> dict[str, Any]:
        """The request, with what is left of its deadline."""
        body, left = self.bodies[index], self._ends[index] - time.monotonic()
        if longest_timeout_s([body]) != body.get("timeout_s"):
            return body  # no valid deadline: for the service to refuse
        return {**body, "timeout_s": max(left, 0.001)}

    def answered(self, asked: Sequence[int], results: Sequence[ScoreResult]) -> None:
        """Keep what an attempt brought."""
        waiting = set(self.open)
        self._found |= {i: r for i, r in zip(asked, results, strict=True) if i in waiting}
        self.last_reason = results[-1].reason or ""
        self.close({i for i, r in zip(asked, results, strict=True) if not _again(r)})
        self._retry_after_s = max((retry_after_s(result.details) for result in results), default=0)

    def unanswered(self, asked: Sequence[int], error: ServiceUnavailableError) -> None:
        """An attempt brought nothing."""
        status = Status.ERROR if error.retryable else Status.INVALID
        self.fail(set(asked).intersection(self.open), status, str(error))
        self._retry_after_s = error.retry_after_s or 0.0
        if not error.retryable:
            self.close(set(asked))

    def pause_s(self, state: RetryCallState) -> float:
        """How long to wait for the next attempt; what is due before it is given up."""
        pause = max(_BACKOFF(state), self._retry_after_s)
        self._retry_after_s = 0.0
        self.close_due(time.monotonic() + pause)
        return pause if self.open else 0.0

    def close_due(self, then: float) -> None:
        """The results of requests whose deadline is before that time are final."""
        self.close({index for index in self.open if self._ends[index] < then})

    def fail(self, indices: Iterable[int], status: Status, reason: str) -> None:
        """Keep a failure of these requests."""
        self.last_reason = reason
        for index in indices:
            self._found[index] = failure(status, reason, **echoes(self.bodies[index]))

    def close(self, indices: set[int]) -> None:
        """The results of these requests are final."""
        final = {index: self._result(index) for index in self.open if index in indices}
        self.open = [index for index in self.open if index not in indices]
        if final:
            self._deliver(final)


def _again(result: ScoreResult) -> bool:
    return result.status in _WORTH_ANOTHER
