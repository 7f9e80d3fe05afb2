"""Whether a verdict comes when it is there: replicas that only wait, and items that hang.

``full``: as many callers as the replicas have slots ask one item after another, each of which takes
0.4 to 1.2 s. ``capacity`` is the share of the slots' time that their items take.

``hang``: 256 items at once, of which one in twenty takes 20 s.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from random import Random
from typing import Any

from deployments.local import console
from loadtests.bench.common import spreads
from loadtests.cluster import replica_served
from reward_serve.client import Client, HttpRewardClient, RewardClient
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import RewardModel, Trace
from reward_serve.schema import ScoreRequest, ScoreResult, Status

REPLICAS = 8
SLOTS = 16
SECONDS = (0.4, 1.2)
HANG_S = 20.0
BATCH = 256
_RUN_S = 8.0
_WARM_S = 1.0


class WaitingModel(RewardModel):
    """A reward model that waits for as many seconds as the response says."""

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score every request 1.0."""
        await asyncio.sleep(float(request.judged))
        return ScoreResult(status=Status.OK, score=1.0, source="judge")

    def describe(self) -> dict[str, Any]:
        """An empty description."""
        return {}


class WaitingReplica(Scorer):
    """A replica with a ``WaitingModel``."""

    def __init__(self, slots: int) -> None:
        super().__init__("waiting", WaitingModel(), Admission(slots, 100_000))


def run(repeats: int) -> dict[str, Any]:
    """Share of the capacity, waits and the client's CPU time, by handle and over HTTP."""
    router = {"request_router_class": "reward_serve.routing.router.GroupRouter"}
    options = {"num_replicas": REPLICAS, "request_router_config": router}
    with replica_served("waiting", WaitingReplica, SLOTS, app="waiting", **options) as (_, url):
        return asyncio.run(_run(url, repeats))


async def _run(url: str, repeats: int) -> dict[str, Any]:
    ways = {
        "handle": RewardClient("waiting"),
        "http": HttpRewardClient(url),
        "handle, one item a call": RewardClient("waiting", max_batch=1),
    }
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    for client in ways.values():  # connections, imports
        await client.ascore_batch([_item(number, 0.0) for number in range(BATCH)])
    for number in range(repeats):
        for name, client in ways.items():
            with console.status(f"{name}, {number + 1} of {repeats}"):
                runs[name].append(await _full(client, Random(number)))
    return {
        "full": spreads(runs),
        "hang": {name: await _hang(ways[name]) for name in ("handle", "http")},
    }


def _item(number: int, seconds: float) -> dict[str, Any]:
    return {"response": f"{seconds:.3f}", "reference": f"{number}", "timeout_s": 2 * HANG_S}


async def _full(client: Client, drawn: Random) -> dict[str, Any]:
    waits, served_s = [], 0.0
    began = time.monotonic() + _WARM_S
    ends = began + _RUN_S

    async def caller(number: int) -> None:
        nonlocal served_s
        while (asked := time.monotonic()) < ends:
            seconds = round(drawn.uniform(*SECONDS), 3)
            await client.ascore(_item(number, seconds))
            now = time.monotonic()
            served_s += max(0.0, min(now, ends) - max(now - seconds, began))
            if began < now < ends:
                waits.append(now - asked - seconds)

    callers = asyncio.gather(*(caller(number) for number in range(REPLICAS * SLOTS)))
    await asyncio.sleep(_WARM_S)
    cpu_s = -time.process_time()
    await asyncio.sleep(_RUN_S)
    cpu_s += time.process_time()
    await callers
    return {
        "capacity": served_s / (REPLICAS * SLOTS * _RUN_S),
        "wait_ms": 1000 * statistics.median(waits),
        "client_cpu_ms": 1000 * cpu_s / len(waits),
    }


async def _hang(client: Client) -> dict[str, float]:
    drawn, began = Random(0), time.monotonic()
    taken = [HANG_S if n % 20 == 0 else drawn.uniform(*SECONDS) for n in range(BATCH)]
    asked = [asyncio.ensure_future(client.ascore(_item(n, s))) for n, s in enumerate(taken)]
    ends = []
    for answer in asyncio.as_completed(asked):
        await answer
        ends.append(time.monotonic() - began)
    return {"half_s": ends[BATCH // 2 - 1], "all_but_hanging_s": ends[-14], "last_s": ends[-1]}
