from __future__ import annotations

import asyncio
import logging

import pytest

from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.replica.failures import (
    DeadlinePassedError,
    Failure,
    failure_of,
    within_deadline,
)
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.schema import Status


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (InvalidRequestError("field: why"), Failure(Status.INVALID, "field: why")),
        (EngineError("gone"), Failure(Status.ERROR, "gone")),
        (DeadlinePassedError("late"), Failure(Status.TIMEOUT, "late")),
        (OverloadedError("full", 3.0), Failure(Status.OVERLOADED, "full; retry after 3 s", 3.0)),
    ],
)
def test_an_expected_exception_has_its_status_and_is_not_logged(
    error: Exception, failure: Failure, caplog: pytest.LogCaptureFixture
) -> None:
    assert failure_of(error, "judge") == failure
    assert caplog.records == []


def test_an_unexpected_exception_is_an_error_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert failure_of(KeyError("x"), "judge").reason == "KeyError: 'x'"
    assert "judge failed" in caplog.text


async def test_the_deadline_differs_from_a_timeout_inside_the_block() -> None:
    with pytest.raises(DeadlinePassedError, match=r"0\.01 s passed"):
        async with within_deadline(0.01):
            await asyncio.sleep(5)
    with pytest.raises(TimeoutError):
        async with within_deadline(5):
            raise TimeoutError


async def test_a_cancelled_engine_call_is_an_engine_error_and_a_cancelled_caller_is_not() -> None:
    with pytest.raises(EngineError):
        async with within_deadline(5):
            raise asyncio.CancelledError

    async def wait() -> None:
        async with within_deadline(5):
            await asyncio.sleep(5)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
