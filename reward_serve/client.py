"""Clients of the service: by handle on the same Ray cluster, by HTTP from anywhere.

    >>> client = HttpRewardClient("http://127.0.0.1:8000")  # doctest: +SKIP
    >>> client.score({"response": "#### 18", "reference": "18"}).score  # doctest: +SKIP
    1.0

A failure of the judge is a ``ScoreResult`` with a ``status`` and no score. Only a service that
cannot be reached or understood raises.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import ssl
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import ValidationError

from reward_serve.schema import (
    ScoreRequest,
    ScoreResult,
    Status,
    describe_errors,
    echoes,
    failure,
    longest_timeout_s,
)
from reward_serve.version import VERSION_HEADER, __version__

logger = logging.getLogger(__name__)

DEFAULT_APP = "reward"
_GRACE_S = 5.0  # the service keeps the deadline; this is for one that does not answer at all

Request = ScoreRequest | Mapping[str, Any]


class ServiceUnavailableError(RuntimeError):
    """The service cannot be reached, or answered something other than the wire contract."""


class HttpRewardClient:
    """Scores over HTTP. Safe for threads; the async methods share one pool per event loop.

    Args:
        url: the service, such as ``http://127.0.0.1:8000``.
        api_key: sent as ``Authorization: Bearer``.
        timeout_s: deadline of requests that name none.

    Raises:
        ServiceUnavailableError: the URL is malformed.
        ValueError: the key cannot be sent.
    """

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 60.0) -> None:
        api_key = (api_key or "").strip()
        if not api_key.isprintable() or not api_key.isascii():
            raise ValueError("api_key: holds characters that a header cannot carry")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ServiceUnavailableError(f"{url}: is not a URL: {error}") from None
        self._timeout_s = timeout_s
        self._url = str(parsed.copy_with(userinfo=b"")) if parsed.userinfo else url
        headers = {"Content-Type": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._settings: dict[str, Any] = {
            "base_url": url,
            "headers": headers,
            "verify": _tls_context(),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=64),
        }
        self._sync = httpx.Client(**self._settings)
        self._async: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self._warned = False

    def score(self, request: Request) -> ScoreResult:
        """The result of one request.

        Raises:
            ServiceUnavailableError: no service at the URL, or not this one.
        """
        body = as_dict(request, self._timeout_s)
        try:
            content = encode(body)
        except _NotJSONError as error:
            return error.result
        return self._single(self._post("/v1/score", content, deadline([body])))

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """A result for each request, in order.

        Raises:
            ServiceUnavailableError: no service at the URL, or not this one.
        """
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        sent, refused = encode_batch(bodies)
        size = len(bodies) - len(refused)
        results = self._batch(self._post("/v1/score/batch", sent, deadline(bodies)), size)
        return merge(results, refused)

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        body = as_dict(request, self._timeout_s)
        try:
            content = encode(body)
        except _NotJSONError as error:
            return error.result
        return self._single(await self._apost("/v1/score", content, deadline([body])))

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        sent, refused = encode_batch(bodies)
        reply = await self._apost("/v1/score/batch", sent, deadline(bodies))
        return merge(self._batch(reply, len(bodies) - len(refused)), refused)

    def models(self) -> list[dict[str, Any]]:
        """The service's reward models, as ``/v1/models`` lists them."""
        try:
            reply = self._sync.get("/v1/models", timeout=10)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        models = self._content(reply).get("models")
        if not isinstance(models, list):
            raise ServiceUnavailableError(
                f"{self._url}: HTTP {reply.status_code}, not this service"
            )
        return models

    def is_ready(self) -> bool:
        """Whether every reward model has a replica that can score."""
        try:
            return self._sync.get("/ready", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Close the connections of the sync methods."""
        self._sync.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop, and those of the sync methods."""
        client = self._async.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _post(self, path: str, body: bytes, timeout_s: float) -> httpx.Response:
        try:
            return self._sync.post(path, content=body, timeout=timeout_s)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    async def _apost(self, path: str, body: bytes, timeout_s: float) -> httpx.Response:
        loop = asyncio.get_running_loop()
        if loop not in self._async:
            self._async = {loop: c for loop, c in self._async.items() if not loop.is_closed()}
            self._async[loop] = httpx.AsyncClient(**self._settings)
        try:
            return await self._async[loop].post(path, content=body, timeout=timeout_s)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.HTTPError) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"{self._url}: {type(error).__name__}: {error}")

    def _single(self, reply: httpx.Response) -> ScoreResult:
        content = self._content(reply)
        content.pop("detail", None)
        return _result(content, self._url)

    def _batch(self, reply: httpx.Response, size: int) -> list[ScoreResult]:
        results = self._content(reply).get("results")
        if not isinstance(results, list) or len(results) != size:
            raise ServiceUnavailableError(
                f"{self._url}: a batch of {size} was not answered in full"
            )
        return [_result(content, self._url) for content in results]

    def _content(self, reply: httpx.Response) -> dict[str, Any]:
        self._check_version(reply.headers.get(VERSION_HEADER))
        try:
            content = reply.json()
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise ServiceUnavailableError(
                f"{self._url}: HTTP {reply.status_code}, not this service"
            )
        if reply.status_code != 200 and "status" not in content:
            detail = content.get("detail", "no detail")
            raise ServiceUnavailableError(f"{self._url}: HTTP {reply.status_code}: {detail}")
        return content

    def _check_version(self, version: str | None) -> None:
        if version is not None and not self._warned:
            self._warned = warn_of_other_major(version)


