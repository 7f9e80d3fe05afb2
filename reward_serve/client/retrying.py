"""Collects requests into batches, and sends each batch until every request has a final result.

A request is a ``Ticket``. The ``Coalescer`` puts tickets into batches, and a ``Batch`` asks its
model's ``Endpoint`` while the circuit of that is closed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from reward_serve.client.transport import (
    MALFORMED,
    SERVICE_GRACE_S,
    TOO_LARGE,
    NotConnectedError,
    ServiceTransport,
    ServiceUnavailableError,
    with_id,
)
from reward_serve.routing.deployment_client import is_answer, size_of
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

logger = logging.getLogger(__name__)

MAX_BYTES = 8 * 2**20
"""Maximum bytes of a batch of several requests; the service's default limit is 16 MiB per body."""
WINDOW_S = 0.002
"""How long a request waits to be batched while another batch is in progress."""
PROBE_EVERY_S = 2.0
_SUSPICION_S = 2.0
"""How long a first probe may take before the circuit opens."""
_RETRIED = frozenset([Status.OVERLOADED, Status.ERROR])

Result = TypeVar("Result", bound=ScoreResult | GroupResult)
Outcome = ScoreResult | BaseException


class Ticket:
    """A submitted request.

    Args:
        body: the request.
        loop: the event loop that awaits ``answer``; None if a thread waits for it.

    Attributes:
        body: the request with an id.
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


Send = Callable[[Sequence[dict[str, Any]]], Awaitable[list[Result]]]
Deliver = Callable[[Sequence[tuple[Ticket, Result]]], None]


class Coalescer:
    """Collects requests into batches on one event loop.

    Requests are sent when they are many (in number or bytes), when no other batch is in progress,
    or when the first of them has waited for ``WINDOW_S``. Those of each model are a batch.

    Args:
        ask: sends a batch and delivers each ticket's outcome.
        loop: an event loop in another thread than the callers'.
        max_batch: maximum requests per batch.
    """

    def __init__(
        self,
        ask: Callable[[list[Ticket]], Coroutine[Any, Any, None]],
        loop: asyncio.AbstractEventLoop,
        max_batch: int,
    ) -> None:
        self._ask = ask
        self._loop = loop
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
            self._timer = self._loop.call_later(WINDOW_S, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        by_model: dict[str, list[Ticket]] = {}
        for ticket in self._waiting:
            if not ticket.gone:
                by_model.setdefault(repr(ticket.body.get("model")), []).append(ticket)
        self._waiting, self._bytes = [], 0
        for batch in by_model.values():
            task = self._loop.create_task(self._ask(batch))
            self._in_progress[task] = batch
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        batch = self._in_progress.pop(task)
        # A bug, or NotConnectedError; the callers must not wait forever.
        fault = RuntimeError("the call was cancelled") if task.cancelled() else task.exception()
        if fault is not None:
            hand_out((ticket, fault) for ticket in batch)
        if self._waiting and not self._in_progress:
            self._send()

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


class Endpoint:
    """A transport with a circuit breaker for one of its models. For one event loop.

    When a call ends without an answer, the endpoint probes the service with a request that was
    answered before, or with the latest unanswered one. The circuit opens if the probe fails or
    takes long. While it is open, a probe is sent every ``PROBE_EVERY_S`` seconds; the first answer
    closes it. Any result of a replica is an answer, a ``timeout`` too.

    Args:
        transport: the transport to the service.
        model: the model's name; None for the service's first.

    Attributes:
        up: whether the circuit is closed, so that requests are sent.
        on_outage: called when the circuit opens.
        unanswered: the latest request without an answer, for probes.
    """

    def __init__(self, transport: ServiceTransport, model: str | None = None) -> None:
        self.name = f"{transport.name}, model {model!r}" if model else transport.name
        self.transport = transport
        self.up = True
        self.on_outage: set[Callable[[], None]] = set()
        self.unanswered: dict[str, Any] = {}
        self._of_models: dict[str, Endpoint] = {}
        self._asked = False
        self._good: dict[str, Any] | None = None  # a request that was answered
        self._answered_at = float("-inf")
        self._lost_at = 0.0
        self._reason = ""
        self._probing: asyncio.Task[None] | None = None

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

    async def ask(self, bodies: Sequence[dict[str, Any]], send: Send[Result]) -> list[Result]:
        """The results that ``send`` returns; records whether the service answered.

        Raises:
            ServiceUnavailableError: the call failed as a whole; wraps every exception.
        """
        first, self._asked = not self._asked, True
        try:
            results = await send(bodies)
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
        pairs = zip(bodies, results, strict=True)
        self._good = next((body for body, r in pairs if r.status is Status.OK), self._good)
        return results

    def lost(self, body: dict[str, Any], since: float, reason: str) -> None:
        """Probe after a call without an answer, unless another was answered recently.

        Args:
            body: a request of the call.
            since: when the call began, on the monotonic clock; an answer is recent if it came in
                the second half of the time since then.
            reason: the call's last failure.
        """
        self.unanswered = body
        if self.in_doubt or self._answered_at > (since + time.monotonic()) / 2:
            return
        self._lost_at, self._reason = since, reason or "timed out"
        probe = self._probe(longest_timeout_s([body]))
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
        request = {**(self._good or self.unanswered), "timeout_s": timeout_s}
        try:
            if "responses" in request:  # any service refuses a group that is sent as a request
                return is_answer(await self.transport.ascore_group(request))
            # Alone, a member of a cohort would wait for the others until it is a timeout.
            (result,) = await self.transport.ascore_batch([{**request, "group_size": None}])
            return is_answer(result)
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


class Batch(Generic[Result]):
    """Requests of one model, sent until each result is final.

    A request is retried after a transport fault, ``overloaded`` or ``error``, until its deadline or
    ``max_attempts``, unless its caller has left. All other results are final. Retries keep the
    request's id, by which the service recognises a member of a group. The pause between attempts is
    exponential with jitter, or longer if the service asks for it. A batch that is too large is
    split, as is one that the service cannot read, since one caller's request may be at fault.

    Args:
        endpoint: the model's.
        tickets: the requests.
        deliver: called with final results, while other requests are retried.
        send: the transport's method.
        failed: makes the result of a request that failed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        tickets: Sequence[Ticket],
        deliver: Deliver[Result],
        send: Send[Result],
        failed: Callable[[dict[str, Any], Status, str], Result],
    ) -> None:
        now = time.monotonic()
        self._endpoint = endpoint
        self._tickets = tickets
        self._deliver = deliver
        self._send = send
        self._failed = failed
        self._open = set(tickets)  # those without a final result
        self._latest: dict[Ticket, Result] = {}
        self._ends = {ticket: now + longest_timeout_s([ticket.body]) for ticket in tickets}
        self._sent: set[Ticket] = set()
        self._retry_after_s = 0.0
        self._last_reason = ""

    async def run(self, max_attempts: int | None, on_retry: Callable[[int], None]) -> None:
        """Deliver a result for each request; one that was never answered is ``error``.

        Args:
            max_attempts: maximum attempts per request; None to retry until its deadline.
            on_retry: called with the number of requests that are retried.

        Raises:
            NotConnectedError: this process cannot reach the service.
        """
        attempt, unanswered_since = 0, None
        with self._bounded():
            while self._open:
                attempt += 1
                if attempt > 1:
                    on_retry(len(self._open))
                began = time.monotonic()
                if await self._is_answered(self._tickets):
                    unanswered_since = None
                else:
                    unanswered_since = unanswered_since or began
                if not self._open or attempt == max_attempts:
                    break
                pause_s = max(_backoff_s(attempt), self._retry_after_s)
                self._close_due(time.monotonic() + pause_s)
                if self._open:
                    await asyncio.sleep(pause_s)
                self._open -= {ticket for ticket in self._open if ticket.gone}
        if unanswered_since is not None:
            self._endpoint.lost(self._tickets[-1].body, unanswered_since, self._last_reason)
        self._close(self._open)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """During the block, end each request at its own deadline, and all during an outage."""
        if not self._endpoint.up:
            self._give_up()
        timers = self._expire_later()
        self._endpoint.on_outage.add(self._give_up)
        try:
            yield
        finally:
            self._endpoint.on_outage.discard(self._give_up)
            for timer in timers:
                timer.cancel()

    def _give_up(self) -> None:
        # The request that the endpoint probes with may itself be at fault.
        self._endpoint.unanswered = self._tickets[-1].body
        self._fail(self._open, Status.ERROR, self._endpoint.outage)
        self._close(self._open)

    def _expire_later(self) -> list[asyncio.TimerHandle]:
        """Set timers that end each request at its deadline plus the grace, if deadlines differ.

        Without them a request would wait for the longest deadline of its attempt.
        """
        ends = set(self._ends.values())
        if len(ends) < 2:
            return []
        loop, now = asyncio.get_running_loop(), time.monotonic()
        return [loop.call_later(end + SERVICE_GRACE_S - now, self._expire, end) for end in ends]

    def _expire(self, end: float) -> None:
        late = {ticket for ticket in self._open if self._ends[ticket] <= end}
        self._fail(late, Status.TIMEOUT, "no answer came by the deadline")
        self._close(late)

    async def _is_answered(self, tickets: Sequence[Ticket]) -> bool:
        """Ask once for those that are open; whether the service answered any."""
        tickets = [ticket for ticket in tickets if ticket in self._open]
        if not tickets:
            return True
        try:
            results = await self._endpoint.ask(list(map(self._body, tickets)), self._send)
        except NotConnectedError:
            raise
        except ServiceUnavailableError as error:
            half = len(tickets) // 2
            if error.status_code in (TOO_LARGE, MALFORMED) and half:
                self._close_due(time.monotonic())
                parts = (tickets[:half], tickets[half:])
                await asyncio.gather(*map(self._is_answered, parts))
                return True
            self._refused(tickets, error)
            return error.answered or not error.retryable
        self._record(tickets, results)
        return any(map(is_answer, results))

    def _body(self, ticket: Ticket) -> dict[str, Any]:
        """The request; when it is retried, with the rest of its deadline."""
        body = ticket.body
        if ticket not in self._sent:
            self._sent.add(ticket)
            return body
        if longest_timeout_s([body]) != body.get("timeout_s"):  # invalid: for the service to refuse
            return body
        return {**body, "timeout_s": max(self._ends[ticket] - time.monotonic(), 0.001)}

    def _record(self, tickets: Sequence[Ticket], results: Sequence[Result]) -> None:
        """Store the results; those that are not retried are final."""
        final, self._retry_after_s = [], 0.0
        for ticket, result in zip(tickets, results, strict=True):
            if ticket not in self._open:  # expired
                continue
            self._latest[ticket] = result
            if not is_answer(result):
                self._last_reason = result.reason or ""
            if result.status in _RETRIED:
                self._retry_after_s = max(self._retry_after_s, retry_after_s(result.details))
            else:
                final.append(ticket)
        self._close(final)

    def _refused(self, tickets: Sequence[Ticket], error: ServiceUnavailableError) -> None:
        """Record a failed attempt."""
        status = Status.ERROR if error.retryable else Status.INVALID
        self._fail(self._open.intersection(tickets), status, str(error))
        self._retry_after_s = error.retry_after_s or 0.0
        if not error.retryable:
            self._close(tickets)

    def _fail(self, tickets: Iterable[Ticket], status: Status, reason: str) -> None:
        self._last_reason = reason
        for ticket in tickets:
            self._latest[ticket] = self._failed(ticket.body, status, reason)

    def _close_due(self, then: float) -> None:
        """Make the results final of the requests whose deadlines are before ``then``."""
        self._close([ticket for ticket in self._open if self._ends[ticket] < then])

    def _close(self, tickets: Iterable[Ticket]) -> None:
        """Make the results of these requests final."""
        final = self._open.intersection(tickets)
        self._open -= final
        if final:
            self._deliver([(each, self._result(each)) for each in self._tickets if each in final])

    def _result(self, ticket: Ticket) -> Result:
        if ticket not in self._latest:
            late = "the deadline passed before it was sent"
            self._latest[ticket] = self._failed(ticket.body, Status.TIMEOUT, late)
        if not ticket.has_own_id:
            self._latest[ticket].id = None
        return self._latest[ticket]


def failed_score(body: dict[str, Any], status: Status, reason: str) -> ScoreResult:
    """The result of a request that failed."""
    return failure(status, reason, **echoes(body))


def failed_group(body: dict[str, Any], status: Status, reason: str) -> GroupResult:
    """The result of a group that failed."""
    return group_failure(failure(status, reason), size_of_group(body), **echoes(body))


def _backoff_s(attempt: int) -> float:
    """A random pause after this attempt, of at most 0.2 s, 0.4 s, 0.8 s and so on to 8 s."""
    return random.uniform(0.0, min(8.0, 0.1 * 2.0 ** min(attempt, 10)))
