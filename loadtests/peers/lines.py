"""What a peer's program is asked and answers: JSON lines on its standard input and output.

Each line of input is a list of rows; the answer is a line for each row as its reward comes, then
``{"done": true}``. Standard library only, for Python 3.11 and later: every environment imports it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

Row = dict[str, Any]
URL, MODEL = os.environ.get("PEER_URL", ""), os.environ.get("PEER_MODEL", "")
MAX_TOKENS = int(os.environ.get("PEER_MAX_TOKENS", "512"))
CALL_S = 20.0
"""Seconds that a call may take, where a peer documents a limit."""
_out = os.fdopen(os.dup(1), "w")


def emit(**line: Any) -> None:
    """Write one line."""
    _out.write(json.dumps(line) + "\n")
    _out.flush()


def answer(step: Callable[[list[Row]], Awaitable[object]]) -> None:
    """Answer every line of input by ``step``, which emits; what a peer prints goes to stderr."""
    os.dup2(2, 1)

    async def steps() -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            await step(json.loads(line))
            emit(done=True)

    asyncio.run(steps())


def each(score: Callable[[Row], Awaitable[Any]]) -> Callable[[list[Row]], Awaitable[object]]:
    """A step that asks for all rows at once; an exception is an absent reward."""

    async def one(row: Row) -> None:
        try:
            emit(row=row["row"], score=await score(row))
        except Exception as error:
            emit(row=row["row"], score=None, reason=f"{type(error).__name__}: {error}"[:200])

    return lambda rows: asyncio.gather(*map(one, rows))
