"""Collects requests into batches, and sends each batch until every request has a final result.

A request is a ``Ticket``. The ``Coalescer`` puts tickets into batches, and a ``Batch`` asks its
model's ``Endpoint`` while the circuit of that is closed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import time
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from reward_serve.client.outcomes import error_of
from reward_serve.client.transport import (
    MALFORMED,
    SERVICE_GRACE_S,
    TOO_LARGE,
    NotConnectedError,
    ServiceTransport,
    ServiceUnavailableError,
    with_id,
)
from reward_serve.logprobs import LogprobsResult
from reward_serve.routing.dispatch import Deliver, is_answer
from reward_serve.schema import (
    DOWN_S,
    PAUSE_S,
    REFUSED,
    GroupResult,
    ScoreResult,
    Status,
    echoes,
    failure,
    group_failure,
    longest_timeout_s,
    seconds_in,
)

logger = logging.getLogger(__name__)

MAX_BYTES = 8 * 2**20
"""Maximum bytes of a batch of several requests; the service's default limit is 16 MiB per body."""
WINDOW_S = 0.002
"""How long a request waits to be batched while other batches are in progress."""
_LONGEST_WINDOW_S = 0.02
PROBE_EVERY_S = 2.0
_PROBE_S = 10.0  # a probe's deadline; after one that is lost, the next comes soon
_SUSPICION_S = 2.0
"""How long a first probe may take before the circuit opens."""
_NOT_JSON = (TypeError, ValueError, RecursionError)
_OF_A_REQUEST = frozenset([TOO_LARGE, MALFORMED])  # not of all that are sent

Result = ScoreResult | GroupResult | LogprobsResult
Outcome = Result | BaseException
Settle = Callable[[Mapping[str, Any], Any], Any]
"""What a caller gets for a request and its final result."""


class Ticket:
    """A submitted request.

    Args:
        body: the request.
        loop: the event loop that awaits ``answer``; None if a thread waits for it.

    Attributes:
        body: the request with an id.
        key: tickets of one key are sent together.
        count: the scores that it asks for.
        answer: the future of its outcome.
        size: its bytes as JSON.
        timeout_s: its deadline, in seconds from when its batch began.
        ends: its deadline, on the monotonic clock.
        result: the latest result; ``invalid`` from the start if JSON cannot carry the request. By
            handle, what cannot be pickled here or loaded there would fail its whole batch.
        gone: whether the caller no longer waits.
    """

    count = 1

    def __init__(self, body: dict[str, Any], loop: AbstractEventLoop | None = None) -> None:
        self.body = with_id(body)
        self.own_id = body.get("id")
        self.key: object = repr(body.get("model"))
        self.loop = loop
        self.answer: Any = loop.create_future() if loop else Future()
        self.timeout_s = longest_timeout_s([body])
        self.ends = math.inf
        self.result: Any = None
        self.was_sent = self.gone = False
        try:
            content = json.dumps(self.body)
            # A copy that its caller cannot change, of plain values that any process can load.
            self.size, self.body = len(content), json.loads(content)
        except _NOT_JSON as error:
            field = next((name for name in body if not _is_json(body[name])), "request")
            why = f"cannot be written as JSON: {error}; send plain Python values"
            self.fail(Status.INVALID, f"{field}: {why}")

    def to_send(self) -> dict[str, Any]:
        """The request; when it is retried, with the rest of its deadline."""
        if not self.was_sent or self.timeout_s != self.body.get("timeout_s"):
            self.was_sent = True  # an invalid deadline is for the service to refuse
            return self.body
        return {**self.body, "timeout_s": max(self.ends - time.monotonic(), 0.001)}

    def fail(self, status: Status, reason: str, **details: Any) -> None:
        """Set the result to a failure."""
        self.result = failure(status, reason, details=details or None, **echoes(self.body))

    def settled(self, settle: Settle) -> Outcome:
        """What the caller gets of the result."""
        outcome: Outcome = settle(self.body, self.result)
        return outcome

    @staticmethod
    async def send(transport: ServiceTransport, bodies: Sequence[Any], deliver: Deliver) -> None:
        """Ask once, for tickets of one key; raises as ``ServiceTransport.ascore_each``."""
        await transport.ascore_each(bodies, deliver)


