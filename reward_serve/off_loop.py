"""Runs work on long texts in a thread, so that the event loop serves other requests meanwhile.

CPython can switch threads every 5 ms between bytecodes, but not within a call of C code. The work
must therefore split long texts before it applies a regular expression to them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from reward_serve.messages import utf8_bytes
from reward_serve.schema import ScoreRequest

P = ParamSpec("P")
R = TypeVar("R")

LIMIT = 2**16  # characters of a usual rollout; its rules take 1 ms, and a thread costs more
RENDERED = 16  # what a prompt's character costs: 2**12 of them take some 30 ms at worst
_REPEATED = 4  # what a character costs that is read for each of several references
_REST_S = 0.0005  # so that a series of calls does not win every race for the GIL
_thread = ThreadPoolExecutor(1, thread_name_prefix="long-texts")  # several would share the GIL


async def off_loop(cost: float, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function; if it costs more than ``LIMIT``, in the thread that all long work shares.

    ``cost`` is the characters of a response that rules would read in the same time. A cancelled
    call is not started, or its result is dropped.
    """
    if cost <= LIMIT:
        return function(*args, **kwargs)

    def run() -> R:
        time.sleep(_REST_S)
        return function(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_thread, run)


def grading_cost(request: ScoreRequest) -> int:
    """The cost of grading by rules."""
    turns = (turn.size for turn in reversed(request.messages or ()) if turn.role == "assistant")
    judged = next(turns, 0) if request.response is None else utf8_bytes(request.response)
    references = request.references
    repeated = judged * len(references) if len(references) > 1 else 0
    return max(judged, _REPEATED * (repeated + sum(map(utf8_bytes, references))))
