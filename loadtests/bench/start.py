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

# Runs in its own process, as a replica does: start the engine as the service does, ask one label.
_BARE = """
import asyncio, json, time
began = time.monotonic()
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.base import Prompt
from reward_serve.engines.vllm import VllmEngine

async def start():
    engine = await VllmEngine.start(EngineConfig(device="cpu"), 2, 0)
    ready = time.monotonic()
    await engine.label_logprobs(Prompt((), [1, 2, 3], {"0": 4, "1": 5}), ["0", "1"])
    print("parts: " + json.dumps({**engine.timings_s, "first verdict": time.monotonic() - ready}))
    engine.close()

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