class GroupTicket(Ticket):
    """A submitted ``GroupRequest``, which is sent alone."""

    def __init__(self, body: dict[str, Any], loop: AbstractEventLoop | None = None) -> None:
        responses = body.get("responses")
        self.count = len(responses) if isinstance(responses, list | tuple) else 0
        super().__init__(body, loop)
        self.key = self

    def fail(self, status: Status, reason: str, **details: Any) -> None:
        """Set the result, and that of each response, to a failure."""
        super().fail(status, reason, **details)
        self.result = group_failure(self.result, self.count, **echoes(self.body))

    def settled(self, settle: Settle) -> Outcome:
        """What the caller gets: a response without a score is settled as a request is."""
        results = self.result.results
        if len(results) != self.count:  # invalid, or more responses than a group may have
            results = [failure(self.result.status, self.result.reason or "")] * self.count
        outcomes = [settle({"group_size": self.count}, result) for result in results]
        return error_of(outcomes) or self.result.model_copy(update={"results": outcomes})

    @staticmethod
    async def send(transport: ServiceTransport, bodies: Sequence[Any], deliver: Deliver) -> None:
        """Ask once for the only ticket."""
        deliver([(0, await transport.ascore_group(bodies[0]))])


class LogprobsTicket(Ticket):
    """A submitted ``LogprobsRequest``, which is sent alone; its ids may be an array."""

    def __init__(self, body: dict[str, Any], loop: AbstractEventLoop | None = None) -> None:
        ids = {k: v.tolist() for k, v in body.items() if hasattr(v, "tolist")}
        super().__init__({**body, **ids}, loop)
        self.key = self

    def fail(self, status: Status, reason: str, **details: Any) -> None:
        """Set the result to a failure."""
        fields = {"details": details or None, **echoes(self.body)}
        self.result = LogprobsResult(status=status, reason=reason, **fields)

    @staticmethod
    async def send(transport: ServiceTransport, bodies: Sequence[Any], deliver: Deliver) -> None:
        """Ask once for the only ticket."""
        deliver([(0, await transport.alogprobs(bodies[0]))])


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except _NOT_JSON:
        return False
    return True


