"""How a request fails in a replica: its deadline, and the status of an exception."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.routing.calls import cancelled_by_caller
from reward_serve.schema import Status

logger = logging.getLogger(__name__)


class DeadlinePassedError(Exception):
    """The request's own deadline passed, as opposed to a timeout inside the reward model."""


class Failure(NamedTuple):
    """Why a request has no result; ``retry_after_s`` is 0 unless it is overloaded."""

    status: Status
    reason: str
    retry_after_s: float = 0.0


@asynccontextmanager
async def within_deadline(timeout_s: float) -> AsyncIterator[asyncio.Timeout]:
    """Bound a block by a request's deadline.

    Raises:
        DeadlinePassedError: the deadline passed.
        EngineError: the engine cancelled the request.
    """
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            yield deadline
    except TimeoutError:
        if deadline.expired():
            raise DeadlinePassedError(
                f"timeout_s: {timeout_s:g} s passed without an answer"
            ) from None
        raise
    except asyncio.CancelledError:
        if cancelled_by_caller():
            raise
        raise EngineError("the engine cancelled the request") from None


def failure_of(error: Exception, what: str) -> Failure:
    """The failure that an exception stands for; logs unexpected exceptions.

    Args:
        error: the exception.
        what: the model and request, for the log.
    """
    match error:
        case InvalidRequestError():
            return Failure(Status.INVALID, str(error))
        case OverloadedError():
            return Failure(Status.OVERLOADED, str(error), error.retry_after_s)
        case DeadlinePassedError():
            return Failure(Status.TIMEOUT, str(error))
        case EngineError():
            return Failure(Status.ERROR, str(error))
    logger.error("%s failed", what, exc_info=error)
    return Failure(Status.ERROR, f"{type(error).__name__}: {error}")
