"""The bundled judge on a tenth of the card: beside a busy process, and out of memory."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deployments.local import ROOT, console, deployed
from loadtests.bench.common import NO_CACHE, Request, chunks, marked, spread, timed
from loadtests.gpu.place import Place
from loadtests.gpu.speed import requests as long_requests
from reward_serve import HttpRewardClient
from reward_serve.schema import ScoreResult

_SHARE = 0.1
_MARKS = map("{:03}".format, itertools.count())


def together(place: Place, requests: list[Request], rounds: int) -> dict[str, Any]:
    """The judge's verdicts/s and the other process's products/s, each alone and both at once."""
    settle = place.pick(5.0, 0.5)
    with deployed(rules_first=False, cache=False, **_on(place)) as service:
        url, copies = service.url, place.pick(8, 1)
        asyncio.run(_rate(url, requests, 1))
        alone = [asyncio.run(_rate(url, requests, copies)) for _ in range(rounds)]
        with _busy() as busy:
            time.sleep(settle)
        with _busy() as beside:
            both = [asyncio.run(_rate(url, requests, copies)) for _ in range(rounds)]
    return {
        "judge_alone_per_s": spread(alone),
        "judge_beside_per_s": spread(both),
        "other_alone_per_s": busy[0],
        "other_beside_per_s": beside[0],
        "ratio": {
            "judge": spread(both)["median"] / spread(alone)["median"],
            "other": beside[0] / busy[0],
        },
        "ready_s": service.ready_s,
    }


def memory(place: Place) -> dict[str, Any]:
    """Fill an engine's GPU under load: what callers see, and when the engine is back."""
    asked = long_requests(0, place.pick(2048, 8), 400)
    engine = {"model": "bundled", "max_num_seqs": place.pick(256, 16)}  # large steps
    with deployed(rules_first=False, cache=False, engine=engine, **_on(place)) as service:
        with _busy("--fill"):
            seconds, results = asyncio.run(timed(lambda: _asked(service.url, asked, 60)))
        began = time.monotonic()
        (again,) = asyncio.run(_asked(service.url, asked[:1], 180))
    return {
        "under": _statuses(results),
        "reasons": sorted({result.reason for result in results if result.reason})[:3],
        "under_s": seconds,
        "scored_without_ok": sum(r.score is not None and r.status.value != "ok" for r in results),
        "after": again.status.value,
        "back_s": time.monotonic() - began,
    }


def _on(place: Place) -> dict[str, Any]:
    return {"resources": place.resources(_SHARE), "max_concurrent_items": 256}


async def _rate(url: str, requests: list[Request], copies: int) -> float:
    asked = [one for _ in range(copies) for one in marked(requests, next(_MARKS))]
    seconds, results = await timed(lambda: _asked(url, asked, 600))
    if (statuses := _statuses(results)) != {"ok": len(asked)}:
        raise RuntimeError(f"beside another process: {statuses}")
    console.print(f"{len(asked) / seconds:.1f} verdicts/s", highlight=False)
    return len(asked) / seconds


async def _asked(url: str, requests: list[Request], timeout_s: float) -> list[ScoreResult]:
    client = HttpRewardClient(url, timeout_s=timeout_s)
    asked = [{**one, "options": NO_CACHE} for one in requests]
    answers = await asyncio.gather(*map(client.ascore_batch, chunks(asked, 128)))
    return [result for batch in answers for result in batch]


def _statuses(results: list[ScoreResult]) -> dict[str, int]:
    return dict(Counter(result.status.value for result in results))


@contextmanager
def _busy(*options: str) -> Iterator[list[float]]:
    """A busy process; the list holds its products a second once it has ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "loadtests.gpu.busy", *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    rates: list[float] = []
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the busy process did not start")
        yield rates
    finally:
        out, _ = process.communicate(timeout=60)  # closes its input
        rates += [float(line) for line in out.split()]
