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

LONG_PROMPT = 2**12  # characters of a prompt that take some 30 ms to render at worst
_LONG = 2**14  # bytes of several references, or of a response for each of them
_LONG_RESPONSE = 2**16  # a thread costs more than the rules of a usual rollout, 0.6 ms in 32 KB
_REST_S = 0.0005  # so that a series of calls does not win every race for the GIL
_thread = ThreadPoolExecutor(1, thread_name_prefix="long-texts")  # several would share the GIL


async def off_loop(is_long: bool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function; if ``is_long``, in the thread that all long work shares.

    A cancelled call is not started, or its result is dropped.
    """
    if not is_long:
        return function(*args, **kwargs)

    def run() -> R:
        time.sleep(_REST_S)
        return function(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_thread, run)


def takes_long(request: ScoreRequest) -> bool:
    """Whether grading by rules, which takes up to 50 ms, could block the event loop for long."""
    spoken = (turn.size for turn in reversed(request.messages or ()) if turn.role == "assistant")
    judged = next(spoken, 0) if request.response is None else utf8_bytes(request.response)
    references = request.references
    repeated = judged * len(references) if len(references) > 1 else 0
    return judged > _LONG_RESPONSE or repeated + sum(map(utf8_bytes, references)) > _LONG
