"""P6: start to first verdict, against a bare ``AsyncLLM`` of the same model."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from deployments.local import ROOT, console, deployed
from loadtests.bench.common import spread
from reward_serve import HttpRewardClient

_PARTS = "parts: "

# vLLM alone, with the service's arguments, in a process of its own; one label at the end.
_BARE = """
import asyncio, json, time
began = time.monotonic()
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.vllm import engine_arguments, locate, set_environment

async def start():
    config = EngineConfig(device="cpu")
    model = locate(config)
    located = time.monotonic()
    set_environment(config, num_cpus=2)
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.inputs.engine import tokens_input
    from vllm.v1.engine.async_llm import AsyncLLM
    imported = time.monotonic()
    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**engine_arguments(config, model, 0)))
    ready = time.monotonic()
    params = SamplingParams(max_tokens=1, logprob_token_ids=[4, 5], detokenize=False)
    async for _ in llm.generate(tokens_input([1, 2, 3]), params, "0"):
        pass
    parts = {
        "model": located - began,
        "import": imported - located,
        "engine": ready - imported,
        "first verdict": time.monotonic() - ready,
    }
    print("parts: " + json.dumps(parts))
    llm.shutdown()

if __name__ == "__main__":
    asyncio.run(start())
"""


def run(repeats: int) -> dict[str, Any]:
    """Seconds by part; ``ratio``: the service's total over the bare engine's."""
    bare: list[dict[str, float]] = []
    service: list[dict[str, float]] = []
    for _ in range(repeats):
        with console.status("P6: bare"):
            bare.append(_bare())
        with deployed(rules_first=False) as started, HttpRewardClient(started.url) as client:
            parts = {k: v for k, v in client.models()[0]["start_s"].items() if k != "total"}
            service.append({"Ray": started.ray_s, **parts, "ready": started.ready_s})
    bare_s = spread([sum(parts.values()) for parts in bare])
    service_s = spread([parts["ready"] for parts in service])
    return {
        "ratio": service_s["median"] / bare_s["median"],
        "bare_s": bare_s,
        "service_s": service_s,
        "bare_parts_s": bare[-1],
        "service_parts_s": service[-1],
    }


def _bare() -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _BARE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith(_PARTS))
    parts: dict[str, float] = json.loads(line.removeprefix(_PARTS))
    return parts
