"""The protocol of transports, and what they share: request ids, parsing and errors."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
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
    echoes,
    failure,
    longest_timeout_s,
    size_of_group,
)
from reward_serve.version import __version__

Result = TypeVar("Result")

_THREAD = "reward-serve"

_lock = threading.RLock()
_loop: asyncio.AbstractEventLoop | None = None


def _forget() -> None:
    global _lock, _loop
    # Threads do not survive a fork, and one may have held the lock.
    _lock, _loop = threading.RLock(), None


os.register_at_fork(after_in_child=_forget)


def process_lock() -> threading.RLock:
    """The lock of all that the clients of this process share; a forked process has its own."""
    return _lock


def own_loop() -> asyncio.AbstractEventLoop:
    """This process's loop; the first call starts it."""
    global _loop
    if _loop is None:
        with _lock:
            if _loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
                _loop = loop  # last, as Ctrl-C may come before
    return _loop


def refuse_to_block() -> None:
    """Raise RuntimeError on the loop's own thread, which must not wait for itself."""
    if threading.current_thread().name == _THREAD:  # under gevent every thread has the loop running
        raise RuntimeError("this would block the clients' event loop; await the async method")


def run(work: Coroutine[Any, Any, Result]) -> Result:
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


async def on_own_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Await a coroutine that must run on the loop, from any loop."""
    if asyncio.get_running_loop() is own_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, own_loop()))


def in_thread(work: Callable[[], Result]) -> Future[Result]:
    """Run blocking work in a daemon thread.

    Unlike an executor's threads, it neither keeps the process from ending nor is refused once the
    main thread has ended.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # a caller that leaves does not cancel it

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=target, name="reward-serve work", daemon=True).start()
    return future


logger = logging.getLogger(__name__)

SERVICE_GRACE_S = 5.0
"""Seconds that a transport waits beyond the deadline, which the service enforces."""
TOO_LARGE = 413
MALFORMED = 422
_TOO_MANY = 429
_NOT_JSON = (TypeError, ValueError, RecursionError)
_RETRYABLE = frozenset([408, 425, _TOO_MANY, 500, 502, 503, 504])

Request = ScoreRequest | Mapping[str, Any]
_Answer = TypeVar("_Answer", bound=BaseModel)


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
    """The request with an id: its own, or a generated one."""
    return {**body, "id": f"{_prefix}{next(_numbers)}"} if body.get("id") is None else body


def encoded(body: Mapping[str, Any]) -> bytes | ScoreResult:
    """The request as JSON, or its typed failure if JSON cannot carry it.

    A handle pickles requests, and what cannot be pickled here or loaded there would fail its whole
    batch; so both transports send only what JSON carries. Lone surrogates and NaN are written as
    Python's json does; the service refuses them and names the field.
    """
    try:
        return json.dumps(body).encode()
    except _NOT_JSON as error:
        field = next((str(name) for name in body if not _is_json(body[name])), "request")
        reason = f"{field}: cannot be written as JSON: {error}; send plain Python values"
        return failure(Status.INVALID, reason, **echoes(dict(body)))


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except _NOT_JSON:
        return False
    return True


def check_ids(
    results: Sequence[ScoreResult | GroupResult], bodies: Sequence[Mapping[str, Any]], where: str
) -> None:
    """Check that each result is that of its request.

    Raises:
        ServiceUnavailableError: a result has the id of another request, or a score but no id; the
            message names ``where`` it came from.
    """
    for result, body in zip(results, bodies, strict=True):
        asked = body.get("id")
        if result.id != asked and (result.id is not None or result.status is Status.OK):
            raise ServiceUnavailableError(
                f"{where}: answered the request {asked!r} with the result of {result.id!r}"
            )


def answer_timeout_s(bodies: Sequence[Mapping[str, Any]]) -> float:
    """Seconds to wait for the service: the longest deadline of the requests, plus the grace."""
    return longest_timeout_s(bodies) + SERVICE_GRACE_S


def with_time_left(body: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The request with this deadline; one whose deadline is invalid stays, for its refusal."""
    if longest_timeout_s([body]) != body.get("timeout_s"):
        return body
    return {**body, "timeout_s": max(seconds, 0.001)}


def warn_of_other_major(version: str) -> bool:
    """Warn if the service's major version is not the client's; returns whether it warned."""
    if version.split(".")[0] == __version__.split(".")[0]:
        return False
    logger.warning(
        "the service is version %s and this client %s; their contracts may differ",
        version,
        __version__,
    )
    return True


def parse_result(content: Any, where: str) -> ScoreResult:
    """Validate a result.

    Raises:
        ServiceUnavailableError: it is not one; the message names ``where`` it came from.
    """
    return _parsed(ScoreResult, content, f"{where}: its answer is not a result")


def parse_explanation(content: Any, where: str) -> Explanation:
    """Validate an explanation; raises as ``parse_result``."""
    return _parsed(Explanation, content, f"{where}: its answer is not an explanation")


def parse_group(content: Any, body: Mapping[str, Any], where: str) -> GroupResult:
    """Validate the result of a group, as ``parse_result`` and ``check_ids`` do."""
    found = _parsed(GroupResult, content, f"{where}: its answer is not that of a group")
    if found.status is Status.OK and len(found.results) != size_of_group(body):
        raise ServiceUnavailableError(f"{where}: a group was not answered in full")
    check_ids([found], [body], where)
    return found


def _parsed(contract: type[_Answer], content: Any, message: str) -> _Answer:
    try:
        return contract.model_validate(content)
    except ValidationError as error:
        raise ServiceUnavailableError(f"{message}: {describe_errors(error)}") from error


def _new_prefix() -> None:
    global _prefix
    _prefix = f"{uuid4().hex[:12]}-"


_prefix: str
_numbers = count()
_new_prefix()
os.register_at_fork(after_in_child=_new_prefix)
