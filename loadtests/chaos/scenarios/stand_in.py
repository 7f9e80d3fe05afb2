"""Scenarios on a fake engine: ``faults``, ``overload`` and ``disconnects``.

``faults``: 10,000 requests to a fake engine of which one call in five fails, half by handle and
half over HTTP, in both modes. ``overload``: twice the capacity, for three minutes, without retries.
``disconnects``: a steady load alone, then beside callers that hang up mid-request.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from loadtests.chaos.load import Tally, closed_loop, open_loop, quantiles
from loadtests.chaos.processes import memory_mib
from loadtests.chaos.questions import prose, questions_of
from loadtests.chaos.report import Figures, all_right, with_bounds
from loadtests.chaos.target import (
    Target,
    ask_functions,
    bare_clients,
    first_model,
    shared_clients,
    stand_in_service,
    wait_until,
)
from loadtests.soak import watched

NAMES = ("faults", "disconnects", "overload")

ASKED = 10_000
RATE = 0.2
FAULTS_CALLERS = 64
FAULTS_DEADLINE_S = 4.0
MODES = ({"mode": "label"}, {"mode": "generate"})
TYPED = {"error", "timeout", "unparseable", "truncated", "overloaded"}
_NEAR = 0.02  # over three standard deviations of 10,000 draws

SLOTS, SERVICE_S = 10, 0.4
NOMINAL_PER_S = SLOTS / SERVICE_S
OVERLOAD_DEADLINE_S = 5.0
TOGETHER = 4  # questions per call in ``in_calls_of_4``
CAPACITY_S, BATCHED_S, TWICE_S = 15.0, 25.0, 180.0
GOODPUT = 0.9
_CALLERS = 30
_GROWTH, _GROWTH_MIB = 1.1, 16.0

OTHERS_PER_S = 20.0
PHASE_S = 15.0
HANG_UP_DEADLINE_S = 10.0
CALLERS, ITEMS = 100, 4
SLOWER_BY_S = 0.5  # how much longer the other callers' p99 may be
_HANG_UP_AFTER_S = 0.3


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run each scenario on its own cluster, with a fake engine of its own size."""
    for name in chosen:
        if name == "faults":
            with stand_in_service(slots=256, service_s=0.02, fault_rate=RATE) as target:
                yield name, asyncio.run(injected(target, ASKED))
        elif name == "disconnects":
            with stand_in_service(slots=256, service_s=0.5) as target:
                yield name, asyncio.run(_disconnects(target))
        else:
            with stand_in_service(SLOTS, SERVICE_S) as target:
                yield name, asyncio.run(_overload(target))


async def injected(target: Target, asked: int) -> Figures:
    """Send ``asked`` requests and report their outcomes."""
    tally = Tally()
    clients = shared_clients(target, max_batch=16)  # an item without an answer delays its batch

    async def half(way: str) -> None:
        questions = questions_of(prose, f"faults-{way}", FAULTS_DEADLINE_S, MODES)
        ways = {way: ask_functions(clients)[way]}
        few = itertools.islice(questions, asked // len(clients))
        await closed_loop(tally, ways, few, FAULTS_CALLERS, lambda: False)

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
    }
    bounds = {
        "every absence has a status that the faults explain": figures["absent"].keys() <= TYPED,
        f"{RATE:.0%} of the engine's calls failed": asked < 1000 or abs(share - RATE) < _NEAR,
    }
    return with_bounds(figures, bounds)


async def _overload(target: Target) -> Figures:
    capacity = await measured_capacity(target, CAPACITY_S)
    batched = await arriving(target, BATCHED_S, capacity, TOGETHER)
    with watched(memory_mib, TWICE_S / 2) as memory:
        twice = await arriving(target, TWICE_S, capacity)
    (start, middle, *_), end = memory.samples, memory_mib()
    flat = all(name in end and end[name] <= _GROWTH * middle[name] + _GROWTH_MIB for name in middle)
    figures = {
        **twice,
        "capacity_per_s": capacity,
        "nominal_per_s": NOMINAL_PER_S,
        f"in_calls_of_{TOGETHER}": batched,
        "note": f"goodput {twice['goodput']}, p99 {twice['admitted']['p99_s']} s",
        "memory_mib": {"before": start, "middle": middle, "after": end},
    }
    bounds = {
        f"goodput is {GOODPUT} of capacity": twice["goodput"] >= GOODPUT,
        "p99 of admitted items is within the deadline": twice["admitted"]["p99_s"]
        <= OVERLOAD_DEADLINE_S,
        "every absence is overloaded or timeout": twice["absent"].keys()
        <= {"overloaded", "timeout"},
        f"both also hold in calls of {TOGETHER}": batched["goodput"] >= GOODPUT
        and batched["admitted"]["p99_s"] <= OVERLOAD_DEADLINE_S,
        "memory is flat from the middle to the end": flat,
    }
    return with_bounds(figures, bounds)


