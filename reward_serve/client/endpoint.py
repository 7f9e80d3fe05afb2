"""One service that is asked, and whether it answers: a circuit breaker that closes by itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pybreaker import STATE_CLOSED, CircuitBreaker, CircuitBreakerError

from reward_serve.client.transport import Request, ServiceUnavailableError, Transport
from reward_serve.schema import ScoreResult, Status, longest_timeout_s

logger = logging.getLogger(__name__)

PROBE_EVERY_S = 2.0
_SUSPICION_S = 2.0
"""How long a first probe may take before the outage is announced."""
_UNANSWERED = frozenset([Status.ERROR, Status.TIMEOUT])


class Endpoint:
    """A transport with a circuit breaker. For one event loop.

    The circuit opens when a call has ended without an answer. While it is open, a request that was
    answered before is sent every ``PROBE_EVERY_S`` seconds; the first answer closes it. An answer
    is any status but ``error`` and ``timeout``.

    Args:
        transport: the way to the service.
        name: of the service, for the log.
    """

    def __init__(self, transport: Transport, name: str = "the reward service") -> None:
        self.name = name
        self.on_outage: set[Callable[[], None]] = set()
        """Called when an outage is certain."""
        self._transport = transport
        self._breaker = CircuitBreaker(
            fail_max=1, reset_timeout=0, exclude=[asyncio.CancelledError], name=name
        )
        self._answered_at = float("-inf")
        self._answered: Any = None
        self._announced = False
        self._lost_at = 0.0
        self._reason = ""
        self._probing: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        """Whether requests are to be sent."""
        return bool(self._breaker.current_state == STATE_CLOSED)

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
            if not error.retryable:  # a refusal is an answer
                self._answered_at = time.monotonic()
            raise
        if any(map(is_answer, results)):
            self._answered_at = time.monotonic()
        for request, result in zip(requests, results, strict=True):
            if result.status is Status.OK:
                self._answered = request
                break
        return results

    def lost(self, bodies: Sequence[dict[str, Any]], since: float, reason: str) -> None:
        """Open the circuit: a call had no answer.

        It stays closed where another call was answered in the later half of that time: a request
        that never comes to an answer does not condemn a service which answers others.

        Args:
            bodies: the requests of the call.
            since: when it began, by the monotonic clock.
            reason: its last failure.
        """
        now = time.monotonic()
        if not self.up or self._answered_at > (since + now) / 2:
            return
        self._lost_at, self._reason, self._announced = since, reason, False
        self._breaker.open()
        probing = self._probe(bodies[-1], longest_timeout_s(bodies))
        self._probing = asyncio.create_task(probing, name=f"probe of {self.name}")

    async def _probe(self, body: dict[str, Any], timeout_s: float) -> None:
        suspicion = asyncio.get_running_loop().call_later(_SUSPICION_S, self._announce)
        while not self.up:
            await self._probe_once({**(self._answered or body), "timeout_s": timeout_s})
            suspicion.cancel()
            if not self.up:
                self._announce()
                await asyncio.sleep(PROBE_EVERY_S)
        self._answered_at = time.monotonic()
        if self._announced:
            seconds = self._answered_at - self._lost_at
            logger.warning("%s answers again, after %.0f s", self.name, seconds)

    async def _probe_once(self, body: dict[str, Any]) -> None:
        """Ask, which closes the circuit or opens it anew."""
        with suppress(CircuitBreakerError), self._breaker.calling():
            try:
                (result,) = await self._transport.ascore_batch([body])
            except ServiceUnavailableError as error:
                if error.retryable:
                    raise
            else:
                if not is_answer(result):
                    raise ServiceUnavailableError(result.reason or result.status.value)

    def _announce(self) -> None:
        if self.up or self._announced:
            return
        self._announced = True
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
