"""A model of a service with a circuit breaker, which probes until it answers again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from reward_serve.client.transport import (
    NotConnectedError,
    ServiceTransport,
    ServiceUnavailableError,
)
from reward_serve.groups.schema import GroupResult
from reward_serve.routing.calls import is_answer
from reward_serve.schema import ScoreResult, Status, longest_timeout_s

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
