"""Long rollouts, as reasoning policies write them: 128 prompts, 8 samples each, some 45 MB.

Lengths are log-normal with a median of 32 KB, cut at 128 KB. The marked answer stands at the end,
so rules decide. A step is sent all at once, also with responses of 1 KB for comparison; and spread
over a minute as its rollouts end, the longest last. Each by handle and over HTTP, as single
requests that the trainers' client batches.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from random import Random
from typing import Any

import psutil

from deployments.local import APP, console, deployed
from loadtests.bench.common import Request, Way, alternated, spread
from loadtests.chaos.processes import memory_mib
from loadtests.load.corpus import long_rows
from loadtests.soak import watched
from reward_serve import HttpRewardClient, RewardClient, ScoreResult
from reward_serve.client import Client

PROMPTS = 128
SHORT = 1024
ARRIVAL_S = 60.0
PERIOD_S = 0.5  # between memory samples


def run(repeats: int) -> dict[str, Any]:
    """Verdicts and megabytes per second at once, waits while arriving, and peak memory."""
    long = rollouts()
    steps = {
        "long": long,
        "short": [{**request, "response": request["response"][-SHORT:]} for request in long],
    }
    megabytes = sum(len(request["response"]) for request in long) / 1e6
    with deployed() as service, watched(_resident_mib, PERIOD_S) as memory:
        clients = {"handle": RewardClient(APP), "http": HttpRewardClient(service.url)}
        ways = {f"{way}, {name}": _way(clients[way]) for way in clients for name in steps}
        rates = asyncio.run(alternated(ways, repeats, lambda way: steps[way.partition(", ")[2]]))
        arriving = {}
        for way, client in clients.items():
            with console.status(f"long: {way}, arriving"):
                arriving[way] = asyncio.run(_arriving(client, long))
    return {
        "rollouts": len(long),
        "megabytes": megabytes,
        "verdicts_per_s": {way: spread(request) for way, request in rates.items()},
        "mb_per_s": {
            way: megabytes * statistics.median(rates[f"{way}, long"]) / len(long) for way in clients
        },
        "arriving": arriving,
        "peak_mib": memory.peaks,
    }


def rollouts(prompts: int = PROMPTS) -> list[Request]:
    """A step's requests, grouped by prompt; ``metadata.right`` is the label."""
    return [
        {
            "response": row.request["response"],
            "reference": row.request["reference"],
            "group": row.request["question"],
            "metadata": {"right": row.correct},
        }
        for row in long_rows(Random(0), prompts)
        if row.request is not None
    ]


def right(asked: list[Request], results: list[ScoreResult]) -> int:
    """The number of results with their request's label."""
    pairs = zip(asked, results, strict=True)
    return sum(result.score == float(request["metadata"]["right"]) for request, result in pairs)


def _way(client: Client) -> Way:
    async def way(asked: list[Request]) -> int:
        return right(asked, await asyncio.gather(*map(client.ascore, asked)))

    return way


async def _arriving(client: Client, asked: list[Request]) -> dict[str, Any]:
    """Send each request when its rollout would end, at a constant token rate."""
    longest = max(len(request["response"]) for request in asked)
    waits: list[float] = []
    began = time.monotonic()

    async def send(request: Request) -> ScoreResult:
        await asyncio.sleep(ARRIVAL_S * len(request["response"]) / longest)
        sent = time.monotonic()
        result = await client.ascore(request)
        waits.append(time.monotonic() - sent)
        return result

    results = await asyncio.gather(*map(send, asked))
    return {
        "after_the_last_rollout_s": time.monotonic() - began - ARRIVAL_S,
        "longest_wait_s": max(waits),
        "median_wait_s": sorted(waits)[len(waits) // 2],
        "right": right(asked, results),
    }


def _resident_mib() -> dict[str, float]:
    """Resident MiB of this process (the client) and of the application's processes."""
    return {"client": psutil.Process().memory_info().rss / 2**20, **memory_mib()}
