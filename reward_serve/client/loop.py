"""The clients' event loop, in a thread of its own that trainers cannot block."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")

_THREAD = "reward-serve"

_lock = threading.RLock()
_loop: asyncio.AbstractEventLoop | None = None


def _forget() -> None:
    global _lock, _loop
    # Threads do not survive a fork, and one may have held the lock.
    _lock, _loop = threading.RLock(), None


os.register_at_fork(after_in_child=_forget)


def process_lock() -> threading.RLock:
    """The lock of all that the clients of this process share; a forked process has its own."""
    return _lock


def own_loop() -> asyncio.AbstractEventLoop:
    """This process's loop; the first call starts it."""
    global _loop
    if _loop is None:
        with _lock:
            if _loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
                _loop = loop  # last, as Ctrl-C may come before
    return _loop


def refuse_to_block() -> None:
    """Raise RuntimeError on the loop's own thread, which must not wait for itself."""
    if threading.current_thread().name == _THREAD:  # under gevent every thread has the loop running
        raise RuntimeError("this would block the clients' event loop; await the async method")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the loop and wait for its result.

    Raises:
        RuntimeError: the caller runs on the loop itself, for example in a transport.
    """
    try:
        refuse_to_block()
    except RuntimeError:
        work.close()
        raise
    future = asyncio.run_coroutine_threadsafe(work, own_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def on_own_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Await a coroutine that must run on the loop, from any loop."""
    if asyncio.get_running_loop() is own_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, own_loop()))


def in_thread(work: Callable[[], Result]) -> Future[Result]:
    """Run blocking work in a daemon thread.

    Unlike an executor's threads, it neither keeps the process from ending nor is refused once the
    main thread has ended.
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
