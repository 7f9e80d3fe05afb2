from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from reward_serve.client.transport import own_loop, run


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