@dataclass(eq=False)
class Coalescer:
    """Collects requests into batches on one event loop.

    Requests are sent when they are many (in number or bytes), when no other batch is in progress,
    or when the first of them has waited for ``WINDOW_S``, or longer if many batches are in
    progress. Those of each model are a batch, and so is each group.

    Args:
        ask: sends a batch and delivers each ticket's outcome.
        loop: an event loop in another thread than the callers'.
        max_batch: maximum requests per batch.
        window_s_per_batch: seconds of the wait for each batch in progress, beyond ``WINDOW_S``.
    """

    ask: Callable[[list[Ticket]], Coroutine[Any, Any, None]]
    loop: AbstractEventLoop
    max_batch: int
    window_s_per_batch: float

    def __post_init__(self) -> None:
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
                self.loop.call_soon_threadsafe(self._take)
            except BaseException:  # such as KeyboardInterrupt; the next caller tries again
                self._is_woken = False
                raise

    def withdraw(self, tickets: Sequence[Ticket]) -> None:
        """Withdraw tickets whose callers have left; cancels batches for which nobody waits."""
        self.loop.call_soon_threadsafe(self._abandon, tickets)

    def _take(self) -> None:
        self._is_woken = False  # before emptying the queue, so that later requests wake the loop
        while self._incoming:
            ticket = self._incoming.popleft()
            if self._bytes + ticket.size > MAX_BYTES and self._waiting:
                self._send()
            self._waiting.append(ticket)
            self._bytes += ticket.size
            if len(self._waiting) >= self.max_batch:
                self._send()
        if self._waiting and not self._in_progress:
            self._send()
        elif self._waiting and self._timer is None:
            # More in progress means that each takes longer, and so that a longer wait costs little.
            window_s = min(self.window_s_per_batch * len(self._in_progress), _LONGEST_WINDOW_S)
            self._timer = self.loop.call_later(max(window_s, WINDOW_S), self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batches: dict[Any, list[Ticket]] = {}
        for ticket in self._waiting:
            if not ticket.gone:
                batches.setdefault(ticket.key, []).append(ticket)
        self._waiting, self._bytes = [], 0
        for batch in batches.values():
            task = self.loop.create_task(self.ask(batch))
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
            is_abandoned = all(ticket.gone or ticket.answer.done() for ticket in batch)
            if is_abandoned and not gone.isdisjoint(batch):
                task.cancel()


def hand_out(outcomes: Iterable[tuple[Ticket, Outcome]]) -> None:
    """Deliver the tickets' outcomes, with one call into each event loop."""
    by_loop: dict[AbstractEventLoop | None, list[tuple[Any, Outcome]]] = {}
    for ticket, outcome in outcomes:
        by_loop.setdefault(ticket.loop, []).append((ticket.answer, outcome))
    for loop, answers in by_loop.items():
        if loop is None:
            _resolve(answers)
            continue
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(_resolve, answers)


def _resolve(answers: Iterable[tuple[Any, Outcome]]) -> None:
    for answer, outcome in answers:
        if not answer.done():
            is_fault = isinstance(outcome, BaseException)
            (answer.set_exception if is_fault else answer.set_result)(outcome)


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
        batches: those in progress, which end when the circuit opens.
        unanswered: the latest request without an answer, for probes.
        good: a recent request that was answered with a score.
    """

    def __init__(self, transport: ServiceTransport, model: str | None = None) -> None:
        self.name = f"{transport.name}, model {model!r}" if model else transport.name
        self.transport = transport
        self.up = True
        self.batches: set[Batch] = set()
        self.unanswered: Ticket | None = None
        self.good: Ticket | None = None
        self._of_models: dict[str, Endpoint] = {}
        self._asked = False
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
    def outage(self) -> str:
        """Why the circuit is open."""
        seconds = time.monotonic() - self._lost_at
        return f"{self.name}: no answer for {seconds:.0f} s, so nothing is sent: {self._reason}"

    async def ask(
        self, tickets: Sequence[Ticket], receive: Callable[[Sequence[Ticket]], object]
    ) -> None:
        """Score a group or requests; ``receive`` is called with tickets as they get results.

        Raises:
            ServiceUnavailableError: the call failed as a whole; wraps every exception.
        """
        first, self._asked = not self._asked, True
        bodies = [ticket.to_send() for ticket in tickets]

        def note(results: Sequence[tuple[int, Result]]) -> None:
            for index, result in results:
                tickets[index].result = result
                if is_answer(result):
                    self._answered_at = time.monotonic()
                if result.status is Status.OK:
                    self.good = tickets[index]
            receive([tickets[index] for index, _ in results])

        try:
            await tickets[0].send(self.transport, bodies, note)
        except ServiceUnavailableError as error:
            if first and not (error.answered or isinstance(error, NotConnectedError)):
                logger.warning("asking again until each request's deadline: %s", error)
            raise
        except Exception as error:
            unexpected = f"{self.name}: {type(error).__name__}: {error}"
            raise ServiceUnavailableError(unexpected) from error

    def suspect(self, ticket: Ticket, since: float, reason: str) -> None:
        """Probe after a call without an answer, unless another was answered recently.

        Args:
            ticket: a request of the call.
            since: when the call began, on the monotonic clock; an answer is recent if it came in
                the second half of the time since then.
            reason: the call's last failure.
        """
        self.unanswered = ticket
        is_probing = self._probing is not None and not self._probing.done()
        if is_probing or self._answered_at > (since + time.monotonic()) / 2:
            return
        self._lost_at, self._reason = since, reason or "timed out"
        probe = self._probe(min(ticket.timeout_s, _PROBE_S))
        self._probing = asyncio.create_task(probe, name=f"probe of {self.name}")

    async def _probe(self, timeout_s: float) -> None:
        silence = asyncio.get_running_loop().call_later(_SUSPICION_S, self._open)
        while not await self._ask_probe(timeout_s):
            silence.cancel()
            self._open()
            await asyncio.sleep(PROBE_EVERY_S)
        silence.cancel()
        self._answered_at = time.monotonic()
        if self.up:
            logger.warning("%s answers, but a call had no answer: %s", self.name, self._reason)
        else:
            self.up = True
            seconds = self._answered_at - self._lost_at
            logger.warning("%s answers again, after %.0f s", self.name, seconds)

    async def _ask_probe(self, timeout_s: float) -> bool:
        known = self.good or self.unanswered
        assert known is not None
        body = {**known.body, "timeout_s": timeout_s}
        body.pop("group_size", None)  # alone, a member of a cohort would wait for the others
        probe = type(known)(body)
        try:
            await self.ask([probe], lambda tickets: None)
        except ServiceUnavailableError as error:
            return error.answered
        return is_answer(probe.result)

    def _open(self) -> None:
        if self.up:
            self.up = False
            logger.warning(
                "%s does not answer (%s): requests fail immediately instead of waiting for their "
                "deadlines; probing every %g s until it answers",
                self.name, self._reason, PROBE_EVERY_S,
            )  # fmt: skip
            for batch in list(self.batches):
                batch.give_up()


@dataclass(eq=False)
class Batch:
    """Requests of one model, or one group, sent until each result is final.

    Each result is delivered when it is final. A request is retried, while others are in progress,
    after a transport fault, ``overloaded`` or ``error``, until its deadline or ``max_attempts``,
    unless its caller has left, or the model's endpoint has been down for a deadline, or for half of
    one when it was first asked. All other results are final. Retries keep the request's id, by
    which the service recognises a member of a group. The pause between attempts is exponential with
    jitter, or longer if the service asks for it. A batch that is too large is split, as is one that
    the service cannot read, since one caller's request may be at fault.

    Args:
        endpoint: the model's.
        tickets: the requests.
        deliver: called with tickets whose results are final.
        count: called with the number of requests that are retried, as ``retried``.
        max_attempts: maximum attempts per request; None to retry until its deadline.
    """

    endpoint: Endpoint
    tickets: Sequence[Ticket]
    deliver: Callable[[Sequence[Ticket]], None]
    count: Callable[..., None]
    max_attempts: int | None

    def __post_init__(self) -> None:
        self._open = set(self.tickets)  # those without a final result
        now = time.monotonic()
        for ticket in self.tickets:
            ticket.ends = now + ticket.timeout_s
        self._running: asyncio.Task[Any] | None = None
        self._later: set[asyncio.Task[None]] = set()  # retries, and parts of a batch
        self._again: dict[int, tuple[list[Ticket], float]] = {}  # by attempt: which wait, and until
        self._answered_at = -math.inf
        self._unanswered_since: float | None = None
        self._last_reason = ""

    async def run(self) -> None:
        """Deliver a result for each request; one that was never answered is ``error``.

        Raises:
            NotConnectedError: this process cannot reach the service.
        """
        self._running, loop = asyncio.current_task(), asyncio.get_running_loop()
        if not self.endpoint.up:
            self.give_up()
        late_s, ends = SERVICE_GRACE_S - time.monotonic(), {ticket.ends for ticket in self._open}
        timers = [loop.call_later(end + late_s, self._expire, end) for end in ends]
        self.endpoint.batches.add(self)
        try:
            await self._ask(self.tickets, 1)
            while self._later and self._open:
                await self._later.pop()
        finally:
            self.endpoint.batches.discard(self)
            for timer in timers:
                timer.cancel()
            for task in self._later:
                task.cancel()
        if self._unanswered_since is not None:
            self.endpoint.suspect(self.tickets[-1], self._unanswered_since, self._last_reason)
        self._close(self.tickets)

    def give_up(self) -> None:
        """End all requests, as the service does not answer."""
        self.endpoint.unanswered = self.tickets[-1]  # the one before may itself be at fault
        self._fail(self.tickets, Status.ERROR, self.endpoint.outage)
        self._close(self.tickets)

    def _expire(self, end: float) -> None:
        late = [ticket for ticket in self.tickets if ticket.ends <= end]
        self._fail(late, Status.TIMEOUT, "no answer came by the deadline")
        self._close(late)

    async def _ask(self, tickets: Sequence[Ticket], attempt: int, pause_s: float = 0.0) -> None:
        """Ask once for those that are open; a pause is for a retry."""
        if pause_s:
            await asyncio.sleep(pause_s)
            if self._again.get(attempt, ([], 0.0))[0] is tickets:
                del self._again[attempt]
            self._open -= {ticket for ticket in tickets if ticket.gone}
        asked = [ticket for ticket in tickets if ticket in self._open]
        if not asked:
            return
        if pause_s:
            self.count(retried=len(asked))
        left, began = set(asked), time.monotonic()

        def receive(tickets: Sequence[Ticket]) -> None:
            left.difference_update(tickets)
            for ticket in tickets:
                if is_answer(ticket.result):
                    self._answered_at = time.monotonic()
                else:
                    self._last_reason = ticket.result.reason or ""
            self._conclude(tickets, attempt)
            if self._running and self._open and all(ticket.gone for ticket in self._open):
                self._running.cancel()

        try:
            await self.endpoint.ask(asked, receive)
        except NotConnectedError:
            raise
        except ServiceUnavailableError as error:
            half = len(asked) // 2
            if error.status_code in _OF_A_REQUEST and half:
                self._close([ticket for ticket in asked if ticket.ends < time.monotonic()])
                for part in (asked[:half], asked[half:]):
                    self._later.add(asyncio.create_task(self._ask(part, attempt)))
                return
            status = Status.ERROR if error.retryable else Status.INVALID
            of_all = not error.retryable and error.status_code not in _OF_A_REQUEST
            self._fail(left, status, str(error), **(REFUSED if of_all else {}))
            unanswered = [ticket for ticket in asked if ticket in left]
            self._conclude(unanswered, attempt, error.retry_after_s or 0.0)
            if error.answered:
                self._answered_at = time.monotonic()
        is_answered = self._answered_at >= began
        self._unanswered_since = None if is_answered else self._unanswered_since or began

    def _conclude(self, tickets: Sequence[Ticket], attempt: int, pause_s: float = 0.0) -> None:
        """Make results of an attempt final, or ask again after a pause."""
        final, failed = [], []
        for ticket in tickets:
            result = ticket.result
            is_final = not result.status.is_retried or attempt == self.max_attempts
            bound_s = ticket.timeout_s / (2 if attempt == 1 else 1)
            if is_final or seconds_in(result.details, DOWN_S) >= bound_s:
                final.append(ticket)
            else:
                failed.append(ticket)
                pause_s = max(pause_s, seconds_in(result.details, PAUSE_S))
        self._close(final)
        if failed:
            self._ask_again(failed, attempt + 1, pause_s)

    def _ask_again(self, tickets: Sequence[Ticket], attempt: int, least_s: float) -> None:
        """Ask after a pause for those whose deadlines are later, with others of this attempt.

        Results of a stream come one by one, and a call for each would cost as much as a batch.
        """
        now = time.monotonic()
        waiting, then = self._again.get(attempt, ([], 0.0))
        if is_apart := then < now + least_s:
            waiting, then = [], now + max(_backoff_s(attempt - 1), least_s)
        self._close([ticket for ticket in tickets if ticket.ends < then])
        waiting += [ticket for ticket in tickets if ticket in self._open]
        if is_apart and waiting:
            self._again[attempt] = waiting, then
            self._later.add(asyncio.create_task(self._ask(waiting, attempt, then - now)))

    def _fail(self, tickets: Iterable[Ticket], status: Status, reason: str, **details: Any) -> None:
        self._last_reason = reason
        for ticket in self._open.intersection(tickets):
            ticket.fail(status, reason, **details)

    def _close(self, tickets: Iterable[Ticket]) -> None:
        """Make the results of these requests final."""
        final = [ticket for ticket in tickets if ticket in self._open]
        self._open.difference_update(final)
        for ticket in final:
            if ticket.result is None:
                ticket.fail(Status.TIMEOUT, "the deadline passed before it was sent")
            ticket.result.id = ticket.own_id
        if final:
            try:
                self.deliver(final)
            except Exception as fault:  # a bug; the callers must not wait forever
                hand_out((ticket, fault) for ticket in final)


def _backoff_s(attempt: int) -> float:
    """A random pause after this attempt, of at most 0.2 s, 0.4 s, 0.8 s and so on to 8 s."""
    return random.uniform(0.0, min(8.0, 0.1 * 2.0 ** min(attempt, 10)))
