"""``faults``: 10,000 requests to a fake engine of which one call in five fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence

from loadtests.chaos.cluster import (
    Target,
    ask_functions,
    first_model,
    shared_clients,
    stand_in_service,
)
from loadtests.chaos.load import Tally, closed_loop, quantiles
from loadtests.chaos.processes import memory_mib
from loadtests.chaos.questions import Questions, prose
from loadtests.chaos.report import Figures, with_bounds

NAMES = ("faults",)

ASKED = 10_000
RATE = 0.2
CALLERS = 64
DEADLINE_S = 4.0
MODES = ({"mode": "label"}, {"mode": "generate"})
TYPED = {"error", "timeout", "unparseable", "truncated", "overloaded"}
_NEAR = 0.02  # over three standard deviations of 10,000 draws


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Half by handle and half over HTTP, in both modes."""
    with stand_in_service(slots=256, service_s=0.02, fault_rate=RATE) as target:
        yield "faults", asyncio.run(injected(target, ASKED))


async def injected(target: Target, asked: int) -> Figures:
    """Send ``asked`` requests and report their outcomes."""
    tally, before = Tally(), memory_mib()
    clients = shared_clients(target, max_batch=16)  # an item without an answer delays its batch

    async def half(way: str) -> None:
        questions = Questions(prose, f"faults-{way}", DEADLINE_S, MODES)
        ways = {way: ask_functions(clients)[way]}
        few = itertools.islice(questions, asked // len(clients))
        await closed_loop(tally, ways, few, CALLERS, lambda: False)

    await asyncio.gather(*map(half, clients))
    faults = first_model(target)["faults"]
    calls = faults.pop("calls")
    share = sum(faults.values()) / calls
    figures = {
        **tally.figures(),
        "engine_calls": calls,
        "injected": dict(sorted(faults.items())),
        "injected_share": round(share, 4),
        "retried": sum(client.counters.snapshot()["retried"] for client in clients.values()),
        "waits": quantiles(tally.latencies_s("right", "absent")),
        "memory_mib": {"before": before, "after": memory_mib()},
    }
    bounds = {
        "every absence has a status that the faults explain": figures["absent"].keys() <= TYPED,
        f"{RATE:.0%} of the engine's calls failed": asked < 1000 or abs(share - RATE) < _NEAR,
    }
    return with_bounds(figures, bounds)
