"""How long a verdict takes beside others: the bundled judge in its engine, in label mode."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from deployments.local import console
from examples.demo import SAMPLES
from loadtests.bench.bare_engine import bare
from loadtests.bench.common import PromptRenderer, load, marked, read_requests
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.vllm import VllmEngine

IN_FLIGHT = (1, 2, 4, 8, 16, 32)
_CALLS = 256


def run() -> dict[str, Any]:
    """Mean seconds of a verdict by the number of items in flight, and their rate."""
    return asyncio.run(_run())


async def _run() -> dict[str, Any]:
    with console.status("the engine starts"):
        engine = await VllmEngine.start(EngineConfig(device="cpu"), num_cpus=2, num_gpus=0)
    rendered = PromptRenderer(engine.tokenizer)
    way = bare(engine, rendered.ids, logprob_token_ids=rendered.label_ids)
    rows, marks = read_requests(SAMPLES), map("{:03}".format, itertools.count())
    seconds, rates = {}, {}
    for items in (32, *IN_FLIGHT):  # the first only warms up
        asked = (each for mark in marks for each in marked(rows, mark))
        with console.status(f"{items} in flight"):
            figures = await load(lambda _, a=asked: way([next(a)]), _CALLS, items)  # type: ignore[misc]
        rates[str(items)] = figures["per_s"]
        seconds[str(items)] = items / figures["per_s"]
    engine.close()
    return {"seconds": seconds, "verdicts_per_s": rates, "verdicts": _CALLS}
