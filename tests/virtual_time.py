"""An event loop whose clock jumps to whatever is due next: hours in milliseconds, no races."""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from unittest import mock

from reward_serve.client import transport

P = ParamSpec("P")
T = TypeVar("T")

TURNS = 12  # of the loop: more than any hand-over here takes


class _Clock(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self._idle = 0

    def __call__(self) -> float:
        return self.now

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everyone waits and nothing is due: a deadlock"
            self._idle = 0 if timeout else self._idle + 1
            # A rounding error may keep a timer due that then waits for as little again.
            self.now += max(1e-9 if self._idle > 100 * TURNS else 0.0, timeout)
        return ready


def run(main: Callable[[], Awaitable[T]]) -> T:
    """What ``main`` returns, on a loop of its own, which is also that of its clients.

    ``time.monotonic`` tells the loop's time.
    """
    clock = _Clock()

    async def started() -> T:
        with mock.patch.object(transport.process, "loop", asyncio.get_running_loop()):
            return await main()

    with (
        mock.patch("time.monotonic", clock),
        asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(clock)) as runner,
    ):
        return runner.run(started())


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a loop of ``run``."""

    @functools.wraps(test)
    def timed(*arguments: P.args, **fixtures: P.kwargs) -> None:
        run(lambda: test(*arguments, **fixtures))

    return timed


async def settle() -> None:
    """Let everything happen that waits for no time to pass."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
