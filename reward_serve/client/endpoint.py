"""One service that is asked, and whether it answers: a circuit breaker that closes by itself."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from pybreaker import STATE_CLOSED, CircuitBreaker, CircuitBreakerError

from reward_serve.client.transport import Request, ServiceUnavailableError, Transport
from reward_serve.schema import ScoreResult, Status, longest_timeout_s

logger = logging.getLogger(__name__)

PROBE_EVERY_S = 2.0
_SUSPICION_S = 2.0
"""How long a first probe may take before the circuit opens."""
_UNANSWERED = frozenset([Status.ERROR, Status.TIMEOUT])


class Endpoint:
    """A transport with a circuit breaker. For one event loop.

    When a call has ended without an answer, a request that was answered before is sent. The circuit
    opens where that has no answer either, or none at once. While it is open, such a probe is sent
    every ``PROBE_EVERY_S`` seconds; the first answer closes it. An answer is any status but
    ``error`` and ``timeout``.

    Args:
        transport: the way to the service.
        name: of the service, for the log.
    """

    def __init__(self, transport: Transport, name: str = "the reward service") -> None:
        self.name = name
        self._transport = transport
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self.on_outage: set[Callable[[], None]] = set()
        """Called when an outage is certain."""
        self._breaker = CircuitBreaker(
            fail_max=1, reset_timeout=0, exclude=[asyncio.CancelledError], name=self.name
        )
        self._answered_at = float("-inf")
        self._answered: Any = None
        self._announced = False
        self._lost_at = 0.0
        self._reason = ""
        self._probing: asyncio.Task[None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._transport, self.name)

    def in_this_process(self) -> Self:
        """The endpoint, as new after a fork: its tasks and locks are the parent's."""
        if self._pid != os.getpid():
            self._start()
        return self

    @property
    def up(self) -> bool:
        """Whether requests are to be sent."""
        return bool(self._breaker.current_state == STATE_CLOSED)

    @property
    def in_doubt(self) -> bool:
        """Whether a call had no answer, and no probe has had one since."""
        return self._probing is not None and not self._probing.done()

    @property
    def outage(self) -> str:
        """Why not."""
        seconds = time.monotonic() - self._lost_at
        return f"{self.name}: no answer for {seconds:.0f} s, and not asked: {self._reason}"

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """The transport's, which see; what it says of the service's health is remembered."""
        try:
            results = await self._transport.ascore_batch(requests)
        except ServiceUnavailableError as error:
            if error.answered:
                self._answered_at = time.monotonic()
            raise
        except Exception as error:
            unexpected = f"{self.name}: {type(error).__name__}: {error}"
            raise ServiceUnavailableError(unexpected) from error
        if any(map(is_answer, results)):
            self._answered_at = time.monotonic()
        for request, result in zip(requests, results, strict=True):
            if result.status is Status.OK:
                self._answered = request
                break
        return results

    def lost(self, bodies: Sequence[dict[str, Any]], since: float, reason: str) -> None:
        """A call had no answer: probe, unless another had one in the later half of its time.

        Args:
            bodies: the requests of the call.
            since: when it began, by the monotonic clock.
            reason: its last failure.
        """
        if self.in_doubt or self._answered_at > (since + time.monotonic()) / 2:
            return
        self._lost_at, self._reason, self._announced = since, reason or "timed out", False
        probe = self._probe(bodies[-1], longest_timeout_s(bodies))
        self._probing = asyncio.create_task(probe, name=f"probe of {self.name}")

    async def _probe(self, body: dict[str, Any], timeout_s: float) -> None:
        silence = asyncio.get_running_loop().call_later(_SUSPICION_S, self._open)
        while not await self._answers({**(self._answered or body), "timeout_s": timeout_s}):
            silence.cancel()
            self._open()
            await asyncio.sleep(PROBE_EVERY_S)
        silence.cancel()
        self._answered_at = time.monotonic()
        self._breaker.close()
        if self._announced:
            seconds = self._answered_at - self._lost_at
            logger.warning("%s answers again, after %.0f s", self.name, seconds)
        else:
            logger.warning("%s answers, but a call had no answer: %s", self.name, self._reason)

    async def _answers(self, body: dict[str, Any]) -> bool:
        with suppress(CircuitBreakerError), self._breaker.calling():
            try:
                results = await self._transport.ascore_batch([body])
            except ServiceUnavailableError as error:
                if not error.answered:
                    raise
            else:
                if not any(map(is_answer, results)):
                    raise ServiceUnavailableError("no replica answers")
            return True
        return False

    def _open(self) -> None:
        if self._announced:
            return
        self._announced = True
        self._breaker.open()
        logger.warning(
            "%s does not answer (%s): requests fail at once, without waiting for their deadlines, "
            "until it does; it is asked every %g s",
            self.name, self._reason, PROBE_EVERY_S,
        )  # fmt: skip
        for call in list(self.on_outage):
            call()


def is_answer(result: ScoreResult) -> bool:
    """Whether a service that answers so is at work."""
    return result.status not in _UNANSWERED
