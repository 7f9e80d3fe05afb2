"""How long the engine takes for a verdict, and the processor time that its delivery costs.

The latter by calls, items and messages of results, for each process. A call of one item is answered
at once. Others are streams, of 2 items or of 64, all at the same time (one message of results) or
one after another (64 messages). Their differences are the costs.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psutil

from deployments.local import console
from examples.demo import SAMPLES
from loadtests.bench.bare_engine import bare
from loadtests.bench.common import PromptRenderer, load, marked, read_requests
from loadtests.bench.waiting import WaitingReplica
from loadtests.cluster import replica_served
from reward_serve.client import Client, HttpRewardClient, RewardClient
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.vllm import VllmEngine

_ITEMS = (1, 2, 4, 8, 16, 32)
_CALLS = 256
_FEW, _MANY = 2, 64
_RUN_S, _CALLERS = 5.0, 8
_APART_S = 0.015  # between results, so that each is a message
_NAMES = {"waiting:ingress": "ingress", "ProxyActor": "proxy", "waiting:waiting": "replica"}


def measure() -> dict[str, Any]:
    """Milliseconds by way, process and cause: a single call; a stream, its items and messages."""
    with replica_served("waiting", WaitingReplica, 100_000, app="waiting") as (_, url):
        ways: dict[str, Callable[[int], Client]] = {
            "handle": lambda items: RewardClient("waiting", max_batch=items),
            "http": lambda items: HttpRewardClient(url, max_batch=items),
        }
        return {way: asyncio.run(_costs(client)) for way, client in ways.items()}


async def _costs(client: Callable[[int], Client]) -> dict[str, dict[str, float]]:
    apart_s = [0.05 + _APART_S * n for n in range(_MANY)]
    runs = [0.0], [0.05] * _FEW, [0.05] * _MANY, apart_s
    single, few, many, apart = [await _used_by(seconds, client) for seconds in runs]
    costs = {}
    for name in single:
        item = (many[name] - few[name]) / (_MANY - _FEW)
        message = (apart[name] - many[name]) / (_MANY - 1)
        stream = few[name] - _FEW * item - message
        parts = {"single": single[name], "stream": stream, "item": item, "message": message}
        costs[name] = {part: round(max(0.0, 1000 * value), 3) for part, value in parts.items()}
    return costs


async def _used_by(seconds: list[float], made: Callable[[int], Client]) -> Counter[str]:
    """CPU seconds of a call by process, of several in flight."""
    client, calls = made(len(seconds)), 0
    items = [{"response": f"{s:.3f}", "reference": "1", "group": "one"} for s in seconds]
    await client.ascore_batch(items)
    before, ends = _used(), time.monotonic() + _RUN_S

    async def caller() -> None:
        nonlocal calls
        while time.monotonic() < ends:
            await client.ascore_batch(items)
            calls += 1

    await asyncio.gather(*(caller() for _ in range(_CALLERS)))
    return Counter({name: (used - before[name]) / calls for name, used in _used().items()})


def _used() -> Counter[str]:
    """CPU seconds of the processes until now; ``caller`` is this one."""
    used: Counter[str] = Counter({"caller": time.process_time()})
    for process in psutil.process_iter(["cmdline", "cpu_times"]):
        title = " ".join(process.info["cmdline"] or ())
        for part, name in _NAMES.items():
            if title.startswith("ray::") and part in title:
                used[name] += sum(process.info["cpu_times"][:2])
    return used


def curve() -> dict[str, Any]:
    """Mean seconds of the bundled judge's verdict by the number in flight, and their rate."""
    return asyncio.run(_curve())


async def _curve() -> dict[str, Any]:
    with console.status("the engine starts"):
        engine = await VllmEngine.start(EngineConfig(device="cpu"), num_cpus=2, num_gpus=0)
    rendered = PromptRenderer(engine.tokenizer)
    way = bare(engine, rendered.ids, logprob_token_ids=rendered.label_ids)
    rows, marks = read_requests(SAMPLES), map("{:03}".format, itertools.count())
    seconds, rates = {}, {}
    for items in (32, *_ITEMS):  # the first only warms up
        asked = (each for mark in marks for each in marked(rows, mark))
        with console.status(f"{items} in flight"):
            figures = await load(lambda _, a=asked: way([next(a)]), _CALLS, items)  # type: ignore[misc]
        rates[str(items)] = figures["per_s"]
        seconds[str(items)] = items / figures["per_s"]
    engine.close()
    return {"seconds": seconds, "verdicts_per_s": rates, "verdicts": _CALLS}