class RewardClient:
    """Scores by handle, from any process of the Ray cluster that serves the application.

    The connection is made at the first call, and never pickled.

    Args:
        app: the Serve application's name.
        model: which of its reward models; default the first.
        timeout_s: deadline of requests that name none.
    """

    def __init__(
        self, app: str = DEFAULT_APP, model: str | None = None, timeout_s: float = 60.0
    ) -> None:
        self._app = app
        self._model = model
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._handle: Any = None

    def score(self, request: Request) -> ScoreResult:
        """The result of one request. Not from a running event loop: there, ``ascore``.

        Raises:
            ServiceUnavailableError: no such application, or its replica was lost.
        """
        body = as_dict(request, self._timeout_s)
        call = self._connected().score.remote(body)
        return _result(self._wait(call, deadline([body])), self._app)

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """A result for each request, in order. Not from a running event loop.

        Raises:
            ServiceUnavailableError: no such application, or its replica was lost.
        """
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        call = self._connected().score_batch.remote(bodies)
        return [_result(content, self._app) for content in self._wait(call, deadline(bodies))]

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        body = as_dict(request, self._timeout_s)
        call = (await asyncio.to_thread(self._connected)).score.remote(body)
        return _result(await self._await(call, deadline([body])), self._app)

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        call = (await asyncio.to_thread(self._connected)).score_batch.remote(bodies)
        answer = await self._await(call, deadline(bodies))
        return [_result(content, self._app) for content in answer]

    def __getstate__(self) -> dict[str, Any]:
        return {"app": self._app, "model": self._model, "timeout_s": self._timeout_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _connected(self) -> Any:
        with self._lock:  # a handle's first use is not safe for threads
            if self._handle is None:
                self._handle = self._connect()
            return self._handle

    def _connect(self) -> Any:
        from ray import serve
        from ray.exceptions import RayError
        from ray.serve.exceptions import RayServeException

        try:
            about = serve.get_app_handle(self._app).models.remote().result(timeout_s=30)
        except (RayError, RayServeException, TimeoutError) as error:
            raise ServiceUnavailableError(
                f"app {self._app!r}: {type(error).__name__}: {error}; is it deployed on the "
                "cluster that this process belongs to (RAY_ADDRESS)?"
            ) from error
        warn_of_other_major(about["version"])
        model = self._model or about["models"][0]
        if model not in about["models"]:
            raise ServiceUnavailableError(
                f"app {self._app!r} has no model {model!r}; choose of {', '.join(about['models'])}"
            )
        return serve.get_deployment_handle(model, self._app)

    def _wait(self, call: Any, timeout_s: float) -> Any:
        from ray.exceptions import RayError
        from ray.serve.exceptions import RayServeException

        try:
            return call.result(timeout_s=timeout_s)
        except TimeoutError as error:
            call.cancel()
            raise self._silent(timeout_s) from error
        except (RayError, RayServeException) as error:
            raise self._lost(error) from error

    async def _await(self, call: Any, timeout_s: float) -> Any:
        from ray.exceptions import RayError
        from ray.serve.exceptions import RayServeException

        try:
            async with asyncio.timeout(timeout_s):
                return await call
        except TimeoutError as error:
            call.cancel()
            raise self._silent(timeout_s) from error
        except asyncio.CancelledError:
            call.cancel()
            raise
        except (RayError, RayServeException) as error:
            raise self._lost(error) from error

    def _silent(self, timeout_s: float) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"app {self._app!r} gave no answer in {timeout_s:g} s")

    def _lost(self, error: Exception) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"app {self._app!r}: {type(error).__name__}: {error}")


