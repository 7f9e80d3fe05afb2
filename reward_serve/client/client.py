"""The one client: it batches and retries requests, and handles failures."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from reward_serve.client.outcomes import Counters, OnFailure, check_on_failure, settle
from reward_serve.client.retrying import Coalescer, Endpoint, Outcome, Retrier, Ticket, hand_out
from reward_serve.client.samples import SampleWriter
from reward_serve.client.transport import (
    NotConnectedError,
    Request,
    ServiceTransport,
    as_dict,
    in_thread,
    on_own_loop,
    own_loop,
    refuse_to_block,
    run,
)
from reward_serve.explanation import Explanation
from reward_serve.schema import (
    DEFAULT_TIMEOUT_S,
    GroupRequest,
    GroupResult,
    ScoreResult,
    Status,
    failure,
)

logger = logging.getLogger(__name__)


class Client:
    """Scores through a transport, from any thread and any event loop.

    Not for a process forked afterwards: call ``connect`` there. Pickling keeps the settings only.

    Args:
        transport: the transport to the service, or several to try in this order.
        timeout_s: default deadline of a request, over all attempts, in seconds.
        on_failure: how to handle a request without a score: ``raise`` raises ``ScoringError``,
            ``none`` returns the typed failure, ``rule`` uses the rule verifier in this process,
            ``lexical`` uses the verifier and, if it abstains, the F1 of the words shared with the
            reference, and a number is used as the score. The last three give results with source
            ``fallback``.
        window_s: while a batch is in progress, how long a request waits to be batched; otherwise
            it is sent immediately.
        max_batch: maximum requests per batch.
        max_attempts: maximum attempts per request; None to retry until its deadline.
        model: default reward model of requests; by default the service's first.
        samples: file to which a sample of the results is appended, as JSON lines.
        samples_every: write every n-th result.

    Raises:
        ValueError: a setting is invalid.
    """

    def __init__(
        self,
        transport: ServiceTransport | Endpoint | Sequence[ServiceTransport | Endpoint],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_failure: OnFailure | str = "raise",
        window_s: float = 0.002,
        max_batch: int = 128,
        max_attempts: int | None = None,
        model: str | None = None,
        samples: str | None = None,
        samples_every: int = 50,
    ) -> None:
        self._on_failure = check_on_failure(on_failure)
        for name, number in (("max_batch", max_batch), ("max_attempts", max_attempts)):
            if number is not None and number < 1:  # 0 attempts would be as many as there is time
                raise ValueError(f"{name}: {number} must be at least 1")
        several = transport if isinstance(transport, Sequence) else [transport]
        self._endpoints = [one if isinstance(one, Endpoint) else Endpoint(one) for one in several]
        self._settings: dict[str, Any] = {
            "timeout_s": timeout_s, "on_failure": on_failure, "window_s": window_s,
            "max_batch": max_batch, "max_attempts": max_attempts, "model": model,
            "samples": samples, "samples_every": samples_every,
        }  # fmt: skip
        self._defaults = {"timeout_s": timeout_s, **({"model": model} if model else {})}
        self.counters = Counters()
        self._reported = 0
        self._samples = SampleWriter(samples, samples_every) if samples else None
        self._retrier = Retrier(self._endpoints, self.counters, max_attempts)
        self._coalescer = Coalescer(self._ask, own_loop(), window_s, max_batch)
        self._pid = os.getpid()

    def __getstate__(self) -> Any:
        return self._endpoints, self._settings

    def __setstate__(self, state: Any) -> None:
        endpoints, settings = state
        Client.__init__(self, endpoints, **settings)

    def score(self, request: Request) -> ScoreResult:
        """Score one request. In an event loop, use ``ascore``.

        Raises:
            ScoringError: there is no score and ``on_failure`` is ``raise``.
            NotConnectedError: this process was forked after the client was made; by handle, Ray is
                not installed, there is no cluster, this process was forked from one that is
                connected to it, or the model has several replicas and only ``ray[default]`` is
                installed.
        """
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """Score several requests, in order. In an event loop, use ``ascore_batch``.

        Raises:
            ScoringError: one has no score and ``on_failure`` is ``raise``.
            NotConnectedError: see ``score``.
        """
        refuse_to_block()
        with self._submitted(requests, None) as tickets:
            return [ticket.answer.result() for ticket in tickets]

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        with self._submitted([request], asyncio.get_running_loop()) as (ticket,):
            result: ScoreResult = await ticket.answer  # gather would cost another 5 us
        return result

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        with self._submitted(requests, asyncio.get_running_loop()) as tickets:
            results: list[ScoreResult] = await asyncio.gather(*(t.answer for t in tickets))
        return results

    def score_group(self, request: GroupRequest | Mapping[str, Any]) -> GroupResult:
        """Judge the responses to one prompt against each other.

        In an event loop, use ``ascore_group``.

        Raises:
            ScoringError: a response has no score and ``on_failure`` is ``raise``.
            NotConnectedError: see ``score``.
        """
        return run(self.ascore_group(request))

    async def ascore_group(self, request: GroupRequest | Mapping[str, Any]) -> GroupResult:
        """``score_group``, awaited; ``on_failure`` applies to each response without a score.

        ``rule`` and ``lexical`` return the typed failure: their scores are not comparable with
        those of a group.
        """
        if isinstance(request, GroupRequest):
            request = request.model_dump(mode="json", exclude_unset=True)
        body = {**self._defaults, **request}
        self._in_this_process()
        if isinstance(body.get("responses"), tuple):
            body["responses"] = list(body["responses"])
        responses = list(body.get("responses") or ())
        self.counters.add(asked=len(responses))
        result = await on_own_loop(self._retrier.ask_group(body))
        results = result.results
        if len(results) != len(responses):  # invalid, or more responses than a group may have
            results = [failure(result.status, result.reason or "")] * len(responses)
        settled = []
        for response, found in zip(responses, results, strict=True):
            one = settle(
                {"response": response, "group_size": len(responses)}, found, self._on_failure
            )
            if found.status is Status.OK:
                self.counters.add(ok=1)
            else:
                self.counters.failed(found, fallback=one.source == "fallback")
            settled.append(one)
        return result.model_copy(update={"results": settled})

    def explain(self, request: Request) -> Explanation:
        """Explain the result of one request, without retries. In an event loop, use ``aexplain``.

        Raises:
            ServiceUnavailableError: the service did not explain it.
        """
        return run(self.aexplain(request))

    async def aexplain(self, request: Request) -> Explanation:
        """``explain``, awaited."""
        body = as_dict(request, self._defaults)
        endpoints = self._retrier.endpoints(body)
        endpoint = next((one for one in endpoints if one.up), endpoints[0])
        return await endpoint.transport.aexplain(body)

    @contextmanager
    def _submitted(
        self, requests: Sequence[Request], loop: asyncio.AbstractEventLoop | None
    ) -> Iterator[list[Ticket]]:
        """Submit the requests, and withdraw them if the block that waits for them raises."""
        self._in_this_process()
        tickets = [Ticket(as_dict(request, self._defaults), loop) for request in requests]
        self.counters.add(asked=len(tickets))
        self._coalescer.submit(tickets)
        try:
            yield tickets
        except BaseException:
            self._coalescer.withdraw(tickets)
            raise

    def _in_this_process(self) -> None:
        if self._pid != os.getpid():
            raise NotConnectedError(
                "this client was made before fork(), and its connections are the parent's; call "
                "reward_serve.connect (or make the client) in this process"
            )

    async def _ask(self, tickets: Sequence[Ticket]) -> None:
        """Answer a batch's tickets."""
        unscored: list[tuple[Ticket, ScoreResult]] = []

        def deliver(results: Sequence[tuple[Ticket, ScoreResult]]) -> None:
            scored = [each for each in results if each[1].status is Status.OK]
            self._note(scored)
            self.counters.add(ok=len(scored))
            hand_out(scored)
            failed = [each for each in results if each[1].status is not Status.OK]
            unscored.extend(failed)
            if failed and self._on_failure in ("rule", "lexical"):  # may take long for a formula
                in_thread(lambda: self._settle(failed))
            else:
                self._settle(failed)

        try:
            await self._retrier.ask(tickets, deliver)
        except NotConnectedError as error:
            hand_out((ticket, error) for ticket in tickets)
        reported = [
            result
            for ticket, result in unscored  # an outage is logged once, by each endpoint
            if not all(endpoint.in_doubt for endpoint in self._retrier.endpoints(ticket.body))
        ]
        if reported:
            self._report(reported)

    def _settle(self, failed: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        for ticket, result in failed:
            outcome: Outcome
            try:
                outcome = settle(ticket.body, result, self._on_failure)
            except Exception as error:
                outcome = error
            final = outcome if isinstance(outcome, ScoreResult) else result
            self._note([(ticket, final)])
            self.counters.failed(result, fallback=final.source == "fallback")
            hand_out([(ticket, outcome)])

    def _note(self, results: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        if self._samples is not None:
            for ticket, result in results:
                self._samples.note(ticket.body, result)

    def _report(self, failed: Sequence[ScoreResult]) -> None:
        before, self._reported = self._reported, self._reported + len(failed)
        if before.bit_length() < self._reported.bit_length():  # the 1st, 2nd, 4th, 8th...
            last = failed[-1]
            logger.warning(
                "%d requests without a verdict so far, handled by on_failure=%s; the last: %s: %s",
                self._reported, self._on_failure, last.status.value, last.reason,
            )  # fmt: skip
