"""What the client's modules share: its event loop, the transports' protocol and errors, parsing."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from reward_serve.explanation import Explanation
from reward_serve.schema import (
    GroupResult,
    ScoreRequest,
    ScoreResult,
    Status,
    describe_errors,
    longest_timeout_s,
    size_of_group,
)

SERVICE_GRACE_S = 5.0
"""Seconds that a transport waits beyond the deadline, which the service enforces."""
TOO_LARGE = 413
MALFORMED = 422
_TOO_MANY = 429
_NOT_JSON = (TypeError, ValueError, RecursionError)
_RETRYABLE = frozenset([408, 425, _TOO_MANY, 500, 502, 503, 504])
_THREAD = "reward-serve"

Request = ScoreRequest | Mapping[str, Any]
_Result = TypeVar("_Result")
_Answer = TypeVar("_Answer", bound=BaseModel)

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: no thread survives a fork
_id_prefix = uuid4().hex[:12]
_id_numbers = count()


def own_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process's clients; the first call starts it in a thread."""
    pid = os.getpid()
    if pid not in _loops:
        with _lock:
            if pid not in _loops:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
                _loops[pid] = loop  # last, as Ctrl-C may come before
    return _loops[pid]


def refuse_to_block() -> None:
    """Raise RuntimeError on the loop's own thread, which must not wait for itself."""
    if threading.current_thread().name == _THREAD:
        raise RuntimeError("this would block the clients' event loop; await the async method")


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine on the loop and wait for its result.

    Raises:
        RuntimeError: the caller runs on the loop itself, for example in a transport.
    """
    try:
        refuse_to_block()
    except RuntimeError:
        work.close()
        raise
    future = asyncio.run_coroutine_threadsafe(work, own_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


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


class NotSentError(ServiceUnavailableError):
    """JSON cannot carry a request, so nothing was sent."""

    @property
    def answered(self) -> bool:
        """False: the service was not asked."""
        return False


class NotConnectedError(ServiceUnavailableError):
    """This process cannot score by handle: no cluster, or Ray is not installed as this needs."""


class Transport(Protocol):
    """Sends a batch to a service once, without retries.

    Results are matched with requests by ``id``, which callers set (``with_id``).
    """

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        """A result for each request, in order.

        Raises:
            ServiceUnavailableError: the call failed as a whole.
        """


class ServiceTransport(Transport, Protocol):
    """The transport of a client, which can explain results, too.

    Attributes:
        name: the service in messages, such as its URL.
    """

    name: str

    async def aexplain(self, request: dict[str, Any]) -> Explanation:
        """The explanation of one request's result; raises as ``ascore_batch``."""

    async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
        """The result of one group; raises as ``ascore_batch``."""


def as_dict(request: Request, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A request as a plain dict, with the client's defaults for fields that it does not set."""
    if isinstance(request, ScoreRequest):
        request = request.model_dump(mode="json", exclude_unset=True)
    if not isinstance(request, Mapping):
        found = type(request).__name__
        raise TypeError(f"request: must be a dict or a ScoreRequest (found {found})")
    return {**defaults, **request}


def with_id(body: dict[str, Any]) -> dict[str, Any]:
    """The request with an id: its own, or a generated one that no other process generates."""
    if body.get("id") is not None:
        return body
    return {**body, "id": f"{_id_prefix}-{os.getpid()}-{next(_id_numbers)}"}


def encoded(content: Any, bodies: Sequence[Mapping[str, Any]]) -> bytes:
    """``content``, made of the requests ``bodies``, as JSON.

    By handle, a request that cannot be pickled here or loaded there would fail its whole batch; so
    both transports send only what JSON carries. Lone surrogates and NaN are written as Python's
    json does; the service refuses them and names the field.

    Raises:
        NotSentError: JSON cannot carry a field, which the message names.
    """
    try:
        return json.dumps(content).encode()
    except _NOT_JSON as error:
        fields = (str(name) for body in bodies for name in body if not _is_json(body[name]))
        reason = f"cannot be written as JSON: {error}; send plain Python values"
        raise NotSentError(f"{next(fields, 'request')}: {reason}", status_code=MALFORMED) from error


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except _NOT_JSON:
        return False
    return True


def answer_timeout_s(bodies: Sequence[Mapping[str, Any]]) -> float:
    """Seconds to wait for the service: the longest deadline of the requests, plus the grace."""
    return longest_timeout_s(bodies) + SERVICE_GRACE_S


def parse_results(
    contents: Any, bodies: Sequence[Mapping[str, Any]], where: str
) -> list[ScoreResult]:
    """Validate the results of a batch, and that each is that of its request.

    Raises:
        ServiceUnavailableError: they are not; the message names ``where`` they came from.
    """
    if not isinstance(contents, list) or len(contents) != len(bodies):
        raise ServiceUnavailableError(f"{where}: a batch of {len(bodies)} was not answered in full")
    message = f"{where}: its answer is not a result"
    results = [_parsed(ScoreResult, content, message) for content in contents]
    for result, body in zip(results, bodies, strict=True):
        _check_id(result, body, where)
    return results


def parse_group(content: Any, body: Mapping[str, Any], where: str) -> GroupResult:
    """Validate the result of a group, as ``parse_results`` does."""
    found = _parsed(GroupResult, content, f"{where}: its answer is not that of a group")
    if found.status is Status.OK and len(found.results) != size_of_group(body):
        raise ServiceUnavailableError(f"{where}: a group was not answered in full")
    _check_id(found, body, where)
    return found


def parse_explanation(content: Any, where: str) -> Explanation:
    """Validate an explanation; raises as ``parse_results``."""
    return _parsed(Explanation, content, f"{where}: its answer is not an explanation")


def _parsed(contract: type[_Answer], content: Any, message: str) -> _Answer:
    try:
        return contract.model_validate(content)
    except ValidationError as error:
        raise ServiceUnavailableError(f"{message}: {describe_errors(error)}") from error


def _check_id(result: ScoreResult | GroupResult, body: Mapping[str, Any], where: str) -> None:
    asked = body.get("id")
    if result.id != asked and (result.id is not None or result.status is Status.OK):
        raise ServiceUnavailableError(
            f"{where}: answered the request {asked!r} with the result of {result.id!r}"
        )
