"""Prompt: agreement and verdicts/s by the number of response tokens shown to the judge.

One engine and the shipped template without rules; a judge per budget, in turn, with the prefix
cache reset in between. Pass labelled solutions (``DATA=``): the sample set's responses are shorter
than any budget.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from deployments.local import console
from loadtests.bench.common import read_rows, timed
from reward_serve.config.engine import EngineConfig
from reward_serve.config.models import JudgeModel
from reward_serve.engines.vllm import VllmEngine
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import ScoreRequest, ScoreResult

BUDGETS = (32, 48, 64, 96, 128, 192)
ROWS = 400
_AT_ONCE = 128


def run(data: Path) -> dict[str, Any]:
    """``ratio``: verdicts/s with the shipped budget over those with the largest."""
    rows = read_rows(data)
    return asyncio.run(_run(Random(0).sample(rows, min(ROWS, len(rows)))))


async def _run(rows: list[dict[str, Any]]) -> dict[str, Any]:
    engine = await VllmEngine.start(EngineConfig(device="cpu"), num_cpus=2, num_gpus=0)
    requests = [ScoreRequest(response=r["response"], reference=r["reference"]) for r in rows]
    figures: dict[str, Any] = {}
    for budget in BUDGETS:
        judge = _judge(engine, budget)
        await judge.score(requests[0])
        await engine._llm.reset_prefix_cache()
        with console.status(f"prompt: {budget} tokens of a response"):
            seconds, given = await timed(lambda j=judge: verdicts(j, requests))  # type: ignore[misc]
        right = sum(v.score == float(row["correct"]) for v, row in zip(given, rows, strict=True))
        figures[str(budget)] = {
            "agreement": right / len(rows),
            "verdicts_per_s": len(rows) / seconds,
            "prompt_tokens": sum(verdict.usage.prompt_tokens for verdict in given) / len(rows),
        }
    engine.close()
    shipped = figures[str(_judge(engine, None).describe()["response_tokens"])]
    return {
        "ratio": shipped["verdicts_per_s"] / figures[str(BUDGETS[-1])]["verdicts_per_s"],
        "rows": len(rows),
        **figures,
    }


async def verdicts(judge: Judge, requests: list[ScoreRequest]) -> list[ScoreResult]:
    """The judge's verdicts, in order."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(request: ScoreRequest) -> ScoreResult:
        async with places:
            return await judge.score(request)

    return await asyncio.gather(*map(one, requests))


def _judge(engine: VllmEngine, budget: int | None) -> Judge:
    return Judge(
        JudgeModel.model_validate(
            {
                "name": "judge",
                "kind": "judge",
                "judge": {"rules_first": False, "response_tokens": budget},
                "cache": {"enabled": False},
            }
        ),
        engine,
    )
