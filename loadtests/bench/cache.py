"""Cache: the engine's work on requests that repeat.

GRPO samples of a prompt repeat more and more as training goes on. Each response is sent several
times, shuffled, many at a time; once with the cache on and once with it off.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

from deployments.local import APP, console, deployed
from loadtests.bench.common import NO_CACHE, Request, in_batches, marked, timed
from reward_serve import HttpRewardClient, RewardClient

DISTINCT, TIMES = 48, 4


def run(requests: list[Request]) -> dict[str, Any]:
    """``ratio``: engine calls per distinct input; hits and answers per second each way."""
    stream = marked(requests[:DISTINCT], "repeated") * TIMES
    Random(0).shuffle(stream)
    with deployed(rules_first=False) as service, HttpRewardClient(service.url) as http:
        client = RewardClient(APP, timeout_s=600.0)
        before = _counts(http)
        with console.status("cache: on"):
            on_s, sources = asyncio.run(_score(client, stream, {}))
        after = _counts(http)
        with console.status("cache: off"):
            off_s, _ = asyncio.run(_score(client, marked(stream, "anew"), {"options": NO_CACHE}))
    calls = after["misses"] - before["misses"]
    return {
        "ratio": calls / DISTINCT,
        "asked": len(stream),
        "engine_calls": calls,
        "hit_rate": (after["hits"] - before["hits"]) / len(stream),
        "sources": dict(sources),
        "answers_per_s": len(stream) / on_s,
        "speedup": off_s / on_s,
    }


def _counts(http: HttpRewardClient) -> dict[str, int]:
    counts: dict[str, int] = http.models()[0]["cache"]
    return counts


async def _score(
    client: RewardClient, stream: list[Request], settings: Request
) -> tuple[float, Counter[str]]:
    asked = [{**request, **settings} for request in stream]
    seconds, results = await timed(lambda: in_batches(client, asked, 32))
    return seconds, Counter(str(result.source) for result in results)