async def measured_capacity(target: Target, seconds: float) -> float:
    """Right answers per second with more callers than slots."""
    tally = Tally()
    ends = time.monotonic() + seconds
    questions = questions_of(prose, "capacity", 60.0)
    ways = ask_functions(bare_clients(target))
    await closed_loop(tally, ways, questions, _CALLERS, lambda: time.monotonic() > ends)
    times = sorted(record.ended_s for record in tally.records if record.outcome == "right")
    calm = [time_s for time_s in times if times[0] + 1 < time_s < ends]
    return round((len(calm) - 1) / (calm[-1] - calm[0]), 2)


async def arriving(
    target: Target, seconds: float, capacity: float, together: int = 1
) -> dict[str, Any]:
    """Send twice the nominal capacity, ``together`` questions a call."""
    tally = Tally()
    questions = questions_of(prose, f"twice-{together}", OVERLOAD_DEADLINE_S)
    began = time.monotonic()
    ways = ask_functions(bare_clients(target))
    await open_loop(tally, ways, questions, 2 * NOMINAL_PER_S, seconds, together)
    ends = began + seconds
    in_time = sum(record.outcome == "right" and record.ended_s < ends for record in tally.records)
    per_s = in_time / seconds
    return {
        **tally.figures(),
        "asked_per_s": round(tally.asked / seconds, 1),
        "right_per_s": round(per_s, 2),
        "goodput": round(per_s / capacity, 3),
        "admitted": quantiles(tally.latencies_s("right", "timeout")),
        "refused": quantiles(tally.latencies_s("overloaded")),
        "deadline_s": OVERLOAD_DEADLINE_S,
    }


async def _disconnects(target: Target) -> Figures:
    alone = await _others(target, "alone")
    async with httpx.AsyncClient(base_url=target.url, limits=httpx.Limits()) as client:
        times = (number * PHASE_S / CALLERS for number in range(CALLERS))
        hanging_up = asyncio.gather(*(_hangs_up(client, at_s) for at_s in times))
        among = await _others(target, "among")
        hung_up = await hanging_up
    freed_s = await wait_until(lambda: first_model(target)["items"] == 0, 10.0)
    calm, busy = (quantiles(tally.latencies_s("right")) for tally in (alone, among))
    figures = {
        **among.figures(),
        "hung_up": sum(hung_up),
        "in_peace": calm,
        "among_them": busy,
        "freed_s": None if freed_s is None else round(freed_s, 2),
        "note": f"other callers' p99 {busy['p99_s']} s, alone {calm['p99_s']} s",
    }
    slower = (busy["p99_s"] or 0.0) - (calm["p99_s"] or 0.0)
    bounds = {
        **all_right(figures),
        f"the other callers' p99 is not {SLOWER_BY_S} s longer": slower < SLOWER_BY_S,
        "no abandoned item is still running": freed_s is not None,
        "most hung up before they were answered": sum(hung_up) > CALLERS // 2,
    }
    return with_bounds(figures, bounds)


async def _others(target: Target, run: str) -> Tally:
    tally = Tally()
    questions = questions_of(prose, run, HANG_UP_DEADLINE_S)
    await open_loop(tally, ask_functions(bare_clients(target)), questions, OTHERS_PER_S, PHASE_S)
    return tally


async def _hangs_up(client: httpx.AsyncClient, at_s: float) -> bool:
    """Send a batch and hang up; whether that was before the answer."""
    await asyncio.sleep(at_s)
    questions = questions_of(prose, "hangs-up", HANG_UP_DEADLINE_S)
    body = {"requests": [next(questions).body for _ in range(ITEMS)]}
    try:
        await client.post("/v1/score/batch", json=body, timeout=_HANG_UP_AFTER_S)
    except httpx.TimeoutException:  # httpx closes the connection
        return True
    return False
