"""How long an event loop is kept from its other tasks."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

LONGEST_S = 0.25
_TRIES = 4


async def shortest_pause(work: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    """The longest pause of each run; of up to four runs, the shortest, in seconds."""
    best = float("inf")
    for _ in range(_TRIES):
        best = min(best, await longest_pause(work()))
        if best < LONGEST_S:
            break
    return best


async def longest_pause(work: Coroutine[Any, Any, Any]) -> float:
    """The most CPU time of this process between two turns of its event loop, in seconds.

    Unlike the time of a clock, it does not depend on the machine's other processes.
    """
    longest = 0.0

    async def turns() -> None:
        nonlocal longest
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            longest = max(longest, now - last)
            last = now

    task = asyncio.ensure_future(turns())
    try:
        await work
        await asyncio.sleep(0)
    finally:
        task.cancel()
    return longest
