from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reward_serve.routing.deployment_client import NoAnswerError, answer_of, cancelled_by_caller
from reward_serve.schema import Status


def after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_a_task_that_is_cancelled_knows_it_of_itself() -> None:
    by_caller: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            by_caller.append(cancelled_by_caller())
            raise

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert by_caller == [True]


async def test_a_call_cancelled_by_its_other_end_is_distinguished() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert not cancelled_by_caller()


class Pending:
    """A call that is answered when its future is."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    def __await__(self) -> Any:
        return self.answer.__await__()

    def cancel(self) -> None:
        self.cancelled = True


async def test_a_call_in_time_is_its_answer() -> None:
    call = Pending()
    call.answer.set_result("18")
    assert await answer_of(call, after(1.0)) == "18"
    assert not call.cancelled


async def test_a_call_that_is_late_is_cancelled() -> None:
    call = Pending()
    with pytest.raises(NoAnswerError) as why:
        await answer_of(call, after(0.01))
    assert (why.value.status, why.value.reason) == (Status.TIMEOUT, "no replica answered in time")
    assert call.cancelled


async def test_a_call_that_its_other_end_cancelled_has_no_answer() -> None:
    call = Pending()
    call.answer.cancel()
    with pytest.raises(NoAnswerError, match="CancelledError") as why:
        await answer_of(call, after(1.0))
    assert why.value.status is Status.ERROR


async def test_a_call_is_cancelled_with_its_caller() -> None:
    call = Pending()
    task = asyncio.create_task(answer_of(call, after(60.0)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert call.cancelled


async def test_a_fault_of_ours_is_raised_as_it_is() -> None:
    call = Pending()
    call.answer.set_exception(LookupError("of ours"))
    with pytest.raises(LookupError, match="of ours"):
        await answer_of(call, after(1.0))
