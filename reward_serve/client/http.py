"""The client over HTTP.

>>> client = HttpRewardClient("http://127.0.0.1:8000")  # doctest: +SKIP
>>> client.score({"response": "#### 18", "reference": "18"}).score  # doctest: +SKIP
1.0
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import ssl
from collections.abc import AsyncGenerator, Sequence
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Any, Self

import httpx

from reward_serve.client.bodies import Answer, NotJSONError, encode, encode_batch, merge, read
from reward_serve.client.loop import own_loop, run
from reward_serve.client.transport import (
    Request,
    ServiceUnavailableError,
    as_dict,
    deadline,
    own_results,
    parse_explanation,
    parse_result,
    warn_of_other_major,
    with_ids,
)
from reward_serve.explanation import Explanation
from reward_serve.schema import ScoreResult
from reward_serve.version import VERSION_HEADER

_DETAIL_CHARACTERS = 2000
_USERINFO = re.compile(r"//[^/?#]*@")


class HttpRewardClient:
    """Scores over HTTP, from any thread, event loop and forked process.

    The async methods have a pool of connections for each event loop, the sync methods one for all.
    Pickling drops the connections.

    Args:
        url: the service, such as ``http://127.0.0.1:8000``.
        api_key: sent as ``Authorization: Bearer``.
        timeout_s: deadline of requests that name none.

    Attributes:
        url: the service, without a user's name and password.

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
            if not (parsed.host and 0 <= (parsed.port or 0) < 2**16):
                raise ValueError("give http://HOST:PORT, with a port below 65536")
        except (httpx.InvalidURL, ValueError) as error:
            shown = _USERINFO.sub("//", url)
            raise ServiceUnavailableError(f"{shown}: is not a URL: {error}") from None
        self._arguments = (url, api_key, timeout_s)
        self._timeout_s = timeout_s
        self.url = str(parsed.copy_with(userinfo=b"")) if parsed.userinfo else url
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._settings: dict[str, Any] = {
            "base_url": url,
            "headers": headers,
            "verify": _tls_context(),
            "timeout": None,  # of single reads; see _ask
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=64),
        }
        self._clients: dict[
            asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[None, None]]
        ] = {}
        self._warned = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    def score(self, request: Request) -> ScoreResult:
        """The result of one request.

        Raises:
            ServiceUnavailableError: no service at the URL, or not this one.
        """
        return run(self.ascore(request))

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """A result for each request, in order.

        Raises:
            ServiceUnavailableError: no service at the URL, or not this one.
        """
        return run(self.ascore_batch(requests))

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        body = as_dict(request, self._timeout_s)
        (sent,) = with_ids([body])
        try:
            content = encode(sent)
        except NotJSONError as error:
            return own_results([error.result], [sent], [body], self.url)[0]
        reply = await self._post("/v1/score", content, deadline([body]))
        return own_results([self._single(reply)], [sent], [body], self.url)[0]

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        sent = with_ids(bodies)
        content, refused = encode_batch(sent)
        reply = await self._post("/v1/score/batch", content, deadline(bodies))
        results = merge(self._batch(reply, len(bodies) - len(refused)), refused)
        return own_results(results, sent, bodies, self.url)

    def explain(self, request: Request, tokens: bool = False) -> Explanation:
        """The result of one request, and what led to it.

        Args:
            request: as for ``score``.
            tokens: whether to show the prompts' tokens.

        Raises:
            ServiceUnavailableError: no service at the URL, not this one, or one that explains
                nothing (``server.explain: false``).
        """
        return run(self.aexplain(request, tokens))

    async def aexplain(self, request: Request, tokens: bool = False) -> Explanation:
        """``explain``, awaited."""
        body = {**as_dict(request, self._timeout_s), "tokens": tokens}
        try:
            content = encode(body)
        except NotJSONError as error:
            return Explanation(result=error.result)
        return self._explanation(await self._post("/v1/explain", content, deadline([body])))

    def models(self) -> list[dict[str, Any]]:
        """The service's reward models, as ``/v1/models`` lists them."""
        reply = run(self._ask("GET", "/v1/models", 10))
        models = self._content(reply).get("models")
        if not isinstance(models, list):
            raise ServiceUnavailableError(f"{self.url}: HTTP {reply.status_code}, not this service")
        return models

    def is_ready(self) -> bool:
        """Whether every reward model has a replica that can score."""
        try:
            return run(self._ask("GET", "/ready", 5)).status_code == 200
        except ServiceUnavailableError:
            return False

    def close(self) -> None:
        """Close the connections of the sync methods."""
        run(self._close())

    async def aclose(self) -> None:
        """Close the connections of this event loop, and those of the sync methods."""
        await self._close()
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._close(), own_loop()))

    async def _close(self) -> None:
        held = self._clients.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held[1].aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def _post(self, path: str, body: bytes, timeout_s: float) -> Answer:
        return await self._ask("POST", path, timeout_s, content=body)

    async def _ask(self, method: str, path: str, timeout_s: float, **content: Any) -> Answer:
        """The reply, if its last byte comes within ``timeout_s``."""
        try:
            async with (
                asyncio.timeout(timeout_s),
                (await self._client()).stream(method, path, **content) as reply,
            ):
                return await read(reply, self.url)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        except TimeoutError as error:
            raise ServiceUnavailableError(
                f"{self.url}: no complete answer within {timeout_s:.1f} s"
            ) from error

    async def _client(self) -> httpx.AsyncClient:
        """This event loop's connections; another process, forked from this one, has other loops."""
        loop = asyncio.get_running_loop()
        client, _ = self._clients.get(loop, (None, None))
        if client is None or client.is_closed:
            for other in list(self._clients):  # a copy, as other threads add theirs
                if other.is_closed():
                    self._clients.pop(other, None)
            no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
            client = httpx.AsyncClient(**self._settings, cookies=no_cookies)
            closing = _closing(client)
            self._clients[loop] = client, closing
            await anext(closing)
        return client

    def _unreachable(self, error: httpx.HTTPError) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"{self.url}: {type(error).__name__}: {error}")

    def _single(self, reply: Answer) -> ScoreResult:
        content = self._content(reply)
        content.pop("detail", None)
        return parse_result(content, self.url)

    def _explanation(self, reply: Answer) -> Explanation:
        content = self._content(reply, expected="result")
        content.pop("detail", None)
        return parse_explanation(content, self.url)

    def _batch(self, reply: Answer, size: int) -> list[ScoreResult]:
        results = self._content(reply).get("results")
        if not isinstance(results, list) or len(results) != size:
            raise ServiceUnavailableError(f"{self.url}: a batch of {size} was not answered in full")
        return [parse_result(content, self.url) for content in results]

    def _content(self, reply: Answer, expected: str = "status") -> dict[str, Any]:
        self._check_version(reply.headers.get(VERSION_HEADER))
        try:
            content = json.loads(reply.body)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise self._refused(reply, f"HTTP {reply.status_code}, not this service")
        if reply.status_code != 200 and expected not in content:
            detail = str(content.get("detail", "no detail"))[:_DETAIL_CHARACTERS]
            raise self._refused(reply, f"HTTP {reply.status_code}: {detail}")
        return content

    def _refused(self, reply: Answer, why: str) -> ServiceUnavailableError:
        return ServiceUnavailableError(
            f"{self.url}: {why}",
            status_code=reply.status_code,
            retry_after_s=_retry_after_s(reply),
        )

    def _check_version(self, version: str | None) -> None:
        if version is not None and not self._warned:
            self._warned = warn_of_other_major(version)


async def _closing(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Close the connections when the event loop ends, which closes its generators (asyncio.run)."""
    try:
        yield
    finally:
        await client.aclose()


def _retry_after_s(reply: Answer) -> float | None:
    try:
        return max(0.0, float(reply.headers.get("retry-after", "")))
    except ValueError:  # none, or a date, which this service never sends
        return None


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return httpx.create_ssl_context()
