"""Inject a fault, or change the configuration, under load, and measure what callers saw."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

from loadtests.chaos.load import Ask, Tally, closed_loop, quantiles
from loadtests.chaos.questions import Question
from loadtests.chaos.report import Figures
from loadtests.chaos.target import Target, ask_functions, shared_clients, wait_until
from reward_serve.client import Client

_TIMEOUT_S = 180.0


async def fault_under_load(
    target: Target,
    questions: Iterator[Question],
    inject: Callable[[], object],
    restored: Callable[[], bool] = lambda: True,
    *,
    ask: Callable[[Mapping[str, Client]], Mapping[str, Ask]] = ask_functions,
    min_requests: int,
    callers: int = 8,
    before_s: float = 4.0,
    after_s: float = 3.0,
) -> Figures:
    """Load an application by handle and over HTTP, inject a fault, and wait for recovery.

    Args:
        target: the application.
        questions: the questions to send.
        inject: injects the fault; may block.
        restored: whether the faulty part has been replaced.
        ask: the clients' functions to call.
        min_requests: minimum number of requests in all.
        callers: callers for each way, in a closed loop.
        before_s: seconds of load before the fault.
        after_s: seconds of load after every way has recovered.

    Returns:
        The tally's figures; ``recovered_s``, from the fault to the first right answer to a request
        sent after it, for the slowest way; ``outage_s``, the longest time without a right answer
        (longer if the faulty part dies later); ``healed_s``, until ``restored`` held.
    """
    tally, stopped = Tally(), asyncio.Event()
    clients = shared_clients(target)
    load = asyncio.create_task(closed_loop(tally, ask(clients), questions, callers, stopped.is_set))
    await asyncio.sleep(before_s)
    start_s = time.monotonic()
    await asyncio.to_thread(inject)
    inject_s = time.monotonic() - start_s

    def done() -> bool:
        recovered = tally.recovered_s(start_s).keys() == clients.keys()
        return recovered and tally.asked >= min_requests

    healed, _ = await asyncio.gather(wait_until(restored, _TIMEOUT_S), wait_until(done, _TIMEOUT_S))
    await asyncio.sleep(after_s)
    stopped.set()
    await load
    recovered = tally.recovered_s(start_s)
    every = recovered.keys() == clients.keys()
    return {
        **tally.figures(),
        "recovered_s": round(max(recovered.values()), 2) if every else None,
        "recovered_by_way_s": {way: round(took, 2) for way, took in recovered.items()},
        "outage_s": round(max(tally.outage_s(start_s).values(), default=0.0), 2),
        "retried": sum(client.counters.snapshot()["retried"] for client in clients.values()),
        "waits": quantiles(tally.latencies_s("right")),
        "healed_s": None if healed is None else round(inject_s + healed, 1),
    }
