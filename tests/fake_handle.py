"""A deployment's handle to replicas of this process, whose calls end as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reward_serve.routing.dispatch import note_replicas

End = BaseException | Callable[[list[Any]], Any]
"""What a replica's calls raise, or what makes their answer of the items."""


class Call:
    """A call under way."""

    def __init__(self, end: End, items: list[Any]) -> None:
        self._end = end
        self._items = items
        self.cancelled = False

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return self.result(0)

    async def __aiter__(self) -> AsyncIterator[Any]:
        yield [*enumerate(await self)]

    def result(self, timeout_s: float) -> Any:
        return self._made(self._items)

    def _made(self, items: list[Any]) -> Any:
        if isinstance(self._end, BaseException):
            raise self._end
        return self._end(items)

    def cancel(self) -> None:
        self.cancelled = True


class Handle:
    """Serve's, of the replicas ``r0``, ``r1`` and so on; a call of no session goes to the first."""

    app_name, deployment_name = "reward", "judge"

    def __init__(self, *ends: End, call: Callable[[End, list[Any]], Any] = Call) -> None:
        self._ends = ends
        self._call = call
        self._session = "r0"
        self.calls: list[Any] = []
        self.batches: list[str] = []
        self.score_batch = self.score_stream = self.score_group = self
        self.complete = self.describe = self.explain = self

    def options(self, session_id: str | None = None, **options: object) -> Handle:
        other = Handle(*self._ends, call=self._call)
        other._session = session_id or self._session
        other.calls, other.batches = self.calls, self.batches
        return other

    def remote(self, *arguments: Any) -> Any:
        end = self._ends[int(self._session.removeprefix("r"))]
        items, *batch = arguments or ([],)
        self.batches += batch
        self.calls.append(self._call(end, items))
        return self.calls[-1]


@contextmanager
def replicas(count: int) -> Iterator[None]:
    """This process's router knows so many."""
    note_replicas("reward", "judge", [f"r{n}" for n in range(count)])
    yield
    note_replicas("reward", "judge", [])


def right(items: list[Any]) -> list[Any]:
    """Every item is, and has its id back."""
    return [{"status": "ok", "score": 1.0, "id": item["id"]} for item in items]
