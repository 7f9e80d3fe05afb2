"""Long rollouts, as reasoning policies write them: 128 prompts, 8 samples each, some 45 MB.

Lengths are log-normal with a median of 32 KB, cut at 128 KB. The marked answer stands at the end,
so rules decide. A step is sent all at once, also with responses of 1 KB for comparison; and spread
over a minute as its rollouts end, the longest last. Each by handle and over HTTP, as single
requests that the trainers' client batches.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from random import Random
from typing import Any

import psutil

from deployments.local import APP, console, deployed
from loadtests.bench.common import Request, spread
from loadtests.chaos.processes import memory_mib
from loadtests.load.corpus import length, rollout
from loadtests.soak import watched
from reward_serve import HttpRewardClient, RewardClient, ScoreResult

PROMPTS, SAMPLES = 128, 8
SHORT = 1024
ARRIVAL_S = 60.0
PERIOD_S = 0.5  # between memory samples


def run(repeats: int) -> dict[str, Any]:
    """Figures by way; ``ratio``: verdicts per second of long responses over short ones."""
    long = rollouts(Random(0))
    short = [{**one, "response": one["response"][-SHORT:]} for one in long]
    megabytes = sum(len(one["response"]) for one in long) / 1e6
    with deployed() as service:
        ways: dict[str, RewardClient | HttpRewardClient] = {
            "handle": RewardClient(APP),
            "http": HttpRewardClient(service.url),
        }
        with watched(_resident_mib, PERIOD_S) as at_once_memory:
            at_once, faults = asyncio.run(_at_once(ways, long, short, repeats))
        arriving, arriving_memory = {}, {}
        for way, client in ways.items():
            status = console.status(f"long: {way}, arriving")
            with status, watched(_resident_mib, PERIOD_S) as memory:
                arriving[way] = asyncio.run(_arriving(client, long))
            arriving_memory[way] = memory.peaks
    return {
        "ratio": {
            way: rates["long"]["median"] / rates["short"]["median"]
            for way, rates in at_once.items()
        },
        "rollouts": len(long),
        "megabytes": megabytes,
        "mb_per_s": {
            way: megabytes * rates["long"]["median"] / len(long) for way, rates in at_once.items()
        },
        "verdicts_per_s": at_once,
        "at_once": faults,
        "arriving": arriving,
        "peak_mib": {"at_once": at_once_memory.peaks, "arriving": arriving_memory},
    }


def rollouts(random: Random) -> list[Request]:
    """A step's requests, grouped by prompt; ``metadata.right`` is the label."""
    asked = []
    for prompt in range(PROMPTS):
        gold = random.randrange(11, 10_000)
        for _ in range(SAMPLES):
            said = gold + random.choice((0, 0, 0, 1))
            asked.append(
                {
                    "response": rollout(random, said, length(random)),
                    "reference": str(gold),
                    "group": f"prompt-{prompt}",
                    "metadata": {"right": said == gold},
                }
            )
    return asked


def absent_or_wrong(asked: list[Request], results: list[ScoreResult]) -> dict[str, int]:
    """Count results without a score, and with a score other than the label."""
    pairs = list(zip(asked, results, strict=True))
    wrong = [r for a, r in pairs if r.score is not None and bool(r.score) != a["metadata"]["right"]]
    return {"absent": sum(result.score is None for _, result in pairs), "wrong": len(wrong)}


async def _at_once(
    ways: dict[str, RewardClient | HttpRewardClient],
    long: list[Request],
    short: list[Request],
    repeats: int,
) -> tuple[dict[str, Any], dict[str, int]]:
    """Verdicts per second by way and length, and counts of absent and wrong results."""
    rates: dict[tuple[str, str], list[float]] = {}
    faults: Counter[str] = Counter(absent=0, wrong=0)
    steps = {"long": long, "short": short}
    order = [(way, name) for way in ways for name in steps]
    for repeat in range(-1, repeats):
        for way, name in Random(repeat).sample(order, len(order)):
            asked, ask = steps[name], ways[way].ascore
            with console.status(f"long: {way}, {name}, {repeat + 1} of {repeats}"):
                began = time.monotonic()
                results = await asyncio.gather(*map(ask, asked))
                seconds = time.monotonic() - began
            faults.update(absent_or_wrong(asked, results))
            if repeat >= 0:
                rates.setdefault((way, name), []).append(len(asked) / seconds)
    spreads = {way: {name: spread(rates[way, name]) for name in steps} for way in ways}
    return spreads, dict(faults)


async def _arriving(
    client: RewardClient | HttpRewardClient, asked: list[Request]
) -> dict[str, Any]:
    """Send each request when its rollout would end, at a constant token rate."""
    longest = max(len(one["response"]) for one in asked)
    waits: list[float] = []
    began = time.monotonic()

    async def one(request: Request) -> ScoreResult:
        await asyncio.sleep(ARRIVAL_S * len(request["response"]) / longest)
        sent = time.monotonic()
        result = await client.ascore(request)
        waits.append(time.monotonic() - sent)
        return result

    results = await asyncio.gather(*map(one, asked))
    return {
        "after_the_last_rollout_s": time.monotonic() - began - ARRIVAL_S,
        "longest_wait_s": max(waits),
        "median_wait_s": sorted(waits)[len(waits) // 2],
        **absent_or_wrong(asked, results),
    }


def _resident_mib() -> dict[str, float]:
    """Resident MiB of this process (the client) and of the application's processes."""
    return {"client": psutil.Process().memory_info().rss / 2**20, **memory_mib()}
