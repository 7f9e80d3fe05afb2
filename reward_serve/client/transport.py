"""The transports of a client, by handle and over HTTP, and the event loop that they share."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from itertools import count
from typing import Any, Literal, TypeVar
from uuid import uuid4

import httpx
from pydantic import BaseModel, ValidationError

from reward_serve.explanation import Explanation
from reward_serve.keys import API_KEY_VARIABLE
from reward_serve.logprobs import LogprobsResult
from reward_serve.routing.dispatch import Deliver, Dispatcher, call_errors, handle_of
from reward_serve.schema import (
    GroupResult,
    ScoreRequest,
    ScoreResult,
    Status,
    describe_errors,
    longest_timeout_s,
    size_of_group,
)

DEFAULT_APP = "reward"
SERVICE_GRACE_S = 5.0
"""Seconds that a transport waits beyond the deadline, which the service enforces."""
TOO_LARGE = 413
MALFORMED = 422
_TOO_MANY = 429
_RETRYABLE = frozenset([408, 425, _TOO_MANY, 500, 502, 503, 504])
_CONNECT_S = 30.0
_LINES = "application/x-ndjson"
_ROUTES = {  # and a field of each one's answer
    "score_group": ("/v1/score/group", "status"),
    "explain": ("/v1/explain", "result"),
    "logprobs": ("/v1/logprobs", "status"),
}

Request = ScoreRequest | Mapping[str, Any]
Checked = ScoreResult | GroupResult | LogprobsResult
Method = Literal["score_group", "explain", "logprobs"]
_Result = TypeVar("_Result")
_Answer = TypeVar("_Answer", bound=BaseModel)


class _Process:
    """What the clients of this process share, which begins anew when it is forked."""

    was_forked_with_ray = False

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self._begin_forked)

    def begin(self) -> None:
        self.id, self.numbers = uuid4().hex[:12], count()
        self.lock = threading.RLock()  # a thread of the parent's may hold the other
        self.loop: asyncio.AbstractEventLoop | None = None  # no thread survives a fork

    def _begin_forked(self) -> None:
        self.begin()
        ray = sys.modules.get("ray")
        self.was_forked_with_ray |= ray is not None and ray.is_initialized()


process = _Process()


def own_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process's clients; the first call starts it in a thread."""
    with process.lock:
        if process.loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="reward-serve", daemon=True).start()
            process.loop = loop  # last, as Ctrl-C may come before
        return process.loop


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine on the loop and wait for its result, in another thread than the loop's."""
    return asyncio.run_coroutine_threadsafe(work, own_loop()).result()


