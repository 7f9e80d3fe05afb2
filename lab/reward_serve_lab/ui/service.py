"""The client's transport, with the service's state, and errors that name the remedy."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from reward_serve.client.transport import HttpTransport, ServiceUnavailableError, on_own_loop
from reward_serve.explanation import Explanation
from reward_serve.keys import API_KEY_VARIABLE
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
        key = (api_key or "").strip()
        self.has_key = bool(key)
        self._settings: dict[str, Any] = {
            "base_url": url,
            "headers": {"authorization": f"Bearer {key}"} if key else {},
            "timeout": _STATE_TIMEOUT_S,
        }
        self._client: httpx.AsyncClient | None = None
        self._explaining = asyncio.Semaphore(MAX_EXPLAINED_AT_ONCE)

    async def close(self) -> None:
        """Close the connections."""
        await on_own_loop(self._transport.aclose())
        if self._client is not None:
            await self._client.aclose()

    async def state(self) -> State:
        """Query the models and whether they are ready."""
        began = time.perf_counter()
        try:
            data = await self._get("/v1/models")
        except TroubleError as trouble:
            return State(trouble=trouble)
        took_ms = 1000 * (time.perf_counter() - began)
        models = [model for model in data.get("models") or [] if isinstance(model, dict)]
        state = State(models, str(data.get("version", "")), took_ms=took_ms)
        try:
            await self._get("/ready")
            state.ready = True
        except TroubleError as trouble:
            state.detail = trouble.what
        return state

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

    async def _get(self, path: str) -> dict[str, Any]:
        if self._client is None:
            self._client = httpx.AsyncClient(**self._settings, verify=ssl.create_default_context())
        try:
            reply = await self._client.get(path)
        except httpx.HTTPError as error:
            raise self._no_answer(error, f"within {_STATE_TIMEOUT_S:g} s") from None
        try:
            data = reply.json()
        except ValueError:
            data = None
        if not isinstance(data, dict):
            what = f"{self.url} replied {reply.status_code} without a JSON object."
            raise self._refusal(reply.status_code, what)
        if reply.status_code >= 400:
            what = f"{reply.status_code}: {data.get('detail', 'no detail')}"
            raise self._refusal(reply.status_code, what)
        return data

    def _trouble(self, error: ServiceUnavailableError) -> TroubleError:
        if isinstance(error.__cause__, httpx.HTTPError | TimeoutError):
            return self._no_answer(error.__cause__, "in time")
        if error.status_code is None:
            return TroubleError(
                str(error), "The service's version may differ from the workbench's."
            )
        return self._refusal(error.status_code, str(error))

    def _no_answer(self, error: Exception, when: str) -> TroubleError:
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            return TroubleError(
                f"{self.url} did not answer {when}.",
                "It may be starting or overloaded; try again, or look at Health.",
            )
        logger.info("%s: %s", self.url, error)
        return TroubleError(
            f"Cannot reach {self.url}.", "Start the service (reward-serve serve), or set --url."
        )

    def _refusal(self, code: int, what: str) -> TroubleError:
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
        return TroubleError(what, remedies.get(code, "Check --url." if code < 400 else ""), code)
