"""An event loop in a separate thread, which trainers cannot block."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process id, as threads do not survive a fork


def own_loop() -> asyncio.AbstractEventLoop:
    """This process's loop; the first call starts it."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="reward-serve", daemon=True).start()
    return loop


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the loop and wait for its result.

    Raises:
        RuntimeError: the caller runs in an event loop, which this would block.
    """
    if _in_event_loop():
        work.close()
        raise RuntimeError("this would block the running event loop; await the async method")
    future = asyncio.run_coroutine_threadsafe(work, own_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
