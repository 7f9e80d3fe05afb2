"""An event loop in a separate thread, which trainers cannot block, and other threads' work."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")

_THREAD = "reward-serve"

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process id, as threads do not survive a fork


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it at the fork


os.register_at_fork(after_in_child=_new_lock)


def own_loop() -> asyncio.AbstractEventLoop:
    """This process's loop; the first call starts it."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
            _loops[os.getpid()] = loop  # last, as Ctrl-C may come before
    return loop


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the loop and wait for its result.

    Raises:
        RuntimeError: the caller runs on the loop itself, for example in a transport.
    """
    if threading.current_thread().name == _THREAD:  # under gevent every thread has the loop running
        work.close()
        raise RuntimeError("this would block the clients' event loop; await the async method")
    future = asyncio.run_coroutine_threadsafe(work, own_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def in_thread(work: Callable[[], Result]) -> Future[Result]:
    """Run blocking work in a daemon thread.

    Unlike the threads of an executor, it neither keeps the process from ending nor is refused once
    the main thread has ended.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # a caller that leaves does not cancel it

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=target, name="reward-serve work", daemon=True).start()
    return future


def in_event_loop() -> bool:
    """Whether the caller runs in an event loop, which blocking work would stop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