def as_dict(request: Request, timeout_s: float) -> dict[str, Any]:
    """A request as the plain dict that crosses the wire, with a deadline."""
    if isinstance(request, ScoreRequest):
        return request.model_dump(mode="json", exclude_unset=True) | {
            "timeout_s": request.timeout_s if "timeout_s" in request.model_fields_set else timeout_s
        }
    return {"timeout_s": timeout_s, **request}


def deadline(bodies: Sequence[Mapping[str, Any]]) -> float:
    """Seconds to wait for the service itself: the longest deadline asked for, and some grace."""
    return longest_timeout_s(bodies) + _GRACE_S


def warn_of_other_major(version: str) -> bool:
    """Warn when the service's major version is not this client's; whether it was done."""
    if version.split(".")[0] == __version__.split(".")[0]:
        return False
    logger.warning(
        "the service is version %s and this client %s; their contracts may differ",
        version,
        __version__,
    )
    return True


class _NotJSONError(ValueError):
    """A request that cannot cross HTTP, with the result that says so."""

    def __init__(self, body: Mapping[str, Any], error: Exception) -> None:
        super().__init__(str(error))
        reason = f"cannot be written as JSON: {error}"
        self.result = failure(Status.INVALID, reason, **echoes(dict(body)))


def encode(body: Mapping[str, Any]) -> bytes:
    """A request as JSON; what JSON cannot carry raises ``_NotJSONError``.

    Lone surrogates and NaN are passed on as Python's json writes them: the service names the field.
    """
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _NotJSONError(body, error) from None


def encode_batch(bodies: Sequence[Mapping[str, Any]]) -> tuple[bytes, dict[int, ScoreResult]]:
    """A batch as JSON without the requests that it cannot carry, and those requests' results."""
    parts, refused = [], {}
    for index, body in enumerate(bodies):
        try:
            parts.append(encode(body))
        except _NotJSONError as error:
            refused[index] = error.result
    return b'{"requests": [' + b", ".join(parts) + b"]}", refused


def merge(results: list[ScoreResult], refused: Mapping[int, ScoreResult]) -> list[ScoreResult]:
    """The service's results with the refused requests' put in their places."""
    for index in sorted(refused):
        results.insert(index, refused[index])
    return results


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _result(content: Any, where: str) -> ScoreResult:
    try:
        return ScoreResult.model_validate(content)
    except ValidationError as error:
        fault = describe_errors(error)
        raise ServiceUnavailableError(f"{where}: its answer is not a result: {fault}") from error
