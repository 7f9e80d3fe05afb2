"""Scaling: verdicts/s by prompt tokens and batch size, against the engine's roofline.

The engine alone, with prompts of random tokens that share nothing. The roofline is this machine's
matrix-product rate at the model's shapes (measured in the same run, in the engine's dtype and on
its threads), divided by the floating-point operations of a prompt: two per weight and token, the
output layer for the last token only, and the attention's products.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

from deployments.local import console
from loadtests.bench.common import load
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.base import Prompt
from reward_serve.engines.vllm import VllmEngine

THREADS = 2
TOKENS = (32, 64, 128, 256, 512, 1024)
BATCHES = (1, 8, 64)
_POINT_TOKENS = 8192  # a few seconds each
_MATMUL_S = 2.0


def run() -> dict[str, Any]:
    """``ratio``: the largest share of the roofline that the engine reached."""
    return asyncio.run(_run())


async def _run() -> dict[str, Any]:
    engine = await VllmEngine.start(EngineConfig(device="cpu"), num_cpus=THREADS, num_gpus=0)
    config = engine._llm.model_config.hf_config
    with console.status("scaling: matmul"):
        rate = matmul_flops(config.hidden_size, config.intermediate_size)
    random = Random(0)
    points = []
    await _ask(engine, random, 64, 8, 8)
    for tokens in TOKENS:
        roofline = rate / prompt_flops(config, tokens)
        for batch in BATCHES:
            count = max(batch, min(64, _POINT_TOKENS // tokens))
            with console.status(f"scaling: {tokens} tokens, {batch} at a time"):
                per_s = await _ask(engine, random, tokens, batch, count)
            points.append(
                {
                    "prompt_tokens": tokens,
                    "batch": batch,
                    "verdicts_per_s": per_s,
                    "roofline_per_s": roofline,
                    "share": per_s / roofline,
                }
            )
    engine.close()
    return {
        "ratio": max(point["share"] for point in points),
        "matmul_gflops": rate / 1e9,
        "points": points,
    }


async def _ask(engine: VllmEngine, random: Random, tokens: int, batch: int, count: int) -> float:
    """Verdicts/s of ``count`` prompts, ``batch`` at a time."""
    labels = {"0": 0, "1": 1}
    prompts = [
        Prompt((), [random.randrange(100, 40_000) for _ in range(tokens)], labels)
        for _ in range(count)
    ]

    measured = await load(lambda n: engine.label_logprobs(prompts[n], list(labels)), count, batch)
    return float(measured["per_s"])


def prompt_flops(config: Any, tokens: int) -> float:
    """Floating-point operations of one prompt's forward pass, by the model's configuration."""
    hidden, layers = config.hidden_size, config.num_hidden_layers
    head = hidden // config.num_attention_heads
    keys = head * config.num_key_value_heads
    weights = layers * (2 * hidden**2 + 2 * hidden * keys + 3 * hidden * config.intermediate_size)
    attention = layers * 2 * 2 * hidden * tokens * (tokens + 1) / 2
    return float(2 * weights * tokens + attention + 2 * hidden * config.vocab_size)


def matmul_flops(hidden: int, intermediate: int, rows: int = 512) -> float:
    """FLOP/s of this machine at the model's largest matrix product, ``rows`` rows at a time."""
    import torch

    torch.set_num_threads(THREADS)
    inputs, weights = torch.randn(rows, hidden), torch.randn(hidden, intermediate)
    torch.matmul(inputs, weights)
    calls, began = 0, time.perf_counter()
    while time.perf_counter() - began < _MATMUL_S:
        torch.matmul(inputs, weights)
        calls += 1
    return calls * 2.0 * rows * hidden * intermediate / (time.perf_counter() - began)
