"""A client of the service whose errors state the cause and the remedy."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from reward_serve.client.bodies import encode, encode_batch, merge
from reward_serve.client.transport import (
    SERVICE_GRACE_S,
    ServiceUnavailableError,
    parse_explanation,
    parse_result,
)
from reward_serve.explanation import Explanation
from reward_serve.schema import ScoreResult, longest_timeout_s

logger = logging.getLogger(__name__)

API_KEY_VARIABLE = "REWARD_SERVE_API_KEY"
MAX_EXPLAINED_AT_ONCE = 2
"""Concurrent explanations, each of which takes a place among the replica's items."""

BATCH_ITEMS = 128
"""Requests per call: few enough for a call to end well within its deadline."""

_STATE_TIMEOUT_S = 5.0
_OTHER_VERSION = "The service's version may differ from the workbench's."


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
        key = (api_key or "").strip()
        if not key.isascii() or not key.isprintable():
            raise ValueError(f"{API_KEY_VARIABLE}: contains characters that a header cannot carry")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ValueError(f"--url: {error}; give http://HOST:PORT") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"--url: {url!r} is not an HTTP URL; give http://HOST:PORT")
        self.url = str(parsed.copy_with(userinfo=b"", query=None, fragment=None)).rstrip("/")
        self.has_key = bool(key)
        headers = {"content-type": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._settings: dict[str, Any] = {"base_url": url, "headers": headers}
        self._client: httpx.AsyncClient | None = None
        self._explaining = asyncio.Semaphore(MAX_EXPLAINED_AT_ONCE)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def state(self) -> State:
        """Query the models and whether they are ready."""
        began = time.perf_counter()
        try:
            data = await self._json("GET", "/v1/models", None, _STATE_TIMEOUT_S)
        except TroubleError as trouble:
            return State(trouble=trouble)
        took_ms = 1000 * (time.perf_counter() - began)
        models = [model for model in data.get("models") or [] if isinstance(model, dict)]
        state = State(models, str(data.get("version", "")), took_ms=took_ms)
        try:
            await self._json("GET", "/ready", None, _STATE_TIMEOUT_S)
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
            results += await self._batch(requests[start : start + BATCH_ITEMS])
            progress(len(results))
        return results

    async def _batch(self, requests: Sequence[Mapping[str, Any]]) -> list[ScoreResult]:
        sent, refused = encode_batch(requests)
        size = len(requests) - len(refused)
        timeout_s = longest_timeout_s(requests) + SERVICE_GRACE_S
        data = await self._json("POST", "/v1/score/batch", sent, timeout_s)
        results = data.get("results")
        if not isinstance(results, list) or len(results) != size:
            raise TroubleError("The service did not answer every request.", "Check --url.")
        try:
            return merge([parse_result(result, self.url) for result in results], refused)
        except ServiceUnavailableError as error:
            raise TroubleError(str(error), _OTHER_VERSION) from None

    async def explain(self, request: Mapping[str, Any]) -> Explanation:
        """Score a request and explain its result.

        Raises:
            TroubleError: the service gave no valid answer.
        """
        timeout_s = longest_timeout_s([request]) + SERVICE_GRACE_S
        async with self._explaining:
            try:
                data = await self._json("POST", "/v1/explain", encode(request), timeout_s)
            except ValueError as error:
                raise TroubleError(f"The request cannot be sent: {error}.", "Fix it.") from None
        data.pop("detail", None)
        try:
            return parse_explanation(data, self.url)
        except ServiceUnavailableError as error:
            raise TroubleError(str(error), _OTHER_VERSION) from None

    async def _json(
        self, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> dict[str, Any]:
        if self._client is None:
            self._client = httpx.AsyncClient(**self._settings, verify=ssl.create_default_context())
        try:
            reply = await self._client.request(method, path, content=body, timeout=timeout_s)
        except httpx.TimeoutException:
            raise TroubleError(
                f"{self.url} did not answer within {timeout_s:g} s.",
                "It may be starting or overloaded; try again, or look at Health.",
            ) from None
        except httpx.HTTPError as error:
            logger.info("%s: %s", self.url, error)
            raise TroubleError(
                f"Cannot reach {self.url}.",
                "Start the service (reward-serve serve), or set --url.",
            ) from None
        try:
            data = reply.json()
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise TroubleError(
                f"{self.url} replied {reply.status_code} without a JSON object.",
                "Check --url.",
                reply.status_code,
            )
        if reply.status_code >= 400 and "score" not in data and "result" not in data:
            raise self._refused(reply.status_code, data)
        return data

    def _refused(self, code: int, data: Mapping[str, Any]) -> TroubleError:
        detail = str(data.get("detail", "no detail"))
        if code == 401:
            key = f"{API_KEY_VARIABLE} is not one of the service's keys"
            return TroubleError(
                "The service requires an API key." if not self.has_key else f"{key}.",
                f"Start the workbench with {API_KEY_VARIABLE} set to one of the service's keys.",
                code,
            )
        remedies = {
            429: "The key has too many items in flight; try again in a moment.",
            503: "Try again in a moment, or look at Health.",
            504: "Give it more time, or look at Health.",
        }
        return TroubleError(f"{code}: {detail}", remedies.get(code, ""), code)
