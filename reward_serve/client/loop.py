"""This process's own event loop, which no trainer can block."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a fork has none of its parent's


def own_loop() -> asyncio.AbstractEventLoop:
    """The loop, which runs in a thread of its own."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="reward-serve", daemon=True).start()
    return loop


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of work on the loop. Not from a running event loop, which it would block."""
    if asyncio._get_running_loop() is not None:
        work.close()
        raise RuntimeError("not from a running event loop: await the method's async twin")
    future = asyncio.run_coroutine_threadsafe(work, own_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
