"""Reported: int8 costs the bundled judge agreement."""

import asyncio
import json
import math
import os
from pathlib import Path
from statistics import mean
from unittest import mock

import pytest

from reward_serve.config.models import JudgeModel
from reward_serve.engines.vllm import VllmEngine, instruction_set
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import ScoreRequest

FORMATS = Path(__file__).parents[3] / "lab" / "reward_serve_lab" / "evaluation" / "formats.jsonl"
VNNI = ("AVX512_CORE_VNNI", "AVX512_CORE_BF16", "AVX512_CORE_AMX")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(instruction_set() not in VNNI, reason="without VNNI, int8 judges worse")
async def test_int8_judges_every_fifth_format_as_float32_does() -> None:
    rows = [json.loads(line) for line in FORMATS.read_text(encoding="utf-8").splitlines()[::5]]
    requests = [
        ScoreRequest(response=row["response"], reference=row["reference"], timeout_s=600)
        for row in rows
    ]
    exact, rounded = [await log_odds(dtype, requests) for dtype in ("float32", "int8")]
    pairs = list(zip(exact, rounded, strict=True))
    assert mean(abs(x - y) for x, y in pairs) < 0.2  # 0.16; without a zero point 0.26
    assert sum((x > 0) != (y > 0) for x, y in pairs) <= 1


async def log_odds(dtype: str, requests: list[ScoreRequest]) -> list[float]:
    """Of a right answer, by the model alone."""
    config = JudgeModel.model_validate(
        {
            "name": "judge",
            "kind": "judge",
            "engine": {
                **{"model": "bundled", "device": "cpu", "dtype": dtype},
                **{"max_model_len": 2048, "cpu_kv_cache_gib": 0.25},
            },
            "judge": {"template": "final_answer", "rules_first": False, "min_probability": 0.0},
        }
    )
    with mock.patch.dict(os.environ):
        engine = await VllmEngine.start(config.engine, num_cpus=2, num_gpus=0)
        judge = Judge(config, engine)
        try:
            results = await asyncio.gather(*map(judge.score, requests))
        finally:
            engine.close()
    probabilities = [result.probabilities or {} for result in results]
    return [math.log(distribution["1"] / distribution["0"]) for distribution in probabilities]
