"""``faults``: 10,000 requests to a stand-in of which one engine call in five goes wrong."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence

from loadtests.chaos.cluster import Target, asks, described, shared_clients, standing_in
from loadtests.chaos.faults import memory_mib
from loadtests.chaos.load import Tally, closed_loop, quantiles
from loadtests.chaos.questions import Questions, prose
from loadtests.chaos.report import Figures, reported

NAMES = ("faults",)

ASKED = 10_000
RATE = 0.2
CALLERS = 64
DEADLINE_S = 4.0
MODES = ({"mode": "label"}, {"mode": "generate"})
TYPED = {"error", "timeout", "unparseable", "truncated", "overloaded"}
_NEAR = 0.02  # three standard deviations of 10,000 draws, and some


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """By handle and over HTTP, half each, in both modes."""
    with standing_in(slots=256, service_s=0.02, fault_rate=RATE) as target:
        yield "faults", asyncio.run(injected(target, ASKED))


async def injected(target: Target, asked: int) -> Figures:
    """What so many requests came to."""
    tally, before = Tally(), memory_mib()
    clients = shared_clients(target, max_batch=16)  # a silent item holds its batch up

    async def half(way: str) -> None:
        questions = Questions(prose, f"faults-{way}", DEADLINE_S, MODES)
        ways = {way: asks(clients)[way]}
        few = itertools.islice(questions, asked // len(clients))
        await closed_loop(tally, ways, few, CALLERS, lambda: False)

    await asyncio.gather(*map(half, clients))
    faults = described(target)["faults"]
    calls = faults.pop("calls")
    share = sum(faults.values()) / calls
    figures = {
        **tally.figures(),
        "engine_calls": calls,
        "injected": dict(sorted(faults.items())),
        "injected_share": round(share, 4),
        "retried": sum(client.counters.snapshot()["retried"] for client in clients.values()),
        "waits": quantiles(tally.waits_s("right", "absent")),
        "memory_mib": {"before": before, "after": memory_mib()},
    }
    bounds = {
        "every absence has a status that such faults come to": figures["absent"].keys() <= TYPED,
        f"of the engine's calls {RATE} went wrong": asked < 1000 or abs(share - RATE) < _NEAR,
    }
    return reported(figures, bounds)
