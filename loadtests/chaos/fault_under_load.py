"""Inject a fault, or change the configuration, under load, and measure what callers saw."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from loadtests.chaos.cluster import Target, ask_functions, shared_clients, wait_until
from loadtests.chaos.load import Tally, closed_loop, quantiles
from loadtests.chaos.processes import memory_mib
from loadtests.chaos.questions import Question
from loadtests.chaos.report import Figures
from reward_serve.client import Client


@dataclass(frozen=True)
class Schedule:
    """How long the load lasts before and after the fault.

    Attributes:
        callers: callers for each way, in a closed loop.
        before_s: seconds of load before the fault.
        min_requests: minimum number of requests in all.
        after_s: seconds of load after every way has recovered.
        timeout_s: seconds after the fault at which the load ends even without recovery.
    """

    callers: int
    before_s: float
    min_requests: int
    after_s: float = 1.0
    timeout_s: float = 180.0


async def fault_under_load(
    target: Target,
    questions: Iterator[Question],
    schedule: Schedule,
    inject: Callable[[], Figures],
    restored: Callable[[], bool] = lambda: True,
) -> Figures:
    """Load an application by handle and over HTTP, inject a fault, and wait for recovery.

    Args:
        target: the application.
        questions: the questions to send.
        schedule: the load's schedule.
        inject: injects the fault and returns figures to report; may block.
        restored: whether the faulty part has been replaced.

    Returns:
        The tally's figures; ``recovered_s``, from the fault to the first right answer to a request
        sent after it, for the slowest way; ``outage_s``, the longest time without a right answer
        (longer if the faulty part dies later); ``healed_s``, until ``restored`` held.
    """
    tally, stopped = Tally(), asyncio.Event()
    clients = shared_clients(target)
    before = memory_mib()
    load = asyncio.create_task(
        closed_loop(tally, ask_functions(clients), questions, schedule.callers, stopped.is_set)
    )
    await asyncio.sleep(schedule.before_s)
    start_s = time.monotonic()
    figures = await asyncio.to_thread(inject)
    inject_s = time.monotonic() - start_s

    def done() -> bool:
        recovered = tally.recovered_s(start_s).keys() == clients.keys()
        return recovered and tally.asked >= schedule.min_requests

    healed, _ = await asyncio.gather(
        wait_until(restored, schedule.timeout_s), wait_until(done, schedule.timeout_s)
    )
    await asyncio.sleep(schedule.after_s)
    stopped.set()
    await load
    return {
        **_seen(tally, clients, start_s),
        "healed_s": None if healed is None else round(inject_s + healed, 1),
        "memory_mib": {"before": before, "after": memory_mib()},
        **figures,
    }


def _seen(tally: Tally, clients: Mapping[str, Client], start_s: float) -> Figures:
    """What the callers saw."""
    recovered = tally.recovered_s(start_s)
    every = recovered.keys() == clients.keys()
    return {
        **tally.figures(),
        "recovered_s": round(max(recovered.values()), 2) if every else None,
        "recovered_by_way_s": {way: round(took, 2) for way, took in recovered.items()},
        "outage_s": round(max(tally.outage_s(start_s).values(), default=0.0), 2),
        "retried": sum(client.counters.snapshot()["retried"] for client in clients.values()),
        "waits": quantiles(tally.latencies_s("right")),
    }
