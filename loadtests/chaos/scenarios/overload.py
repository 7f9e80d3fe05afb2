"""``overload``: twice the capacity of a fake engine, for three minutes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

from loadtests.chaos.cluster import Target, ask_functions, bare_clients, stand_in_service
from loadtests.chaos.load import Tally, closed_loop, open_loop, quantiles
from loadtests.chaos.processes import memory_mib
from loadtests.chaos.questions import Questions, prose
from loadtests.chaos.report import Figures, with_bounds

NAMES = ("overload",)

SLOTS, SERVICE_S = 10, 0.4
NOMINAL_PER_S = SLOTS / SERVICE_S
DEADLINE_S = 5.0
TOGETHER = 4  # questions per call in ``in_calls_of_4``
CAPACITY_S, ONCE_S, BATCHED_S, TWICE_S = 15.0, 25.0, 25.0, 180.0
GOODPUT = 0.9
_CALLERS = 30
_GROWTH, _GROWTH_MIB = 1.1, 16.0


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Measure capacity in a closed loop, then send once and twice that; without retries."""
    with stand_in_service(SLOTS, SERVICE_S) as target:
        yield "overload", asyncio.run(_run(target))


async def _run(target: Target) -> Figures:
    capacity = await measured_capacity(target, CAPACITY_S)
    once = await arriving(target, 1, ONCE_S, capacity)
    batched = await arriving(target, 2, BATCHED_S, capacity, TOGETHER)
    samples: list[dict[str, float]] = [memory_mib()]
    sampler = asyncio.create_task(_sampled(samples, TWICE_S / 2))
    twice = await arriving(target, 2, TWICE_S, capacity)
    sampler.cancel()
    start, middle, end = samples[0], samples[1], memory_mib()
    flat = all(one in end and end[one] <= _GROWTH * middle[one] + _GROWTH_MIB for one in middle)
    figures = {
        **twice,
        "capacity_per_s": capacity,
        "nominal_per_s": NOMINAL_PER_S,
        "once": once,
        f"in_calls_of_{TOGETHER}": batched,
        "note": f"goodput {twice['goodput']}, p99 {twice['admitted']['p99_s']} s",
        "memory_mib": {"before": start, "middle": middle, "after": end},
    }
    bounds = {
        f"goodput is {GOODPUT} of capacity": twice["goodput"] >= GOODPUT,
        "p99 of admitted items is within the deadline": twice["admitted"]["p99_s"] <= DEADLINE_S,
        "every absence is overloaded or timeout": twice["absent"].keys()
        <= {"overloaded", "timeout"},
        f"both also hold in calls of {TOGETHER}": batched["goodput"] >= GOODPUT
        and batched["admitted"]["p99_s"] <= DEADLINE_S,
        "memory is flat from the middle to the end": flat,
    }
    return with_bounds(figures, bounds)


async def measured_capacity(target: Target, seconds: float) -> float:
    """Right answers per second with more callers than slots."""
    tally = Tally()
    ends = tally.clock() + seconds
    questions = Questions(prose, "capacity", 60.0)
    ways = ask_functions(bare_clients(target))
    await closed_loop(tally, ways, questions, _CALLERS, lambda: tally.clock() > ends)
    times = sorted(one.ended_s for one in tally.records if one.outcome == "right")
    calm = [each for each in times if times[0] + 1 < each < ends]
    return round((len(calm) - 1) / (calm[-1] - calm[0]), 2)


async def arriving(
    target: Target, times: int, seconds: float, capacity: float, together: int = 1
) -> dict[str, Any]:
    """Send ``times`` the nominal capacity, ``together`` questions a call."""
    tally = Tally()
    questions = Questions(prose, f"times-{times}-{together}", DEADLINE_S)
    began = time.monotonic()
    ways = ask_functions(bare_clients(target))
    await open_loop(tally, ways, questions, times * NOMINAL_PER_S, seconds, together)
    within_deadline = [
        one for one in tally.records if one.outcome == "right" and one.ended_s < began + seconds
    ]
    admitted = [
        one.ended_s - one.asked_s
        for one in tally.records
        if one.outcome == "right" or one.why == "timeout"
    ]
    per_s = len(within_deadline) / seconds
    return {
        **tally.figures(),
        "asked_per_s": round(tally.asked / seconds, 1),
        "right_per_s": round(per_s, 2),
        "goodput": round(per_s / capacity, 3),
        "admitted": quantiles(admitted),
        "refused": quantiles(
            [one.ended_s - one.asked_s for one in tally.records if one.why == "overloaded"]
        ),
        "deadline_s": DEADLINE_S,
    }


async def _sampled(samples: list[dict[str, float]], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        samples.append(await asyncio.to_thread(memory_mib))
