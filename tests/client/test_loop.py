from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from reward_serve.client.loop import own_loop, run


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
    assert cancelled.wait(5)