async def on_own_loop(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Await a coroutine that must run on the loop, from any loop."""
    if asyncio.get_running_loop() is own_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, own_loop()))


class ServiceUnavailableError(RuntimeError):
    """The service cannot be reached, refuses the call, or does not keep the wire contract.

    Attributes:
        status_code: the HTTP status, if there is one.
        retry_after_s: the pause that the service asks for, in seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.retry_after_s = retry_after_s

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status_code is None or self.status_code in _RETRYABLE

    @property
    def answered(self) -> bool:
        """Whether the service itself refused, which proves that it is up."""
        busy = self.status_code == _TOO_MANY or self.retry_after_s is not None
        return busy or not self.retryable


class NotConnectedError(ServiceUnavailableError):
    """This process cannot score by handle: no cluster, or Ray is not installed as this needs."""


class ServiceTransport(ABC):
    """The transport of a client. Results are matched with requests by ``id`` (see ``with_id``).

    Args:
        name: the service in messages, such as its URL.

    Attributes:
        window_s_per_batch: see ``Coalescer``; in proportion to the cores' time that a call takes.
    """

    window_s_per_batch = 0.000_125

    def __init__(self, name: str) -> None:
        self.name = name

    async def ascore_each(self, requests: Sequence[dict[str, Any]], deliver: Deliver) -> None:
        """Score the requests, and deliver each result when it is final.

        Raises:
            ServiceUnavailableError: the service cannot be reached, refuses the batch or does not
                answer it in full, or another service answers; what was delivered is final.
            NotConnectedError: by handle, there is no cluster, Ray Serve is not installed, or this
                process was forked from one that is connected to Ray.
        """
        left = set(range(len(requests)))

        def receive(contents: Sequence[tuple[int, Any]]) -> None:
            results = [(i, self._parsed(ScoreResult, item, "a result")) for i, item in contents]
            for index, result in results:
                if index not in left:
                    raise self._fault(f"answered item {index!r} of {len(requests)}, or twice")
                left.remove(index)
                self._check_id(result, requests[index])
            deliver(results)

        await self._score(requests, receive)
        if left:
            raise self._fault(f"a batch of {len(requests)} was not answered in full")

    async def ascore_batch(self, requests: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        """The results of ``ascore_each``, in order; raises like it."""
        results: dict[int, ScoreResult] = {}
        await self.ascore_each(requests, results.update)
        return [results[index] for index in range(len(requests))]

    async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
        """The result of one group; raises as ``ascore_batch``."""
        content = await self._answer("score_group", request)
        group = self._parsed(GroupResult, content, "that of a group")
        if group.status is Status.OK and len(group.results) != size_of_group(request):
            raise self._fault("a group was not answered in full")
        self._check_id(group, request)
        return group

    async def alogprobs(self, request: dict[str, Any]) -> LogprobsResult:
        """The log-probabilities of one sequence; raises as ``ascore_batch``."""
        content = await self._answer("logprobs", {**request, "encoding_format": "base64"})
        result = self._parsed(LogprobsResult, content, "log-probabilities")
        ids, response = request.get("token_ids"), request.get("response_token_ids") or ()
        scored = len(ids) - result.start if ids else len(response)
        if result.status is Status.OK and result.logprobs.size != scored:
            raise self._fault("a sequence was not answered in full")
        self._check_id(result, request)
        return result

    async def aexplain(self, request: dict[str, Any]) -> Explanation:
        """The explanation of a request's result; raises as ``ascore_batch``."""
        content = await self._answer("explain", request)
        return self._parsed(Explanation, content, "an explanation")

    @abstractmethod
    async def _score(self, requests: Sequence[dict[str, Any]], receive: Deliver) -> None:
        """Score a batch; ``receive`` is called with the contents of results and their indices."""

    @abstractmethod
    async def _answer(self, method: Method, body: dict[str, Any]) -> Any:
        """The content of the service's answer to a single request."""

    def _fault(self, what: str, **fields: Any) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"{self.name}: {what}", **fields)

    def _parsed(self, contract: type[_Answer], content: Any, expected: str) -> _Answer:
        try:
            return contract.model_validate(content)
        except ValidationError as error:
            why = f"its answer is not {expected}: {describe_errors(error)}"
            raise self._fault(why) from error

    def _check_id(self, result: Checked, body: Mapping[str, Any]) -> None:
        asked = body.get("id")
        if result.id != asked and (result.id is not None or result.status is Status.OK):
            raise self._fault(f"answered the request {asked!r} with the result of {result.id!r}")


class HttpTransport(ServiceTransport):
    """Scores over HTTP, with the connections of the clients' event loop.

    Args:
        url: the service; a user's name and password in it are sent but not shown.
        api_key: sent as ``Authorization: Bearer``.
        connections: maximum connections to keep while idle; those in use have no limit.

    Raises:
        ServiceUnavailableError: the URL is malformed.
        ValueError: the key cannot be sent.
    """

    window_s_per_batch = 0.000_5

    def __init__(self, url: str, api_key: str | None = None, connections: int = 64) -> None:
        api_key = (api_key or "").strip()
        if not api_key.isprintable() or not api_key.isascii():
            raise ValueError("api_key: contains characters that a header cannot carry")
        try:
            parsed = httpx.URL(url := url.strip())
            if not (parsed.host and 0 <= (parsed.port or 0) < 2**16):
                raise ValueError("give http://HOST:PORT, with a port below 65536")
        except (httpx.InvalidURL, ValueError) as error:
            without_user = url.rpartition("@")[2]
            raise ServiceUnavailableError(f"{without_user}: is not a URL: {error}") from None
        super().__init__(str(parsed.copy_with(userinfo=b"")) if parsed.userinfo else url)
        base = parsed.raw_path.rstrip(b"/")
        # Joining takes longer than looking up.
        self._url = functools.cache(lambda path: parsed.copy_with(raw_path=base + path.encode()))
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._limits = httpx.Limits(max_keepalive_connections=connections)
        self._client: httpx.AsyncClient | None = None
        self._is_known = False  # whether this service has answered

    async def ask(
        self,
        path: str,
        field: str,
        timeout_s: float,
        body: Any = None,
        receive: Deliver | None = None,
    ) -> dict[str, Any]:
        """The answer, which has ``field``; from any event loop. Raises as ``ascore_batch``.

        With ``receive``, results may be streamed to it, and the answer is then empty.
        """
        content = None if body is None else json.dumps(body).encode()
        try:
            async with asyncio.timeout(timeout_s):
                reply = await on_own_loop(self._exchange(path, content, receive))
        except httpx.HTTPError as error:
            is_away = isinstance(error, httpx.ConnectError)
            remedy = "; is a service running there?" if is_away else ""
            raise self._fault(f"{type(error).__name__}: {error}{remedy}") from error
        except TimeoutError as error:
            raise self._fault(f"no complete answer within {timeout_s:.1f} s") from error
        return self._content(reply, field) if reply else {}

    async def aclose(self) -> None:
        """Close the connections. On the clients' event loop."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _score(self, requests: Sequence[dict[str, Any]], receive: Deliver) -> None:
        timeout_s = longest_timeout_s(requests) + SERVICE_GRACE_S
        body = {"requests": list(requests)}
        streams = receive if len(requests) > 1 else None  # a stream of one costs more
        answer = await self.ask("/v1/score/batch", "results", timeout_s, body, streams)
        results = answer.get("results")
        receive([*enumerate(results if isinstance(results, list) else [])])

    async def _answer(self, method: Method, body: dict[str, Any]) -> Any:
        return await self.ask(*_ROUTES[method], longest_timeout_s([body]) + SERVICE_GRACE_S, body)

    async def _exchange(
        self, path: str, content: bytes | None, receive: Deliver | None
    ) -> httpx.Response | None:
        """The complete response; None if it was streamed."""
        client = self._client = self._client or self._opened()
        method = "GET" if content is None else "POST"
        # The client's own way to make a request merges settings, which takes longer than to send.
        request = httpx.Request(method, self._url(path), headers=client.headers, content=content)
        if receive is not None:
            request.headers["Accept"] = _LINES
        async with aclosing(await client.send(request, stream=True)) as reply:
            is_stream = (reply.status_code, reply.headers.get("content-type")) == (200, _LINES)
            if receive is None or not is_stream:
                await reply.aread()
                return reply
            self._is_known = True
            rest = b""
            async for part in reply.aiter_raw():
                *lines, rest = (rest + part).split(b"\n")
                results = [json.loads(line) for line in lines]
                receive([(result.pop("index", None), result) for result in results])
        return None

    def _opened(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=self._headers,
            limits=self._limits,
            timeout=None,
            verify=_tls_context(),
        )

    def _content(self, reply: httpx.Response, field: str) -> dict[str, Any]:
        """The answer's content, which has ``field`` if the service has not refused."""
        try:
            content = json.loads(reply.content)
        except ValueError:
            content = None
        content = content if isinstance(content, dict) else {}
        if field in content:
            self._is_known = True
            content.pop("detail", None)  # repeats the reason of a failure
            return content
        what, retry_after_s = f"HTTP {reply.status_code}", None
        if "detail" in content:
            self._is_known = True
            what += f": {content['detail']}"
        elif self._is_known and reply.status_code != TOO_LARGE:  # Serve's, undeployed
            raise self._fault(f"{what}, not this service; it may be restarting")
        else:
            what += ", not this service"
        if reply.status_code == 401:
            what += f"; set {API_KEY_VARIABLE} to one of the service's keys"
        with suppress(ValueError):  # none, or a date, which this service never sends
            retry_after_s = max(0.0, float(reply.headers.get("retry-after", "")))
        raise self._fault(what, status_code=reply.status_code, retry_after_s=retry_after_s)


_tls_context = functools.cache(httpx.create_ssl_context)


class HandleTransport(ServiceTransport):
    """Scores by handle, from any process of the Ray cluster that serves the application.

    The first call connects. If a replica is lost, its items are ``error`` results. Requests to a
    gateway wait until the applications behind it are deployed.

    Args:
        app: the Serve application's name.
    """

    def __init__(self, app: str) -> None:
        super().__init__(f"app {app!r}")
        self._app = app
        self._connecting: Future[Dispatcher] | None = None
        self._dispatcher: Dispatcher | None = None
        self._max_batch_items: float = math.inf

    async def _score(self, requests: Sequence[dict[str, Any]], receive: Deliver) -> None:
        dispatcher = self._dispatcher or await self._connected(requests)
        if len(requests) > self._max_batch_items:  # each replica sees only its part
            raise self._fault(
                f"requests: {len(requests)} items; the limit is server.max_batch_items: "
                f"{self._max_batch_items}, so split the batch",
                status_code=TOO_LARGE,
            )
        await dispatcher.score_each(requests, receive)

    async def _answer(self, method: Method, body: dict[str, Any]) -> Any:
        dispatcher = self._dispatcher or await self._connected([body])
        return await getattr(dispatcher, method)(body)

    async def _connected(self, bodies: Sequence[dict[str, Any]]) -> Dispatcher:
        """The connection, which one thread opens; callers wait until their own deadlines."""
        timeout_s = longest_timeout_s(bodies) + SERVICE_GRACE_S
        if process.was_forked_with_ray:  # the call would hang
            raise NotConnectedError(
                f"{self.name}: this process was forked from one that is connected to Ray, "
                "which fork() does not support; start it with spawn, or score over HTTP"
            )
        if self._connecting is None or self._connecting.done():
            self._connecting = _in_daemon(self._connect)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(self._connecting)
        except ImportError as error:
            raise NotConnectedError(
                f"{self.name}: scoring by handle needs Ray Serve ({error}); install the cluster's "
                'version of "ray[serve]", or score over HTTP (REWARD_SERVE_URL)'
            ) from error
        except ConnectionError as error:
            raise NotConnectedError(
                f"{self.name}: this process is not in a Ray cluster, and none was found on this "
                "machine; set RAY_ADDRESS (RAY_AUTH_TOKEN_PATH too, if another user serves) or "
                "call ray.init first, or score over HTTP (REWARD_SERVE_URL)"
            ) from error
        except call_errors() as error:
            why = str(error).rstrip(".") or f"no connection within {timeout_s:g} s"
            raise self._fault(
                f"{type(error).__name__}: {why}; is it deployed on the cluster that this process "
                "belongs to (RAY_ADDRESS)? To score over HTTP, set REWARD_SERVE_URL"
            ) from error

    def _connect(self) -> Dispatcher:
        import reward_serve.routing.router  # noqa: F401 which Serve loads at the first call

        served = handle_of(self._app).models.remote().result(timeout_s=_CONNECT_S)
        self._max_batch_items = served.get("max_batch_items", self._max_batch_items)
        # Behind a gateway, each model has an application of its own.
        handles = {name: handle_of(app, name) for name, app in served["applications"].items()}
        tables = served["aliases"], served.get("by_row")
        self._dispatcher = Dispatcher(handles, *tables, grace_s=SERVICE_GRACE_S, detached=True)
        return self._dispatcher


def _in_daemon(work: Callable[[], _Result]) -> Future[_Result]:
    """Run work in a daemon thread; unlike an executor's, it does not keep a process from ending."""
    future: Future[_Result] = Future()
    future.set_running_or_notify_cancel()  # a caller that leaves does not cancel it

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=target, name="reward-serve connecting", daemon=True).start()
    return future


def as_dict(request: BaseModel | Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A request as a plain dict, with the client's defaults for fields that it does not set."""
    if isinstance(request, Mapping):
        return {**defaults, **request}
    if isinstance(request, BaseModel):
        return {**defaults, **request.model_dump(mode="json", exclude_unset=True)}
    kind = type(request).__name__
    raise TypeError(f"request: must be a dict or a ScoreRequest (found {kind})")


def with_id(body: dict[str, Any]) -> dict[str, Any]:
    """The request with an id: its own, or a generated one that no other process generates."""
    if body.get("id") is not None:
        return body
    return {**body, "id": f"{process.id}-{next(process.numbers)}"}
