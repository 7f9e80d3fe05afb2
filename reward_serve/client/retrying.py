"""Retries requests within their own deadlines, over one or more services."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic

from reward_serve.client.coalescing import Ticket
from reward_serve.client.endpoint import Endpoint, Result
from reward_serve.client.outcomes import Counters
from reward_serve.client.transport import (
    MALFORMED,
    SERVICE_GRACE_S,
    TOO_LARGE,
    NotConnectedError,
    ServiceUnavailableError,
    with_time_left,
)
from reward_serve.groups.schema import GroupResult, group_failure, size_of_group
from reward_serve.routing.calls import is_answer
from reward_serve.schema import (
    ScoreResult,
    Status,
    echoes,
    failure,
    longest_timeout_s,
    retry_after_s,
)

_RETRIED = frozenset([Status.OVERLOADED, Status.ERROR])

Deliver = Callable[[Sequence[tuple[Ticket, Result]]], None]


class Retrier:
    """Sends requests until each result is final.

    An attempt asks the first endpoint that is up, and the next one if that gives no answer. A
    request is retried after a transport fault, ``overloaded`` or ``error``, until its deadline or
    ``max_attempts``. All other results are final. Retries keep the request's id, by which the
    service recognises a member of a group. The pause between attempts is exponential with jitter,
    or longer if the service asks for it. A batch that is too large is split, as is one that the
    service cannot read, since one request of another caller may be at fault.

    Requests of different models are sent apart, and each model has its own circuit: an endpoint
    that gave no answer probes its service, and while all endpoints are down, requests fail at once.

    Args:
        endpoints: the services, in order of preference.
        counters: where retries are counted.
        max_attempts: maximum attempts per request; None to retry until its deadline.
    """

    def __init__(
        self, endpoints: Sequence[Endpoint], counters: Counters, max_attempts: int | None = None
    ) -> None:
        self._endpoints = endpoints
        self._counters = counters
        self._max_attempts = max_attempts

    def endpoints(self, body: Mapping[str, Any]) -> list[Endpoint]:
        """The endpoints of the model that a request names."""
        return [endpoint.of_model(body.get("model")) for endpoint in self._endpoints]

    async def ask(self, tickets: Sequence[Ticket], deliver: Deliver[ScoreResult]) -> None:
        """Deliver a result for each request; one that was never answered is ``error``.

        A request whose caller has left is not retried.

        Args:
            tickets: the requests.
            deliver: called with final results, while other requests are retried.

        Raises:
            NotConnectedError: this process cannot reach the service.
        """
        by_model: dict[str, list[Ticket]] = {}
        for ticket in tickets:
            by_model.setdefault(repr(ticket.body.get("model")), []).append(ticket)
        batches = [
            _Batch(self.endpoints(same[0].body), same, deliver, Endpoint.ascore_batch, _failed)
            for same in by_model.values()
        ]
        if len(batches) == 1:
            await self._ask_until_final(batches[0])
            return
        ended = await asyncio.gather(*map(self._ask_until_final, batches), return_exceptions=True)
        for batch, error in zip(batches, ended, strict=True):
            if isinstance(error, NotConnectedError) and None in ended:  # others were answered
                batch.fail(batch.open, Status.INVALID, str(error))
                batch.close(batch.open)
            elif error is not None:
                raise error

    async def ask_group(self, body: dict[str, Any]) -> GroupResult:
        """The result of a group, which is retried while no response has a score.

        Raises:
            NotConnectedError: this process cannot reach the service.
        """
        final: dict[Ticket, GroupResult] = {}
        ticket = Ticket(body)
        await self._ask_until_final(
            _Batch(
                self.endpoints(body), [ticket], final.update, Endpoint.ascore_groups, _failed_group
            )
        )
        return final[ticket]

    async def _ask_until_final(self, batch: _Batch[Result]) -> None:
        with self._bounded(batch):
            attempt = 0
            while batch.open:
                attempt += 1
                if attempt > 1:
                    self._counters.add(retried=len(batch.open))
                await self._attempt(batch)
                if not batch.open or attempt == self._max_attempts:
                    break
                pause_s = max(_backoff_s(attempt), batch.retry_after_s)
                batch.close_due(time.monotonic() + pause_s)
                if batch.open:
                    await asyncio.sleep(pause_s)
                batch.open -= {ticket for ticket in batch.open if ticket.gone}
        for endpoint in batch.endpoints:
            since = batch.unanswered_since.get(endpoint)
            if since is None:
                endpoint.offer(batch.bodies)
            else:
                endpoint.lost(batch.bodies, since, batch.last_reason)
        batch.close(batch.open)

    @contextmanager
    def _bounded(self, batch: _Batch[Any]) -> Iterator[None]:
        """During the block, end each request at its own deadline, and all when an outage begins."""

        def give_up() -> None:
            if not any(endpoint.up for endpoint in batch.endpoints):
                reason = "; ".join(endpoint.outage for endpoint in batch.endpoints)
                batch.fail(batch.open, Status.ERROR, reason)
                batch.close(batch.open)

        give_up()
        timers = batch.expire_later()
        for endpoint in batch.endpoints:
            endpoint.on_outage.add(give_up)
        try:
            yield
        finally:
            for endpoint in batch.endpoints:
                endpoint.on_outage.discard(give_up)
            for timer in timers:
                timer.cancel()

    async def _attempt(self, batch: _Batch[Any]) -> None:
        """Ask the endpoints in turn until one answers."""
        for endpoint in [each for each in batch.endpoints if each.up] or batch.endpoints:
            if not batch.open:
                return
            since = batch.unanswered_since.setdefault(endpoint, time.monotonic())
            if await self._ask(endpoint, batch, batch.open_of(batch.tickets)):
                del batch.unanswered_since[endpoint]
                return
            batch.close_due(time.monotonic())
            if batch.open and any(other.up for other in batch.endpoints if other is not endpoint):
                endpoint.lost(batch.bodies, since, batch.last_reason)

    async def _ask(self, endpoint: Endpoint, batch: _Batch[Any], tickets: Sequence[Ticket]) -> bool:
        """Ask once; returns whether the service answered any of these requests."""
        try:
            results = await batch.ask(endpoint, list(map(batch.body, tickets)))
        except NotConnectedError:
            raise
        except ServiceUnavailableError as error:
            half = len(tickets) // 2
            if error.status_code in (TOO_LARGE, MALFORMED) and half:
                batch.close_due(time.monotonic())
                halves = map(batch.open_of, (tickets[:half], tickets[half:]))
                parts = [self._ask(endpoint, batch, part) for part in halves if part]
                return any(await asyncio.gather(*parts)) or not parts
            batch.refused(tickets, error)
            return error.answered
        batch.answered(tickets, results)
        return any(map(is_answer, results))


class _Batch(Generic[Result]):
    """The requests of one model and their latest results.

    Attributes:
        endpoints: of the model, in order of preference.
        open: the requests without a final result.
        unanswered_since: when each endpoint without an answer was first asked, on the monotonic
            clock.
        retry_after_s: the pause that the service asked for in the last attempt, in seconds.
        last_reason: why the last request failed.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        tickets: Sequence[Ticket],
        deliver: Deliver[Result],
        ask: Callable[[Endpoint, Sequence[dict[str, Any]]], Awaitable[list[Result]]],
        failed: Callable[[dict[str, Any], Status, str], Result],
    ) -> None:
        now = time.monotonic()
        self.endpoints = endpoints
        self.tickets = tickets
        self.ask = ask
        self.bodies = [ticket.body for ticket in tickets]
        self.open = set(tickets)
        self.unanswered_since: dict[Endpoint, float] = {}
        self.retry_after_s = 0.0
        self.last_reason = ""
        self._deliver = deliver
        self._failed = failed
        self._ends = {ticket: now + longest_timeout_s([ticket.body]) for ticket in tickets}
        self._latest: dict[Ticket, Result] = {}
        self._sent: set[Ticket] = set()

    def open_of(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """The given requests that have no final result yet, in order."""
        return [ticket for ticket in tickets if ticket in self.open]

    def expire_later(self) -> list[asyncio.TimerHandle]:
        """Set timers that end each request at its deadline plus the grace, if deadlines differ.

        Without them a request would wait for the longest deadline of its attempt.
        """
        ends = set(self._ends.values())
        if len(ends) < 2:
            return []
        loop, now = asyncio.get_running_loop(), time.monotonic()
        return [loop.call_later(end + SERVICE_GRACE_S - now, self._expire, end) for end in ends]

    def _expire(self, end: float) -> None:
        late = {ticket for ticket in self.open if self._ends[ticket] <= end}
        self.fail(late, Status.TIMEOUT, "no answer came by the deadline")
        self.close(late)

    def body(self, ticket: Ticket) -> dict[str, Any]:
        """The request; when it is retried, with the rest of its deadline."""
        body = ticket.body
        if ticket not in self._sent:
            self._sent.add(ticket)
            return body
        return with_time_left(body, self._ends[ticket] - time.monotonic())

    def answered(self, tickets: Sequence[Ticket], results: Sequence[Result]) -> None:
        """Store the results; those that are not retried are final."""
        final, self.retry_after_s = [], 0.0
        for ticket, result in zip(tickets, results, strict=True):
            if ticket not in self.open:  # expired
                continue
            self._latest[ticket] = result
            if not is_answer(result):
                self.last_reason = result.reason or ""
            if result.status in _RETRIED:
                self.retry_after_s = max(self.retry_after_s, retry_after_s(result.details))
            else:
                final.append(ticket)
        self.close(final)

    def refused(self, tickets: Sequence[Ticket], error: ServiceUnavailableError) -> None:
        """Record a failed attempt."""
        status = Status.ERROR if error.retryable else Status.INVALID
        self.fail(self.open.intersection(tickets), status, str(error))
        self.retry_after_s = error.retry_after_s or 0.0
        if not error.retryable:
            self.close(tickets)

    def close_due(self, then: float) -> None:
        """Make the results final of the requests whose deadlines are before ``then``."""
        self.close([ticket for ticket in self.open if self._ends[ticket] < then])

    def fail(self, tickets: Iterable[Ticket], status: Status, reason: str) -> None:
        """Store a failure of these requests."""
        self.last_reason = reason
        for ticket in tickets:
            self._latest[ticket] = self._failed(ticket.body, status, reason)

    def close(self, tickets: Iterable[Ticket]) -> None:
        """Make the results of these requests final."""
        final = self.open.intersection(tickets)
        self.open -= final
        if final:
            self._deliver([(each, self._result(each)) for each in self.tickets if each in final])

    def _result(self, ticket: Ticket) -> Result:
        if ticket not in self._latest:
            late = "the deadline passed before it was sent"
            self._latest[ticket] = self._failed(ticket.body, Status.TIMEOUT, late)
        if not ticket.has_own_id:
            self._latest[ticket].id = None
        return self._latest[ticket]


def _failed(body: dict[str, Any], status: Status, reason: str) -> ScoreResult:
    return failure(status, reason, **echoes(body))


def _failed_group(body: dict[str, Any], status: Status, reason: str) -> GroupResult:
    return group_failure(failure(status, reason), size_of_group(body), **echoes(body))


def _backoff_s(attempt: int) -> float:
    """A random pause after this attempt, of at most 0.2 s, 0.4 s, 0.8 s and so on to 8 s."""
    return random.uniform(0.0, min(8.0, 0.1 * 2.0 ** min(attempt, 10)))
