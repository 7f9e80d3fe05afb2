"""P1: label mode against the old path, on the same engine, model and samples.

The old path writes up to 512 tokens (``gsm8k_strict``, generate mode), one blocking call per
sample. ``generate_batched`` does the same in one batch.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from deployments.local import APP, console, deployed
from loadtests.bench.common import NO_CACHE, Request, in_batches, marked, timed
from reward_serve import RewardClient
from reward_serve.schema import ScoreResult

OLD_SAMPLES, BATCHED_SAMPLES, LABEL_SAMPLES = 4, 16, 128
_WRITE = {
    "template": "gsm8k_strict",
    "timeout_s": 900.0,
    "options": {"mode": "generate", "temperature": 0.0, "max_tokens": 512, **NO_CACHE},
}


def run(requests: list[Request]) -> dict[str, Any]:
    """Answers per second each way, and the ratio of label mode to the old path."""
    with deployed(rules_first=False):
        return asyncio.run(_run(requests[:LABEL_SAMPLES], RewardClient(APP, timeout_s=900.0)))


async def _run(requests: list[Request], client: RewardClient) -> dict[str, Any]:
    async def label() -> list[ScoreResult]:
        asked = [{**request, "options": NO_CACHE} for request in requests]
        return await in_batches(client, asked, 64)

    def written(count: int) -> list[Request]:
        return [{**request, **_WRITE} for request in requests[:count]]

    async def batched() -> list[ScoreResult]:
        return await client.ascore_batch(written(BATCHED_SAMPLES))

    async def old() -> list[ScoreResult]:
        return [await client.ascore(request) for request in marked(written(OLD_SAMPLES), "alone")]

    await client.ascore_batch(
        [{**request, "options": NO_CACHE} for request in marked(requests[:4], "warm")]
    )
    ways = {"label": label, "generate_batched": batched, "old": old}
    figures = {name: await _measured(name, way) for name, way in ways.items()}
    rates = {name: measured["answers_per_s"] for name, measured in figures.items()}
    return {"ratio": rates["label"] / rates["old"], **figures}


async def _measured(name: str, way: Callable[[], Awaitable[list[ScoreResult]]]) -> dict[str, Any]:
    with console.status(f"P1: {name}"):
        seconds, results = await timed(way)
    return {
        "answers": len(results),
        "answers_per_s": len(results) / seconds,
        "statuses": dict(Counter(result.status.value for result in results)),
        "written_tokens": sum(result.usage.completion_tokens for result in results),
    }
