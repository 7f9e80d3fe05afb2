"""The client of the trainers' adapters: it batches and retries requests, and handles failures."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
from collections.abc import Sequence
from typing import Any

from reward_serve.client.coalescing import Coalescer, Outcome, Ticket, hand_out
from reward_serve.client.counters import Counters
from reward_serve.client.endpoint import Endpoint
from reward_serve.client.fallback import OnFailure, check_on_failure, settle
from reward_serve.client.handle import DEFAULT_APP, RewardClient
from reward_serve.client.loop import in_thread, own_loop
from reward_serve.client.retrying import Retrier
from reward_serve.client.samples import SampleWriter
from reward_serve.client.transport import NotConnectedError, Request, Transport, as_dict
from reward_serve.keys import read_key
from reward_serve.schema import DEFAULT_TIMEOUT_S, ScoreResult, Status

logger = logging.getLogger(__name__)


class Client:
    """Scores through a transport, from any thread and any event loop.

    A client that was forked with its process starts afresh, and a pickled one is its settings.

    Args:
        transport: the transport to the service, or several to try in this order.
        timeout_s: default deadline of a request, over all attempts.
        on_failure: how to handle a request without a score: ``raise`` raises ``ScoringError``,
            ``none`` returns the typed failure, ``rule`` uses the rule verifier in this process, and
            a number is used as the score. The last two give results with source ``fallback``.
        window_s: while a batch is in progress, how long a request waits to be batched; otherwise
            it is sent immediately.
        max_batch: maximum requests per batch.
        max_attempts: maximum attempts per request; None to retry until its deadline.
        model: default reward model of requests; by default the service's first.
        samples: file to which a sample of the results is appended, as JSON lines.
        samples_every: write one of this many results.

    Raises:
        ValueError: ``on_failure`` is invalid.
    """

    def __init__(
        self,
        transport: Transport | Sequence[Transport],
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
        self._timeout_s = timeout_s
        self._model = {"model": model} if model else {}
        self._on_failure = check_on_failure(on_failure)
        ways = transport if isinstance(transport, Sequence) else [transport]
        self._endpoints = [way if isinstance(way, Endpoint) else Endpoint(way) for way in ways]
        self._settings: dict[str, Any] = {
            "timeout_s": timeout_s, "on_failure": on_failure, "window_s": window_s,
            "max_batch": max_batch, "max_attempts": max_attempts, "model": model,
            "samples": samples, "samples_every": samples_every,
        }  # fmt: skip
        self._start()

    def _start(self) -> None:
        """Create what a forked process does not inherit: the loop's thread, tasks and locks."""
        settings = self._settings
        self.counters = Counters()
        self._reported = 0
        file = settings["samples"]
        self._samples = SampleWriter(file, settings["samples_every"]) if file else None
        endpoints = [endpoint.in_this_process() for endpoint in self._endpoints]
        self._retrier = Retrier(endpoints, self.counters, settings["max_attempts"])
        self._coalescer = Coalescer(
            self._ask, own_loop(), settings["window_s"], settings["max_batch"]
        )
        self._pid = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Client, **self._settings), (self._endpoints,)

    def score(self, request: Request) -> ScoreResult:
        """Score one request. In an event loop, use ``ascore``.

        Raises:
            ScoringError: there is no score and ``on_failure`` is ``raise``.
            NotConnectedError: by handle, Ray is not installed or there is no cluster.
        """
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """Score several requests, in order. In an event loop, use ``ascore_batch``.

        Raises:
            ScoringError: one has no score and ``on_failure`` is ``raise``.
        """
        tickets = self._submitted(requests, None)
        try:
            return [ticket.answer.result() for ticket in tickets]
        except BaseException:
            self._coalescer.withdraw(tickets)
            raise

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        tickets = self._submitted([request], asyncio.get_running_loop())
        try:
            result: ScoreResult = await tickets[0].answer
        except BaseException:
            self._coalescer.withdraw(tickets)
            raise
        return result

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        tickets = self._submitted(requests, asyncio.get_running_loop())
        try:
            results: list[ScoreResult] = await asyncio.gather(*(t.answer for t in tickets))
        except BaseException:
            self._coalescer.withdraw(tickets)
            raise
        return results

    def _submitted(
        self, requests: Sequence[Request], loop: asyncio.AbstractEventLoop | None
    ) -> list[Ticket]:
        if self._pid != os.getpid():
            with _lock:
                if self._pid != os.getpid():
                    self._start()
        bodies = [{**self._model, **as_dict(request, self._timeout_s)} for request in requests]
        tickets = [Ticket(body, loop) for body in bodies]
        self.counters.asked(len(tickets))
        self._coalescer.submit(tickets)
        return tickets

    async def _ask(self, tickets: Sequence[Ticket]) -> None:
        failed: list[ScoreResult] = []
        async with asyncio.TaskGroup() as settling:

            def deliver(results: dict[int, ScoreResult]) -> None:
                right = {i: r for i, r in results.items() if r.status is Status.OK}
                self.counters.ok(len(right))
                for index, result in right.items():
                    self._note(tickets[index], result)
                hand_out((tickets[index], result) for index, result in right.items())
                lost = [(tickets[i], r) for i, r in results.items() if i not in right]
                failed.extend(result for _, result in lost)
                if lost:
                    settling.create_task(self._settle(lost))

            try:
                await self._retrier.ask([ticket.body for ticket in tickets], deliver)
            except NotConnectedError as error:
                hand_out((ticket, error) for ticket in tickets)
            if failed and not self._retrier.in_doubt:  # an outage is logged once
                self._report(failed)

    async def _settle(self, lost: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        def settled() -> None:
            for ticket, result in lost:
                outcome: Outcome
                try:
                    outcome = settle(ticket.body, result, self._on_failure)
                except Exception as error:
                    outcome = error
                final = outcome if isinstance(outcome, ScoreResult) else result
                self._note(ticket, final)
                self.counters.failed(result, fallback=final.source == "fallback")
                hand_out([(ticket, outcome)])

        if self._on_failure == "rule":  # may take long for a formula
            await asyncio.wrap_future(in_thread(settled))
        else:
            settled()

    def _note(self, ticket: Ticket, result: ScoreResult) -> None:
        if self._samples is not None:
            self._samples.note(ticket.body, result)

    def _report(self, failed: Sequence[ScoreResult]) -> None:
        before, self._reported = self._reported, self._reported + len(failed)
        if before.bit_length() < self._reported.bit_length():  # the 1st, 2nd, 4th, 8th...
            last = failed[-1]
            logger.warning(
                "%d requests without a verdict so far, handled by on_failure=%s; the last: %s: %s",
                self._reported, self._on_failure, last.status.value, last.reason,
            )  # fmt: skip


def connect(
    *,
    url: str | Sequence[str] | None = None,
    app: str | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    timeout_s: float | None = None,
    **settings: Any,
) -> Client:
    """The client of a target. Within a process, equal arguments return the same client.

    Args:
        url: URL of the service; default ``REWARD_SERVE_URL``. Several URLs (a list, or separated by
            commas) are tried in order, and the first that answers receives every request.
        app: Serve application of this process's cluster; default ``REWARD_SERVE_APP``, or
            ``reward`` if there is no URL either.
        api_key: API key for HTTP; default ``REWARD_SERVE_API_KEY``.
        api_key_file: a file that contains only the key, or a ``.env`` file that sets
            ``REWARD_SERVE_API_KEY``; takes precedence over the environment variable.
        timeout_s: deadline over all attempts; default ``REWARD_SERVE_TIMEOUT_S``, or 60.
        **settings: arguments of ``Client``; the default of ``samples`` is
            ``REWARD_SERVE_SAMPLES``.

    Raises:
        ValueError: both ``url`` and ``app``, or both ``api_key`` and ``api_key_file``, are given,
            or a setting is invalid.
    """
    if url and app:
        raise ValueError(f"url and app={app!r} are both given; give one of them")
    if not url and not app:
        url, app = os.environ.get("REWARD_SERVE_URL"), os.environ.get("REWARD_SERVE_APP")
        if url and app:
            raise ValueError("REWARD_SERVE_URL and REWARD_SERVE_APP are both set; unset one")
    if file := settings.get("samples") or os.environ.get("REWARD_SERVE_SAMPLES"):
        settings["samples"] = file
    urls = tuple(_urls(url)) if url else ()
    key = _api_key(api_key, api_key_file)
    seconds = _timeout_s(timeout_s)
    target = (os.getpid(), urls, app, key)
    with _lock:
        of_client = (*target, seconds, *sorted(settings.items()))
        if of_client not in _clients:
            if target not in _endpoints:
                _endpoints[target] = [_over_http(each, key) for each in urls] or [_by_handle(app)]
            _clients[of_client] = Client(_endpoints[target], timeout_s=seconds, **settings)
        return _clients[of_client]


def _urls(url: str | Sequence[str]) -> list[str]:
    given = url.split(",") if isinstance(url, str) else url
    if urls := [each.strip() for each in given if each.strip()]:
        return urls
    raise ValueError(f"url: {url!r} contains no URL; give http://HOST:PORT, or several")


def _over_http(url: str, api_key: str | None) -> Endpoint:
    from reward_serve.client.http import HttpRewardClient

    transport = HttpRewardClient(url, api_key)
    return Endpoint(transport, transport.url)


def _by_handle(app: str | None) -> Endpoint:
    return Endpoint(RewardClient(app or DEFAULT_APP), f"app {app or DEFAULT_APP!r}")


def _api_key(given: str | None, file: str | None) -> str | None:
    if not file:
        return given or os.environ.get("REWARD_SERVE_API_KEY")
    if given:
        raise ValueError(f"api_key and api_key_file={file!r} are both given; give one of them")
    try:
        return read_key(file, "REWARD_SERVE_API_KEY")
    except OSError as error:
        raise ValueError(f"api_key_file: {file}: {error.strerror}; name a readable file") from None
    except ValueError as error:
        raise ValueError(f"api_key_file: {error}") from None


def _timeout_s(given: float | None) -> float:
    text = os.environ.get("REWARD_SERVE_TIMEOUT_S") if given is None else given
    try:
        seconds = float(text or DEFAULT_TIMEOUT_S)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ValueError(
            f"REWARD_SERVE_TIMEOUT_S or timeout_s: {text!r} is not a positive number of seconds"
        )
    return seconds


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it at the fork


os.register_at_fork(after_in_child=_new_lock)

_lock = threading.Lock()
_clients: dict[tuple[Any, ...], Client] = {}
_endpoints: dict[tuple[Any, ...], list[Endpoint]] = {}
"""The endpoints of each target, shared by its clients, so that they detect an outage together."""
