"""Retries requests within their own deadlines, over one or more services."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from reward_serve.client.outcomes import Counters
from reward_serve.client.transport import (
    MALFORMED,
    SERVICE_GRACE_S,
    TOO_LARGE,
    NotConnectedError,
    ServiceTransport,
    ServiceUnavailableError,
    with_id,
    with_time_left,
)
from reward_serve.routing.dispatch import cancelled_by_caller, is_answer, size_of
from reward_serve.schema import (
    GroupResult,
    ScoreResult,
    Status,
    echoes,
    failure,
    group_failure,
    longest_timeout_s,
    retry_after_s,
    size_of_group,
)

Result = TypeVar("Result", bound=ScoreResult | GroupResult)

logger = logging.getLogger(__name__)

PROBE_EVERY_S = 2.0
_MAX_CANDIDATES = 8  # requests that a probe may repeat
_SUSPICION_S = 2.0
"""How long a first probe may take before the circuit opens."""


class Endpoint:
    """A transport with a circuit breaker for one of its models. For one event loop.

    When a call ends without an answer, the endpoint probes the service with a request that was
    answered before, or with the unanswered ones in turn. The circuit opens if the probe fails or
    takes long. While it is open, a probe is sent every ``PROBE_EVERY_S`` seconds; the first answer
    closes it. Any result of a replica is an answer, a ``timeout`` too.

    Args:
        transport: the transport to the service.
        model: the model's name; None for the service's first.

    Attributes:
        up: whether the circuit is closed, so that requests are sent.
        on_outage: called when the circuit opens.
    """

    def __init__(self, transport: ServiceTransport, model: str | None = None) -> None:
        self.name = f"{transport.name}, model {model!r}" if model else transport.name
        self.transport = transport
        self._of_models: dict[str, Endpoint] = {}
        self.up = True
        self.on_outage: set[Callable[[], None]] = set()
        self._answered_at = float("-inf")
        self._asked = False
        self._known_good: Any = None
        self._candidates: deque[dict[str, Any]] = deque()
        self._lost_at = 0.0
        self._reason = ""
        self._probing: asyncio.Task[None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.transport,)

    def of_model(self, name: object) -> Endpoint:
        """The endpoint of the model that a request names."""
        if not isinstance(name, str):
            return self
        if name not in self._of_models:
            self._of_models[name] = Endpoint(self.transport, name)
        return self._of_models[name]

    @property
    def in_doubt(self) -> bool:
        """Whether a call had no answer, and no probe has had one since."""
        return self._probing is not None and not self._probing.done()

    @property
    def outage(self) -> str:
        """Why the circuit is open."""
        seconds = time.monotonic() - self._lost_at
        return f"{self.name}: no answer for {seconds:.0f} s, so nothing is sent: {self._reason}"

    async def ascore_batch(self, bodies: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        """The transport's results; records whether the service answered.

        Raises:
            ServiceUnavailableError: the call failed as a whole; wraps every exception.
        """
        return await self._recorded(bodies, self.transport.ascore_batch(bodies))

    async def ascore_groups(self, bodies: Sequence[dict[str, Any]]) -> list[GroupResult]:
        """The result of each group, one after the other; records and raises as ``ascore_batch``."""

        async def results() -> list[GroupResult]:
            return [await self.transport.ascore_group(body) for body in bodies]

        return await self._recorded(bodies, results())

    async def _recorded(
        self, bodies: Sequence[dict[str, Any]], call: Awaitable[list[Result]]
    ) -> list[Result]:
        first, self._asked = not self._asked, True
        try:
            results = await call
        except ServiceUnavailableError as error:
            if error.answered:
                self._answered_at = time.monotonic()
            elif first and not isinstance(error, NotConnectedError):
                logger.warning("asking again until each request's deadline: %s", error)
            raise
        except Exception as error:
            unexpected = f"{self.name}: {type(error).__name__}: {error}"
            raise ServiceUnavailableError(unexpected) from error
        if any(map(is_answer, results)):
            self._answered_at = time.monotonic()
        for body, result in zip(bodies, results, strict=True):
            if result.status is Status.OK:
                self._known_good = body
                break
        return results

    def offer(self, bodies: Sequence[dict[str, Any]]) -> None:
        """Give the probe more requests to try: those that it has may each be at fault."""
        if self.in_doubt:
            self._candidates.extend(bodies[: _MAX_CANDIDATES - len(self._candidates)])

    def lost(self, bodies: Sequence[dict[str, Any]], since: float, reason: str) -> None:
        """Probe after a call without an answer, unless another was answered recently.

        Args:
            bodies: the requests of the call.
            since: when the call began, on the monotonic clock; an answer is recent if it came in
                the second half of the time since then.
            reason: the call's last failure.
        """
        if self.in_doubt or self._answered_at > (since + time.monotonic()) / 2:
            self.offer(bodies)
            return
        self._lost_at, self._reason = since, reason or "timed out"
        self._candidates = deque(
            [self._known_good] if self._known_good else bodies[-_MAX_CANDIDATES:]
        )
        probe = self._probe(longest_timeout_s(bodies))
        self._probing = asyncio.create_task(probe, name=f"probe of {self.name}")

    async def _probe(self, timeout_s: float) -> None:
        silence = asyncio.get_running_loop().call_later(_SUSPICION_S, self._open)
        while not await self._answers(timeout_s):
            silence.cancel()
            self._open()
            await asyncio.sleep(PROBE_EVERY_S)
        silence.cancel()
        self._answered_at = time.monotonic()
        if self.up:
            logger.warning("%s answers, but a call had no answer: %s", self.name, self._reason)
            return
        self.up = True
        seconds = self._answered_at - self._lost_at
        logger.warning("%s answers again, after %.0f s", self.name, seconds)

    async def _answers(self, timeout_s: float) -> bool:
        request = {**self._candidates[0], "timeout_s": timeout_s}
        results: list[ScoreResult] | list[GroupResult]
        try:
            if "responses" in request:  # any service refuses a group that is sent as a request
                results = [await self.transport.ascore_group(request)]
            else:  # alone, a member of a cohort would wait for the others until it is a timeout
                results = await self.transport.ascore_batch([{**request, "group_size": None}])
            if any(map(is_answer, results)):
                return True
            if len(self._candidates) > 1:
                self._candidates.popleft()
            return False
        except ServiceUnavailableError as error:
            return error.answered
        except Exception:
            return False

    def _open(self) -> None:
        if not self.up:
            return
        self.up = False
        logger.warning(
            "%s does not answer (%s): requests fail immediately instead of waiting for their "
            "deadlines; probing every %g s until it answers",
            self.name, self._reason, PROBE_EVERY_S,
        )  # fmt: skip
        for call in list(self.on_outage):
            call()


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
