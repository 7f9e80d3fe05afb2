from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from reward_serve.client import transport as loop
from reward_serve.client.transport import in_thread, own_loop, run


def test_work_runs_on_one_loop_in_a_thread_of_its_own() -> None:
    async def where() -> tuple[object, int]:
        return asyncio.get_running_loop(), threading.get_ident()

    first, second = run(where()), run(where())
    assert first == second
    assert first[0] is own_loop()
    assert first[1] != threading.get_ident()


def test_what_it_raises_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("of the work")

    with pytest.raises(LookupError, match="of the work"):
        run(fail())


def test_an_interrupted_wait_cancels_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    submit = asyncio.run_coroutine_threadsafe

    def interrupted(*arguments: Any) -> Any:
        future: Any = submit(*arguments)
        submit(asyncio.sleep(0.01), own_loop()).result()  # the work has begun

        def result() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(future, "result", result)
        return future

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(wait())
    assert cancelled.wait(30)


def test_work_on_the_loop_cannot_block_it() -> None:
    async def ask_again() -> None:
        run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="would block the clients' event loop"):
        asyncio.run_coroutine_threadsafe(ask_again(), own_loop()).result(timeout=30)


def test_an_interrupted_start_leaves_no_loop_without_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(thread: threading.Thread) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(loop, "_loop", None)
        raise KeyboardInterrupt

    unused = asyncio.new_event_loop()
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: unused)
    monkeypatch.setattr(loop, "_loop", None)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        own_loop()
    unused.close()
    assert loop._loop is None


async def test_work_in_a_thread_outlives_its_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    leave = threading.Event()
    work = in_thread(lambda: leave.wait(5))
    asyncio.wrap_future(work).cancel()
    await asyncio.sleep(0)
    leave.set()

    assert work.result(timeout=30)
    assert errors == []
