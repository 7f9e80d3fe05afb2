"""The one client: what callers use, by handle and over HTTP."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from reward_serve.client.outcomes import (
    FAILURES,
    OnFailure,
    ScoringError,
    check_on_failure,
    error_of,
    is_comparison,
    settle,
)
from reward_serve.client.retrying import (
    Batch,
    Coalescer,
    Endpoint,
    GroupTicket,
    LogprobsTicket,
    Ticket,
    hand_out,
)
from reward_serve.client.transport import (
    DEFAULT_APP,
    HandleTransport,
    HttpTransport,
    NotConnectedError,
    Request,
    ServiceTransport,
    ServiceUnavailableError,
    as_dict,
    own_loop,
    process,
    run,
)
from reward_serve.explanation import Explanation
from reward_serve.keys import API_KEY_VARIABLE, read_key
from reward_serve.logprobs import LogprobsRequest, LogprobsResult
from reward_serve.schema import (
    DEFAULT_TIMEOUT_S,
    MAX_TIMEOUT_S,
    REFUSED,
    GroupRequest,
    GroupResult,
    ScoreResult,
    Status,
    failure,
    hint,
)

logger = logging.getLogger(__name__)

TokensRequest = LogprobsRequest | Mapping[str, Any]


class Counters:
    """Counts one client's requests, for a trainer's metrics. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        names = ("asked", "ok", "failed", "fallback", "retried")
        self._counts = dict.fromkeys((*names, *(f"failed_{status}" for status in FAILURES)), 0)

    def add(self, **counts: int) -> None:
        """Add to the counts of ``snapshot``, by name."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    def snapshot(self) -> dict[str, int]:
        """The current counts: asked, ok, failed, failed by status, fallback, retried."""
        with self._lock:
            return dict(self._counts)


class Client:
    """Scores through a transport, from any thread and any event loop.

    Not for a process forked afterwards: call ``connect`` there.

    Args:
        transport: the transport to the service.
        timeout_s: default deadline of a request, over all attempts, in seconds.
        on_failure: how to handle a request without a score: ``raise`` raises ``ScoringError``,
            ``none`` returns the typed failure, ``rule`` uses the rule verifier in this process,
            ``lexical`` uses the verifier and, if it abstains and no reference is a number, the F1
            of the words shared with the reference, and a number is used as the score. The last
            three have source ``fallback``, and raise at what no retry changes, such as a wrong key.
            Where the score is no comparison with a reference, ``rule`` and ``lexical`` are refused;
            None is ``rule`` once a verdict was one, else ``none``.
        max_batch: maximum requests per batch.
        max_attempts: maximum attempts per request; None to retry until its deadline.
        model: default reward model of requests; by default the service's first.

    Raises:
        ValueError: a setting is invalid.
    """

    def __init__(
        self,
        transport: ServiceTransport | Endpoint,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_failure: OnFailure | str = "raise",
        max_batch: int = 128,
        max_attempts: int | None = None,
        model: str | None = None,
    ) -> None:
        self._on_failure = check_on_failure(on_failure)
        for name, number in (("max_batch", max_batch), ("max_attempts", max_attempts)):
            if number is not None and number < 1:  # 0 attempts would be as many as there is time
                raise ValueError(f"{name}: {number} must be at least 1")
        self._endpoint = transport if isinstance(transport, Endpoint) else Endpoint(transport)
        self.timeout_s = timeout_s
        self._defaults = {"timeout_s": timeout_s, **({"model": model} if model else {})}
        self._max_attempts = max_attempts
        self.counters = Counters()
        window_s = self._endpoint.transport.window_s_per_batch
        self._coalescer = Coalescer(self._ask, own_loop(), max_batch, window_s)
        self._process_id = process.id

    def score(self, request: Request) -> ScoreResult:
        """Score one request. In an event loop, use ``ascore``.

        Raises:
            ScoringError: there is no score and ``on_failure`` is ``raise``.
            NotConnectedError: this process was forked after the client was made; or, by handle, it
                cannot reach a cluster.
        """
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """Score several requests, in order. In an event loop, use ``ascore_batch``.

        Raises:
            ScoringError: one has no score and ``on_failure`` is ``raise``; has all results.
            NotConnectedError: see ``score``.
        """
        with self._submitted(requests, None) as tickets:
            answers = [ticket.answer for ticket in tickets]
            return _results([answer.exception() or answer.result() for answer in answers])

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        with self._submitted([request], asyncio.get_running_loop()) as (ticket,):
            result: ScoreResult = await ticket.answer  # gather would cost another 5 us
        return result

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        with self._submitted(requests, asyncio.get_running_loop()) as tickets:
            answers = (ticket.answer for ticket in tickets)
            return _results(await asyncio.gather(*answers, return_exceptions=True))

    def score_group(self, request: GroupRequest | Mapping[str, Any]) -> GroupResult:
        """Judge the responses to one prompt against each other.

        In an event loop, use ``ascore_group``.

        Raises:
            ScoringError: a response has no score and ``on_failure`` is ``raise``.
            NotConnectedError: see ``score``.
        """
        with self._submitted([request], None, GroupTicket) as (ticket,):
            result: GroupResult = ticket.answer.result()
        return result

    async def ascore_group(self, request: GroupRequest | Mapping[str, Any]) -> GroupResult:
        """``score_group``, awaited; ``on_failure`` applies to each response without a score."""
        loop = asyncio.get_running_loop()
        with self._submitted([request], loop, GroupTicket) as (ticket,):
            result: GroupResult = await ticket.answer
        return result

    def logprobs(self, requests: Sequence[TokensRequest]) -> list[LogprobsResult]:
        """The log-probabilities of sequences' tokens by a teacher, in order, as numpy arrays.

        ``token_ids`` may be a list or a one-dimensional array. In an event loop, use ``alogprobs``.

        Raises:
            ScoringError: one has none and ``on_failure`` is ``raise``; has all results. Otherwise
                typed failures are returned: nothing replaces a log-probability.
            NotConnectedError: see ``score``.
        """
        with self._submitted(requests, None, LogprobsTicket) as tickets:
            answers = [ticket.answer for ticket in tickets]
            return _results([answer.exception() or answer.result() for answer in answers])

    async def alogprobs(self, requests: Sequence[TokensRequest]) -> list[LogprobsResult]:
        """``logprobs``, awaited."""
        loop = asyncio.get_running_loop()
        with self._submitted(requests, loop, LogprobsTicket) as tickets:
            answers = (ticket.answer for ticket in tickets)
            return _results(await asyncio.gather(*answers, return_exceptions=True))

    def explain(self, request: Request) -> Explanation:
        """Explain the result of one request, without retries. In an event loop, use ``aexplain``.

        Raises:
            ServiceUnavailableError: the service did not explain it.
        """
        return run(self.aexplain(request))

    async def aexplain(self, request: Request) -> Explanation:
        """``explain``, awaited."""
        self._refuse_fork()
        body = as_dict(request, self._defaults)
        return await self._endpoint.transport.aexplain(body)

    @contextmanager
    def _submitted(
        self,
        requests: Sequence[Request | GroupRequest | TokensRequest],
        loop: asyncio.AbstractEventLoop | None,
        of: type[Ticket] = Ticket,
    ) -> Iterator[list[Ticket]]:
        """Submit the requests, and withdraw them if the block that waits for them raises."""
        self._refuse_fork()
        tickets = [of(as_dict(request, self._defaults), loop) for request in requests]
        self.counters.add(asked=sum(ticket.count for ticket in tickets))
        valid = [ticket for ticket in tickets if ticket.result is None]
        self._coalescer.submit(valid)
        if len(valid) < len(tickets):
            self._deliver([ticket for ticket in tickets if ticket.result is not None])
        try:
            yield tickets
        except BaseException:
            self._coalescer.withdraw(tickets)
            raise

    def _refuse_fork(self) -> None:
        if self._process_id != process.id:
            raise NotConnectedError(
                "this client was made before fork(), and its connections are the parent's; call "
                "reward_serve.connect (or make the client) in this process"
            )

    async def _ask(self, tickets: Sequence[Ticket]) -> None:
        """Answer tickets of one model."""
        endpoint = self._endpoint.of_model(tickets[0].body.get("model"))
        await Batch(endpoint, tickets, self._deliver, self.counters.add, self._max_attempts).run()

    def _deliver(self, tickets: Sequence[Ticket]) -> None:
        """Hand out final results, each without a score as ``on_failure`` says."""
        hand_out([(ticket, ticket.settled(self._settled)) for ticket in tickets])

    def _settled(self, body: Mapping[str, Any], result: Any) -> Any:
        """Count a result, and replace one without a score by ``on_failure``."""
        status, on_failure = result.status.value, self._on_failure
        if isinstance(result, LogprobsResult) and on_failure != "raise":
            on_failure = "none"  # nothing replaces a log-probability
        if result.status is Status.OK:
            self.counters.add(ok=1)
            by_rule = on_failure in ("rule", "lexical")
            if not by_rule or (is_comparison(result) and not body.get("group_size")):
                return result
            reason = f"on_failure={on_failure}: {result.model!r} scores on another scale; set none"
            return ScoringError(failure(Status.INVALID, reason, details=REFUSED))
        good = self._endpoint.of_model(body.get("model")).good
        verdict = good and good.result
        if on_failure is None and isinstance(verdict, ScoreResult) and is_comparison(verdict):
            on_failure = "rule"
        outcome = settle(body, result, on_failure)
        is_fallback = isinstance(outcome, ScoreResult) and outcome.source == "fallback"
        self.counters.add(failed=1, fallback=int(is_fallback), **{f"failed_{status}": 1})
        failed = self.counters.snapshot()["failed"]
        if failed & (failed - 1) == 0:  # the 1st, 2nd, 4th, 8th...
            logger.warning(
                "%d requests without a verdict so far, with on_failure=%s; the last: %s: %s",
                failed, on_failure or "none", status, result.reason,
            )  # fmt: skip
        return outcome


class RewardClient(Client):
    """A ``Client`` by handle, for processes of the Ray cluster that serves the application.

    Args:
        app: the Serve application's name.
        model: default reward model of requests, as a name or an alias; by default the
            application's first.
        timeout_s, on_failure, **settings: arguments of ``Client``; by default, typed failures are
            returned.
    """

    def __init__(
        self,
        app: str = DEFAULT_APP,
        model: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        *,
        on_failure: OnFailure | str = "none",
        **settings: Any,
    ) -> None:
        super().__init__(
            HandleTransport(app),
            model=model, timeout_s=timeout_s, on_failure=on_failure, **settings,
        )  # fmt: skip


class HttpRewardClient(Client):
    """A ``Client`` over HTTP.

    Args:
        url: the service, such as ``http://127.0.0.1:8000``.
        api_key: sent as ``Authorization: Bearer``.
        timeout_s, on_failure, **settings: arguments of ``Client``; by default, typed failures are
            returned.

    Raises:
        ServiceUnavailableError: the URL is malformed.
        ValueError: the key cannot be sent, or a setting is invalid.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        *,
        on_failure: OnFailure | str = "none",
        **settings: Any,
    ) -> None:
        self._transport = HttpTransport(url, api_key)
        super().__init__(self._transport, timeout_s=timeout_s, on_failure=on_failure, **settings)

    def models(self) -> list[dict[str, Any]]:
        """The service's reward models, as ``/v1/models`` lists them.

        Raises:
            ServiceUnavailableError: the service does not list them within 10 s.
        """
        return list(run(self._transport.ask("/v1/models", "models", 10))["models"])

    def is_ready(self) -> bool:
        """Whether every reward model has a replica that can score; asked once, for at most 5 s."""
        try:
            return bool(run(self._transport.ask("/ready", "status", 5))["status"] == "ok")
        except ServiceUnavailableError:
            return False

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        run(self._transport.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _results(outcomes: Sequence[Any]) -> list[Any]:
    faults = (outcome for outcome in outcomes if isinstance(outcome, BaseException))
    fault = next((fault for fault in faults if not isinstance(fault, ScoringError)), None)
    if error := fault or error_of(outcomes):
        raise error
    return list(outcomes)


def connect(
    *,
    url: str | None = None,
    app: str | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    timeout_s: float | None = None,
    connections: int = 64,
    **settings: Any,
) -> Client:
    """Return the client of a service. Within a process, equal arguments return the same client.

    Args:
        url: URL of the service; default ``REWARD_SERVE_URL``.
        app: Serve application of this process's cluster, or of the one that Ray finds on this
            machine; default ``REWARD_SERVE_APP``, or ``reward`` if there is no URL either.
        api_key: API key for HTTP, "" for none; default ``REWARD_SERVE_API_KEY``.
        api_key_file: a file that contains only the key, or a ``.env`` file that sets
            ``REWARD_SERVE_API_KEY``; takes precedence over the environment variable.
        timeout_s: deadline over all attempts; default ``REWARD_SERVE_TIMEOUT_S``, or 60.
        connections: HTTP connections to keep while idle.
        **settings: arguments of ``Client``.

    Raises:
        TypeError: a setting is unknown.
        ValueError: both ``url`` and ``app``, or both ``api_key`` and ``api_key_file``, are given,
            or a setting is invalid.
    """
    known = {*inspect.signature(connect).parameters, *inspect.signature(Client).parameters}
    for name in settings.keys() - known:
        names = known - {"settings", "transport"}
        raise TypeError(f"{name}: unknown setting ({hint(name, names)})")
    if url and app:
        raise ValueError(f"url and app={app!r} are both given; give one of them")
    if not url and not app:
        url, app = os.environ.get("REWARD_SERVE_URL"), os.environ.get("REWARD_SERVE_APP")
        if url and app:
            raise ValueError("REWARD_SERVE_URL and REWARD_SERVE_APP are both set; unset one")
    key = _api_key(api_key, api_key_file)
    settings = {"timeout_s": _timeout_s(timeout_s), **dict(sorted(settings.items()))}
    with process.lock:
        return _client(process.id, url, app, key, connections, **settings)


@functools.cache
def _client(*target: Any, **settings: Any) -> Client:
    return Client(_shared_endpoint(*target), **settings)


@functools.cache
def _shared_endpoint(process_id: str, url: str | None, app: str | None, *of_http: Any) -> Endpoint:
    """The endpoint of a service, shared by its clients, so that they detect an outage together."""
    return Endpoint(HttpTransport(url, *of_http) if url else HandleTransport(app or DEFAULT_APP))


def _api_key(given: str | None, file: str | None) -> str | None:
    if not file:
        return os.environ.get(API_KEY_VARIABLE) if given is None else given
    if given:
        raise ValueError(f"api_key and api_key_file={file!r} are both given; give one of them")
    try:
        return read_key(file, API_KEY_VARIABLE)
    except ValueError as error:
        raise ValueError(f"api_key_file: {error}") from None


def _timeout_s(given: float | None) -> float:
    text = os.environ.get("REWARD_SERVE_TIMEOUT_S") if given is None else given
    try:
        seconds = DEFAULT_TIMEOUT_S if text in (None, "") else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise ValueError(
            f"REWARD_SERVE_TIMEOUT_S or timeout_s: {text!r} is not a number of seconds above 0, at "
            f"most {MAX_TIMEOUT_S:g}"
        )
    return seconds
