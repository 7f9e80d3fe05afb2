"""The transport over HTTP."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import ssl
from collections.abc import Sequence
from typing import Any

import httpx

from reward_serve.client.transport import (
    ServiceUnavailableError,
    answer_timeout_s,
    encoded,
    on_own_loop,
    parse_explanation,
    parse_group,
    parse_results,
)
from reward_serve.explanation import Explanation
from reward_serve.keys import API_KEY_VARIABLE
from reward_serve.schema import GroupResult, ScoreResult

_USERINFO = re.compile(r"//[^/?#]*@")


class HttpTransport:
    """Scores over HTTP, with the connections of the clients' event loop.

    Args:
        url: the service.
        api_key: sent as ``Authorization: Bearer``.

    Attributes:
        name: the service's URL, without a user's name and password.

    Raises:
        ServiceUnavailableError: the URL is malformed.
        ValueError: the key cannot be sent.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        api_key = (api_key or "").strip()
        if not api_key.isprintable() or not api_key.isascii():
            raise ValueError("api_key: contains characters that a header cannot carry")
        try:
            parsed = httpx.URL(url)
            if not (parsed.host and 0 <= (parsed.port or 0) < 2**16):
                raise ValueError("give http://HOST:PORT, with a port below 65536")
        except (httpx.InvalidURL, ValueError) as error:
            shown = _USERINFO.sub("//", url)
            raise ServiceUnavailableError(f"{shown}: is not a URL: {error}") from None
        self.name = str(parsed.copy_with(userinfo=b"")) if parsed.userinfo else url
        self._urls = {"": parsed}  # by path, as joining takes longer than looking up
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._client: httpx.AsyncClient | None = None
        self._is_known = False  # whether this service has answered

    async def ascore_batch(self, requests: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        """A result for each request, in order.

        Raises:
            ServiceUnavailableError: the URL does not answer, or another service does.
        """
        content = encoded({"requests": list(requests)}, requests)
        reply = await self._ask("POST", "/v1/score/batch", answer_timeout_s(requests), content)
        return parse_results(self._content(reply).get("results"), requests, self.name)

    async def aexplain(self, request: dict[str, Any]) -> Explanation:
        """The explanation of a request's result.

        Raises:
            ServiceUnavailableError: the URL does not answer, another service does, or this one does
                not explain results (``server.explain: false``).
        """
        content = encoded(request, [request])
        reply = await self._ask("POST", "/v1/explain", answer_timeout_s([request]), content)
        return parse_explanation(self._content(reply, expected="result"), self.name)

    async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
        """The result of one group; raises as ``ascore_batch``."""
        content = encoded(request, [request])
        reply = await self._ask("POST", "/v1/score/group", answer_timeout_s([request]), content)
        return parse_group(self._content(reply), request, self.name)

    async def models(self) -> list[dict[str, Any]]:
        """The service's reward models; raises as ``ascore_batch``."""
        reply = await self._ask("GET", "/v1/models", 10)
        models = self._content(reply).get("models")
        if not isinstance(models, list):
            raise ServiceUnavailableError(
                f"{self.name}: HTTP {reply.status_code}, not this service"
            )
        return models

    async def is_ready(self) -> bool:
        """Whether every reward model has a replica that can score."""
        try:
            reply = await self._ask("GET", "/ready", 5)
        except ServiceUnavailableError:
            return False
        return reply.status_code == 200

    async def aclose(self) -> None:
        """Close the connections. On the clients' event loop."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask(
        self, method: str, path: str, timeout_s: float, content: bytes | None = None
    ) -> httpx.Response:
        """The complete answer within ``timeout_s``; from any event loop."""
        try:
            async with asyncio.timeout(timeout_s):
                return await on_own_loop(self._exchange(method, path, content))
        except httpx.HTTPError as error:
            remedy = (
                "; is a service running there?" if isinstance(error, httpx.ConnectError) else ""
            )
            raise ServiceUnavailableError(
                f"{self.name}: {type(error).__name__}: {error}{remedy}"
            ) from error
        except TimeoutError as error:
            raise ServiceUnavailableError(
                f"{self.name}: no complete answer within {timeout_s:.1f} s"
            ) from error

    async def _exchange(self, method: str, path: str, content: bytes | None) -> httpx.Response:
        client = self._client = self._client or self._opened()
        if path not in self._urls:
            base = self._urls[""].raw_path.rstrip(b"/")
            self._urls[path] = self._urls[""].copy_with(raw_path=base + path.encode())
        # The client's own way to make a request merges settings, which takes longer than to send.
        return await client.send(
            httpx.Request(method, self._urls[path], headers=client.headers, content=content)
        )

    def _opened(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=self._headers,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            timeout=None,
            verify=_tls_context(),
        )

    def _content(self, reply: httpx.Response, expected: str = "status") -> dict[str, Any]:
        """The answer's content, if it is this service's and is ``expected`` or has status 200."""
        try:
            content = json.loads(reply.content)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            why = f"HTTP {reply.status_code}, not this service"
            if self._is_known:  # restarting: Serve's proxy answers 404 until it is deployed
                raise ServiceUnavailableError(f"{self.name}: {why}; it may be restarting")
            raise self._refused(reply, why)
        self._is_known = True
        if reply.status_code != 200 and expected not in content:
            detail = str(content.get("detail", "no detail"))
            if reply.status_code == 401:
                detail += f"; set {API_KEY_VARIABLE} to one of the service's keys"
            raise self._refused(reply, f"HTTP {reply.status_code}: {detail}")
        content.pop("detail", None)  # repeats the reason of a failure
        return content

    def _refused(self, reply: httpx.Response, why: str) -> ServiceUnavailableError:
        try:
            retry_after_s = max(0.0, float(reply.headers.get("retry-after", "")))
        except ValueError:  # none, or a date, which this service never sends
            retry_after_s = None
        return ServiceUnavailableError(
            f"{self.name}: {why}", status_code=reply.status_code, retry_after_s=retry_after_s
        )


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return httpx.create_ssl_context()
