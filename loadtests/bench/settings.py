"""Engine: settings on a CPU, compared in one run.

One engine per variant, all running; the same prompts go through each in turn, in a new random order
each round. Each variant changes one of the service's settings.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from deployments.local import console
from loadtests.bench.common import (
    PromptRenderer,
    Request,
    Way,
    alternated,
    marked,
    relative,
    spread,
)
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.base import Prompt
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
    marks = map("{:03}".format, itertools.count())
    rates = await alternated(
        {name: labelled(engine) for name, engine in engines.items()},
        repeats,
        lambda _: list(map(rendered.prompt, marked(requests, next(marks)))),
    )
    for engine in engines.values():
        engine.close()
    return {
        "ratio": relative(rates, OWN),
        "verdicts_per_s": {name: spread(each) for name, each in rates.items()},
    }


def labelled(engine: VllmEngine) -> Way:
    """A way that asks an engine for the labels of rendered prompts, all at once."""

    async def way(prompts: list[Prompt]) -> int:
        asked = (engine.label_logprobs(each, list(each.label_ids)) for each in prompts)
        return len(await asyncio.gather(*asked))

    return way
