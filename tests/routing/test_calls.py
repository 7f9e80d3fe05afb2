from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reward_serve.routing.calls import by_value, cancelled_by_caller


class Handle:
    """A deployment's handle that keeps the options it is given."""

    def __init__(self, **options: Any) -> None:
        self.given = options

    def options(self, **options: Any) -> Handle:
        return Handle(**options)


class OldHandle:
    """One of a Ray without the option."""

    def options(self, *, method_name: str = "") -> OldHandle:
        raise AssertionError("was not to be called without what it refuses")


def test_calls_carry_their_data() -> None:
    assert by_value(Handle()).given["_by_reference"] is False


def test_an_older_rays_handle_stays_as_it_is() -> None:
    handle = OldHandle()

    assert by_value(handle) is handle


async def test_a_task_that_is_cancelled_knows_it_of_itself() -> None:
    told: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append(cancelled_by_caller())
            raise

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert told == [True]


async def test_a_call_that_its_other_end_cancelled_is_told_apart() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert not cancelled_by_caller()
