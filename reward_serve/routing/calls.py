"""Calls between Serve deployments: how they travel, how they fail, who cancelled them.

By default a call's arguments and result pass through Ray's object store, which is for data that
many read. Requests and results are read once: sent over gRPC, a call takes half the time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from reward_serve.schema import Status


class NoAnswerError(Exception):
    """No replica answered a call.

    Attributes:
        status: ``timeout``, ``overloaded`` or ``error``.
        reason: why.
        too_large: the call or its result did not fit a message; do not retry it unchanged.
    """

    def __init__(self, status: Status, reason: str, too_large: bool = False) -> None:
        self.status, self.reason, self.too_large = status, reason, too_large


def by_value(handle: Any) -> Any:
    """The deployment's handle, for calls over gRPC; as it was where Ray is older than that."""
    try:
        return handle.options(
            _by_reference=False, request_serialization="pickle", response_serialization="pickle"
        )
    except TypeError:
        return handle


def by_reference(handle: Any) -> Any:
    """The same, for calls of any size, through the object store."""
    try:
        return handle.options(_by_reference=True)
    except TypeError:
        return handle


async def answer_of(call: Any, until: float) -> Any:
    """The answer to a call by a time of the event loop's clock; cancelled then, or with its caller.

    Raises:
        NoAnswerError: there was none.
    """
    try:
        async with asyncio.timeout_at(until):
            return await call
    except BaseException as error:
        if not isinstance(error, (asyncio.CancelledError, *call_errors())):
            raise
        call.cancel()
        raise no_answer(error) from error


def no_answer(error: BaseException) -> NoAnswerError:
    """What an exception in place of an answer means; the caller's own cancellation is raised."""
    from ray.serve.exceptions import BackPressureError

    if isinstance(error, asyncio.CancelledError) and cancelled_by_caller():
        raise error
    status, reason = Status.ERROR, f"the replica was lost ({type(error).__name__}); retry"
    if isinstance(error, TimeoutError):
        status, reason = Status.TIMEOUT, "no replica answered in time"
    elif isinstance(error, BackPressureError):
        status = Status.OVERLOADED
        reason = "every replica is at its limit of calls; retry after a pause"
    told = NoAnswerError(status, reason, _is_too_large(error))
    told.__cause__ = error
    return told


def _is_too_large(error: BaseException) -> bool:
    from grpc import StatusCode  # type: ignore[import-untyped]

    code = getattr(error, "code", None)
    return callable(code) and code() is StatusCode.RESOURCE_EXHAUSTED


def call_errors() -> tuple[type[BaseException], ...]:
    """What a call raises when its replica is gone, refuses it or is not to be reached in time."""
    import grpc
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    return TimeoutError, RayError, RayServeException, grpc.RpcError


def cancelled_by_caller() -> bool:
    """Whether a CancelledError is this task's own; else the call's other end was cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
