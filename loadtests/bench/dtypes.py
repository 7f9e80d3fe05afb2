"""Dtypes: the bundled judge in each data type, on this CPU's instruction set and as on AVX2 alone.

Verdicts/s of the same prompts in turn, and what each type gets right: the model alone on labelled
rows (pass more than the samples and formats by ``DATA=``) and on the attack suite.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from examples.demo import SAMPLES
from loadtests.bench.common import Request
from loadtests.bench.settings import OWN, compare
from loadtests.gpu.check import compared, judged, key, rows_of
from loadtests.gpu.place import Place
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.vllm import instruction_set
from reward_serve_lab.evaluation.metrics import expected_calibration_error

ITEMS = 64
_DTYPES = {
    None: ("float32", "bfloat16", "int8"),
    "AVX2": ("float32", "int8"),  # without instructions for it, bfloat16 is six times slower
}
"""Compared types by ``ONEDNN_MAX_CPU_ISA``."""


def run(requests: list[Request], data: Path, repeats: int) -> dict[str, Any]:
    """By instruction set: rates against float32's, and agreement, ECE, flips and attacks."""
    figures: dict[str, Any] = {}
    for limit, dtypes in _DTYPES.items():
        with ProcessPoolExecutor(1, get_context("spawn"), _limit, (limit,)) as pool:
            figures |= pool.submit(_measured, dtypes, requests[:ITEMS], data, repeats).result()
    return figures


def _limit(instructions: str | None) -> None:
    if instructions:
        os.environ["ONEDNN_MAX_CPU_ISA"] = instructions


def _measured(
    dtypes: tuple[str, ...], requests: list[Request], data: Path, repeats: int
) -> dict[str, Any]:
    configs = {
        OWN if dtype == "float32" else dtype: EngineConfig.model_validate(
            {"device": "cpu", "cpu_kv_cache_gib": 0.25, "dtype": dtype}
        )
        for dtype in dtypes
    }
    rates = asyncio.run(compare(configs, requests, repeats))
    rows = rows_of(None if data == SAMPLES else data, None)
    truth: dict[str, Any] = {}
    expected: dict[str, float] = {}
    for dtype in dtypes:
        found, attacks, _ = asyncio.run(judged(Place("cpu", Path()), rows, dtype, None))
        expected = expected or {key(row): p for row, p in zip(rows, found, strict=True)}
        truth[dtype] = {
            **compared(rows, expected, found),
            "ece": expected_calibration_error([row["correct"] for row in rows], found),
            "attacks": attacks,
        }
    return {instruction_set(): {**rates, "truth": truth}}
