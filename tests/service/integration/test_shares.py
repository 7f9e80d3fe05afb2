"""Two runs with keys of their own share a replica, and one of them asks ten times as much."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.service.integration.applications import SHARED
from tests.service.integration.conftest import OF_A_SMALL_RUN, OF_THE_VARIABLE

ITEMS = 60
SMALL = 4
BATCH = 10  # four calls of these: ten times as much in flight


def client(url: str, key: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=f"{url}/{SHARED}", headers=headers, timeout=60)


async def ask_for_ever(run: httpx.AsyncClient, answered: list[str]) -> None:
    batch = {"requests": [{"response": str(number)} for number in range(BATCH)]}
    while True:
        reply = await run.post("/v1/score/batch", json=batch)
        answered += [result["status"] for result in reply.json()["results"]]


async def latencies(run: httpx.AsyncClient) -> list[float]:
    """Seconds of each request of a run with four in flight."""
    seconds: list[float] = []

    async def worker() -> None:
        while len(seconds) < ITEMS:
            began = time.monotonic()
            reply = await run.post("/v1/score", json={"response": str(len(seconds))})
            assert reply.status_code == 200, reply.text
            seconds.append(time.monotonic() - began)

    await asyncio.gather(*(worker() for _ in range(SMALL)))
    return sorted(seconds)


async def test_a_run_with_ten_times_the_load_at_most_doubles_anothers_latency(url: str) -> None:
    answered: list[str] = []
    async with client(url, OF_A_SMALL_RUN) as small, client(url, OF_THE_VARIABLE) as large:
        alone = await latencies(small)
        load = [asyncio.create_task(ask_for_ever(large, answered)) for _ in range(SMALL)]
        await asyncio.sleep(0.5)
        beside = await latencies(small)
        for task in load:
            task.cancel()
        await asyncio.wait(load)
    percentile = int(0.99 * ITEMS) - 1
    assert beside[percentile] <= 2 * alone[percentile]
    assert set(answered) == {"ok"}
    assert len(answered) > ITEMS  # and the larger run has the rest of the replica


@pytest.mark.parametrize("large", [120])
async def test_a_full_queue_still_admits_the_other_run(url: str, large: int) -> None:
    """80 items fit into the replica; its own run's further ones are refused."""
    async with client(url, OF_A_SMALL_RUN) as small, client(url, OF_THE_VARIABLE) as other:
        batch: dict[str, Any] = {"requests": [{"response": "x"} for _ in range(large)]}
        call = asyncio.create_task(other.post("/v1/score/batch", json=batch))
        await asyncio.sleep(0.2)
        reply = await small.post("/v1/score", json={"response": "y"})
        assert reply.json()["status"] == "ok"
        statuses = [result["status"] for result in (await call).json()["results"]]
    assert statuses.count("overloaded") == large - 80
    assert statuses.count("ok") == 80
