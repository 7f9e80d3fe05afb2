"""A load during which something is broken, or changed, and what the callers saw of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadtests.chaos.cluster import Target, asks, shared_clients, until
from loadtests.chaos.faults import memory_mib
from loadtests.chaos.load import Tally, closed_loop, quantiles
from loadtests.chaos.questions import Question
from loadtests.chaos.report import Figures


@dataclass(frozen=True)
class Siege:
    """How long a load lasts around its strike.

    Attributes:
        callers: for each way, in a closed loop.
        calm_s: from its start to the strike.
        at_least: requests asked in all.
        after_s: it goes on for so long when every way has recovered.
        patience_s: from the strike; then it is given up.
    """

    callers: int
    calm_s: float
    at_least: int
    after_s: float = 1.0
    patience_s: float = 180.0


async def besieged(
    target: Target,
    questions: Iterator[Question],
    siege: Siege,
    strike: Callable[[], Figures],
    again: Callable[[], bool] = lambda: True,
) -> Figures:
    """What came of a load by the shared clients.

    Args:
        target: who is asked, by handle and over HTTP.
        questions: what.
        siege: how much.
        strike: breaks or changes something, and tells of it; it may block.
        again: whether all is again as it was.

    Returns:
        The tally's figures; ``recovered_s``, from the strike to the first right answer to a request
        asked after it, of the way that took longest; ``outage_s``, its longest time without a right
        answer, which differs where what was struck dies later; ``healed_s``, until ``again`` held.
    """
    tally, stopped = Tally(), asyncio.Event()
    clients = shared_clients(target)
    before = memory_mib()
    load = asyncio.create_task(
        closed_loop(tally, asks(clients), questions, siege.callers, stopped.is_set)
    )
    await asyncio.sleep(siege.calm_s)
    struck_s = time.monotonic()
    told = await asyncio.to_thread(strike)

    def over() -> bool:
        recovered = tally.recovered_s(struck_s).keys() == clients.keys()
        return recovered and tally.asked >= siege.at_least

    told_s = time.monotonic() - struck_s
    healed, _ = await asyncio.gather(until(again, siege.patience_s), until(over, siege.patience_s))
    await asyncio.sleep(siege.after_s)
    stopped.set()
    await load
    recovered = tally.recovered_s(struck_s)
    every = recovered.keys() == clients.keys()
    return {
        **tally.figures(),
        "recovered_s": round(max(recovered.values()), 2) if every else None,
        "recovered_by_way_s": {way: round(took, 2) for way, took in recovered.items()},
        "outage_s": round(max(tally.outage_s(struck_s).values(), default=0.0), 2),
        "healed_s": None if healed is None else round(told_s + healed, 1),
        "retried": sum(client.counters.snapshot()["retried"] for client in clients.values()),
        "waits": quantiles(tally.waits_s("right")),
        "memory_mib": {"before": before, "after": memory_mib()},
        **told,
    }
