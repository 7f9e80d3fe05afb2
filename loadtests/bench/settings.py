"""Engine: settings on a CPU, compared in one run.

One engine per variant, all running; the same prompts go through each in turn, in a new random order
each round. Each variant changes one of the service's settings.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from random import Random
from typing import Any

from deployments.local import console
from loadtests.bench.common import PromptRenderer, Request, marked, spread, timed
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.vllm import VllmEngine

ITEMS = 64
OWN = "own"
VARIANTS: dict[str, dict[str, Any]] = {
    OWN: {},
    "max_num_batched_tokens 256": {"max_num_batched_tokens": 256},
    "max_num_batched_tokens 1024": {"max_num_batched_tokens": 1024},
    "max_num_batched_tokens 2048": {"max_num_batched_tokens": 2048},
    "block_size 64": {"block_size": 64},
    "block_size 128": {"block_size": 128},
    "enable_prefix_caching off": {"enable_prefix_caching": False},
}


def run(requests: list[Request], repeats: int) -> dict[str, Any]:
    """Verdicts per second by variant, and relative to the service's own settings."""
    variants = {
        name: EngineConfig(device="cpu", cpu_kv_cache_gib=0.25, **settings)
        for name, settings in VARIANTS.items()
    }
    return asyncio.run(compare(variants, requests[:ITEMS], repeats))


async def compare(
    variants: dict[str, EngineConfig],
    requests: list[Request],
    repeats: int,
    response_tokens: int | None = None,
) -> dict[str, Any]:
    """Verdicts per second of the same prompts, by variant.

    Args:
        variants: engines by name, including ``own``; they fit on the device together.
        requests: the requests of a round.
        repeats: rounds, after one that is not counted.
        response_tokens: tokens of a response to show; default: the template's.
    """
    engines: dict[str, VllmEngine] = {}
    for name, config in variants.items():
        gpus = float(config.device == "cuda")
        with console.status(f"engine: starting {name}"):
            engines[name] = await VllmEngine.start(config, num_cpus=2, num_gpus=gpus)
    rendered = PromptRenderer(engines[OWN].tokenizer, response_tokens=response_tokens)
    rates: dict[str, list[float]] = {name: [] for name in engines}
    marks, drawn = map("{:03}".format, itertools.count()), Random(0)
    for repeat in range(-1, repeats):
        for name in drawn.sample(list(engines), len(engines)):
            prompts = list(map(rendered.prompt, marked(requests, next(marks))))
            engine = engines[name]
            with console.status(f"engine: {name}, {repeat + 1} of {repeats}"):
                seconds, _ = await timed(
                    lambda e=engine, p=prompts: asyncio.gather(  # type: ignore[misc]
                        *(e.label_logprobs(each, list(each.label_ids)) for each in p)
                    )
                )
            if repeat >= 0:
                rates[name].append(len(prompts) / seconds)
    for engine in engines.values():
        engine.close()
    return {
        "ratio": {
            name: statistics.median(a / b for a, b in zip(each, rates[OWN], strict=True))
            for name, each in rates.items()
            if name != OWN
        },
        "verdicts_per_s": {name: spread(each) for name, each in rates.items()},
    }
