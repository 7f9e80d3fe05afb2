"""How calls by handle fail; what they do when all is well stands in tests/integration."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from ray.exceptions import RayActorError

from reward_serve.client import Client, RewardClient, ServiceUnavailableError
from reward_serve.schema import Status

ASKED = {"response": "#### 18", "reference": "18"}


class Call:
    """A call that ends as it is told."""

    def __init__(self, end: BaseException) -> None:
        self._end = end
        self.cancelled = False

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        raise self._end

    def result(self, timeout_s: float) -> Any:
        raise self._end

    def cancel(self) -> None:
        self.cancelled = True


class Method:
    """A method of a deployment's handle."""

    def __init__(self, end: BaseException) -> None:
        self._end = end

    def remote(self, *_: object) -> Call:
        return Call(self._end)


def lost(end: BaseException) -> RewardClient:
    """A client whose calls end so."""
    client = RewardClient("reward")
    client._handle = type("Handle", (), {"score": Method(end), "score_batch": Method(end)})()
    return client


ENDS = [RayActorError(), grpc.RpcError("INTERNAL"), asyncio.CancelledError()]


@pytest.mark.parametrize("end", ENDS, ids=["ray", "grpc", "cancelled by the replica"])
async def test_a_call_that_is_lost_is_the_services_absence(end: BaseException) -> None:
    with pytest.raises(ServiceUnavailableError, match="app 'reward'"):
        await lost(end).ascore(ASKED)
    with pytest.raises(ServiceUnavailableError):
        await lost(end).ascore_batch([ASKED])


@pytest.mark.parametrize("end", ENDS[:2], ids=["ray", "grpc"])
def test_a_thread_is_told_the_same(end: BaseException) -> None:
    with pytest.raises(ServiceUnavailableError):
        lost(end).score(ASKED)


@pytest.mark.parametrize("end", ENDS, ids=["ray", "grpc", "cancelled by the replica"])
async def test_no_caller_of_the_shared_client_hangs(end: BaseException) -> None:
    client = Client(lost(end), on_failure="none", max_attempts=1)
    async with asyncio.timeout(5):
        result = await client.ascore(ASKED)

    assert (result.status, result.score) == (Status.ERROR, None)
