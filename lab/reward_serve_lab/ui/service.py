"""The client's transport, with the service's state, and errors that name the remedy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from reward_serve.client.transport import HttpTransport, ServiceUnavailableError, on_own_loop
from reward_serve.explanation import Explanation
from reward_serve.keys import API_KEY_VARIABLE
from reward_serve.logprobs import LogprobsRequest, LogprobsResult
from reward_serve.schema import ScoreResult

logger = logging.getLogger(__name__)

MAX_EXPLAINED_AT_ONCE = 2
"""Concurrent explanations, each of which takes a place among the replica's items."""

BATCH_ITEMS = 128
"""Requests per call: few enough for a call to end well within its deadline."""

_STATE_TIMEOUT_S = 5.0


class TroubleError(Exception):
    """The service gave no valid answer.

    Attributes:
        what: the cause.
        remedy: what to do.
        status_code: the HTTP status, if the service replied.
    """

    def __init__(self, what: str, remedy: str, status_code: int | None = None) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy
        self.status_code = status_code


@dataclass
class State:
    """The state of the service at one time.

    Attributes:
        models: the models in ``/v1/models``; None if it failed.
        version: the service's version.
        ready: whether each model has a replica that can score.
        detail: why the service is not ready.
        took_ms: latency of ``/v1/models``.
        trouble: why ``/v1/models`` failed.
    """

    models: list[dict[str, Any]] | None = None
    version: str = ""
    ready: bool = False
    detail: str = ""
    took_ms: float = 0.0
    trouble: TroubleError | None = None


class Service:
    """One service, over HTTP.

    Args:
        url: such as ``http://127.0.0.1:8000``; a user and password in it are sent but never shown.
        api_key: sent as ``Authorization: Bearer`` but never shown.

    Raises:
        ValueError: the URL or the key is invalid.
    """

    def __init__(self, url: str, api_key: str | None) -> None:
        try:
            self._transport = HttpTransport(url, api_key)
        except ServiceUnavailableError as error:
            raise ValueError(f"--url: {error}; give http://HOST:PORT") from None
        except ValueError:
            fault = "contains characters that a header cannot carry"
            raise ValueError(f"{API_KEY_VARIABLE}: {fault}") from None
        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https"):
            raise ValueError(f"--url: {url!r} is not an HTTP URL; give http://HOST:PORT")
        self.url = str(parsed.copy_with(userinfo=b"", query=None, fragment=None)).rstrip("/")
        self.has_key = bool((api_key or "").strip())
        self._explaining = asyncio.Semaphore(MAX_EXPLAINED_AT_ONCE)

    async def close(self) -> None:
        """Close the connections."""
        await on_own_loop(self._transport.aclose())

    async def state(self) -> State:
        """Query the models, and which are not ready."""
        began = time.perf_counter()
        try:
            listed = await self._transport.ask("/v1/models", "models", _STATE_TIMEOUT_S)
        except ServiceUnavailableError as error:
            return State(trouble=self._trouble(error))
        took_ms = 1000 * (time.perf_counter() - began)
        models = [model for model in listed["models"] or [] if isinstance(model, dict)]
        waiting = [
            f"{model.get('name')}: {model.get('outage') or 'no replica answers yet'}"
            for model in models
            if not model.get("ready")
        ]
        version = str(listed.get("version", ""))
        return State(models, version, not waiting, "; ".join(waiting), took_ms)

    async def score(
        self,
        requests: Sequence[Mapping[str, Any]],
        progress: Callable[[int], object] = lambda done: None,
    ) -> list[ScoreResult]:
        """Score requests in batches; results are in order.

        Args:
            requests: any number of requests.
            progress: called with the number of results after each batch.

        Raises:
            TroubleError: the service gave no valid answer.
        """
        results: list[ScoreResult] = []
        for start in range(0, len(requests), BATCH_ITEMS):
            batch = [dict(request) for request in requests[start : start + BATCH_ITEMS]]
            try:
                results += await self._transport.ascore_batch(batch)
            except ServiceUnavailableError as error:
                raise self._trouble(error) from None
            progress(len(results))
        return results

    async def explain(self, request: Mapping[str, Any]) -> Explanation:
        """Score a request and explain its result.

        Raises:
            TroubleError: the service gave no valid answer.
        """
        async with self._explaining:
            try:
                return await self._transport.aexplain(dict(request))
            except ServiceUnavailableError as error:
                raise self._trouble(error) from None

    async def logprobs(self, request: LogprobsRequest) -> LogprobsResult:
        """A teacher's log-probabilities of a sequence.

        Raises:
            TroubleError: the service gave no valid answer.
        """
        try:
            return await self._transport.alogprobs(request.model_dump(exclude_unset=True))
        except ServiceUnavailableError as error:
            raise self._trouble(error) from None

    def _trouble(self, error: ServiceUnavailableError) -> TroubleError:
        cause, code = error.__cause__, error.status_code
        if isinstance(cause, httpx.TimeoutException | TimeoutError):
            remedy = "It may be starting or overloaded; try again, or look at Health."
            return TroubleError(f"{self.url} did not answer in time.", remedy)
        if isinstance(cause, httpx.HTTPError):
            logger.info("%s: %s", self.url, cause)
            remedy = "Start the service (reward-serve serve), or set --url."
            return TroubleError(f"Cannot reach {self.url}.", remedy)
        if code is None:
            remedy = "The service's version may differ from the workbench's."
            return TroubleError(str(error), remedy)
        if code == 401:
            return TroubleError(
                f"{API_KEY_VARIABLE} is not one of the service's keys."
                if self.has_key
                else "The service requires an API key.",
                f"Start the workbench with {API_KEY_VARIABLE} set to one of the service's keys.",
                code,
            )
        remedies = {
            429: "The key has too many items in flight; try again in a moment.",
            503: "Try again in a moment, or look at Health.",
            504: "Give it more time, or look at Health.",
        }
        remedy = remedies.get(code, "Check --url." if code < 400 else "")
        return TroubleError(str(error), remedy, code)
