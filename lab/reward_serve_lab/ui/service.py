"""The service that the workbench shows, and what its failures mean to a person."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from reward_serve.client.bodies import encode, encode_batch, merge
from reward_serve.client.transport import (
    GRACE_S,
    ServiceUnavailableError,
    parse_explanation,
    parse_result,
)
from reward_serve.explanation import Explanation
from reward_serve.schema import ScoreResult, longest_timeout_s

logger = logging.getLogger(__name__)

API_KEY_VARIABLE = "REWARD_SERVE_API_KEY"
MAX_EXPLAINED_AT_ONCE = 2
"""The service bounds explanations, which are for people."""

BATCH_ITEMS = 128
"""Requests of one call, so that each call ends well within its deadline."""

_STATE_TIMEOUT_S = 5.0
_OTHER_VERSION = "Its version may differ from the workbench's."


class TroubleError(Exception):
    """The service gave no answer; says why, and what to do.

    Attributes:
        what: what happened.
        remedy: what to do about it.
        status_code: of HTTP, where it answered.
    """

    def __init__(self, what: str, remedy: str, status_code: int | None = None) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy
        self.status_code = status_code


@dataclass
class State:
    """What a look at the service found.

    Attributes:
        models: as ``/v1/models`` lists them; None where it did not answer.
        version: of the service.
        ready: whether each model has a replica that can score.
        detail: why not.
        took_ms: what ``/v1/models`` took.
        trouble: why there is no answer.
    """

    models: list[dict[str, Any]] | None = None
    version: str = ""
    ready: bool = False
    detail: str = ""
    took_ms: float = 0.0
    trouble: TroubleError | None = None
    at: float = field(default_factory=time.time)


class Service:
    """One service, over HTTP.

    Args:
        url: such as ``http://127.0.0.1:8000``; a user and password in it are sent, never shown.
        api_key: sent as ``Authorization: Bearer``, never shown.

    Raises:
        ValueError: the URL, or the key, cannot be used.
    """

    def __init__(self, url: str, api_key: str | None) -> None:
        key = (api_key or "").strip()
        if not key.isascii() or not key.isprintable():
            raise ValueError(f"{API_KEY_VARIABLE}: holds characters that a header cannot carry")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ValueError(f"--url: {error}; give http://HOST:PORT") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"--url: {url!r} is no address; give http://HOST:PORT")
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
        """What serves, and whether it can score."""
        began = time.perf_counter()
        try:
            said = await self._json("GET", "/v1/models", None, _STATE_TIMEOUT_S)
        except TroubleError as trouble:
            return State(trouble=trouble)
        took_ms = 1000 * (time.perf_counter() - began)
        models = [model for model in said.get("models") or [] if isinstance(model, dict)]
        state = State(models, str(said.get("version", "")), took_ms=took_ms)
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
        """A result for each request, in order.

        Args:
            requests: any number of them.
            progress: called with the number of results after each batch.

        Raises:
            TroubleError: there was no answer.
        """
        results: list[ScoreResult] = []
        for start in range(0, len(requests), BATCH_ITEMS):
            results += await self._batch(requests[start : start + BATCH_ITEMS])
            progress(len(results))
        return results

    async def _batch(self, requests: Sequence[Mapping[str, Any]]) -> list[ScoreResult]:
        sent, refused = encode_batch(requests)
        size = len(requests) - len(refused)
        timeout_s = longest_timeout_s(requests) + GRACE_S
        said = await self._json("POST", "/v1/score/batch", sent, timeout_s)
        results = said.get("results")
        if not isinstance(results, list) or len(results) != size:
            raise TroubleError("The service did not answer every request.", "Is it this project's?")
        try:
            return merge([parse_result(result, self.url) for result in results], refused)
        except ServiceUnavailableError as error:
            raise TroubleError(str(error), _OTHER_VERSION) from None

    async def explain(self, request: Mapping[str, Any]) -> Explanation:
        """The result of one request, and what led to it.

        Raises:
            TroubleError: there is none.
        """
        timeout_s = longest_timeout_s([request]) + GRACE_S
        async with self._explaining:
            try:
                said = await self._json("POST", "/v1/explain", encode(request), timeout_s)
            except ValueError as error:
                raise TroubleError(f"The request cannot be sent: {error}.", "Mend it.") from None
        said.pop("detail", None)
        try:
            return parse_explanation(said, self.url)
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
                f"Nothing answers at {self.url}.",
                "Start the service (python -m reward_serve serve), or name another by --url.",
            ) from None
        try:
            said = reply.json()
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise TroubleError(
                f"{self.url} answers {reply.status_code}, but not as this service would.",
                "Check --url.",
                reply.status_code,
            )
        if reply.status_code >= 400 and "score" not in said and "result" not in said:
            raise self._refused(reply.status_code, said)
        return said

    def _refused(self, code: int, said: Mapping[str, Any]) -> TroubleError:
        detail = str(said.get("detail", "no detail"))
        if code == 401:
            key = f"The key of {API_KEY_VARIABLE} is not one of its keys"
            return TroubleError(
                "The service is locked." if not self.has_key else f"{key}.",
                f"Start the workbench with {API_KEY_VARIABLE} set to one of the service's keys.",
                code,
            )
        remedies = {
            429: "The service bounds what one key may ask; try again in a moment.",
            503: "Try again in a moment, or look at Health.",
            504: "Give it more time, or look at Health.",
        }
        return TroubleError(f"{code}: {detail}", remedies.get(code, ""), code)
