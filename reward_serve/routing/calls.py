"""Calls between Serve deployments: their failures and cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

from reward_serve.groups.schema import GroupResult
from reward_serve.schema import ScoreResult, Status


class NoAnswerError(Exception):
    """No replica answered a call.

    Attributes:
        status: ``timeout``, ``overloaded`` or ``error``; ``invalid`` if a retry cannot help.
        reason: why the call failed.
    """

    def __init__(self, status: Status, reason: str) -> None:
        self.status, self.reason = status, reason

    @property
    def details(self) -> dict[str, Any] | None:
        """The details of the results, by which ``is_answer`` tells them from a replica's own."""
        return {"unanswered": True} if self.status in (Status.TIMEOUT, Status.ERROR) else None


def is_answer(result: ScoreResult | GroupResult) -> bool:
    """Whether a result shows that its model's replicas answer."""
    return not (result.details or {}).get("unanswered")


async def answer_of(call: Any, until: float) -> Any:
    """Await a call until ``until`` on the event loop's clock.

    The call is cancelled if the time is up or the caller is cancelled.

    Raises:
        NoAnswerError: the call failed or timed out.
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
    """The ``NoAnswerError`` for an exception; re-raises the caller's own cancellation."""
    from ray.serve.exceptions import BackPressureError

    if isinstance(error, asyncio.CancelledError) and cancelled_by_caller():
        raise error
    status, reason = Status.ERROR, f"the replica was lost ({type(error).__name__}); retry"
    if isinstance(error, TimeoutError):
        status, reason = Status.TIMEOUT, "no replica answered in time"
    elif isinstance(error, BackPressureError):
        status = Status.OVERLOADED
        reason = "every replica is at its limit of calls; retry after a pause"
    elif _is_too_large(error):
        status, reason = Status.INVALID, "the results exceed 4 MiB; send fewer items at once"
    failed = NoAnswerError(status, reason)
    failed.__cause__ = error
    return failed


def _is_too_large(error: BaseException) -> bool:
    from grpc import StatusCode  # type: ignore[import-untyped]

    code = getattr(error, "code", None)
    return callable(code) and code() is StatusCode.RESOURCE_EXHAUSTED


def call_errors() -> tuple[type[BaseException], ...]:
    """The exceptions of a call whose replica is gone, refuses it or does not answer in time."""
    import grpc
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    return TimeoutError, RayError, RayServeException, grpc.RpcError


def cancelled_by_caller() -> bool:
    """Whether a CancelledError comes from cancelling this task, not from the called replica."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
