"""Returning freed memory to the operating system.

glibc keeps freed memory in each thread's arena for later allocations: after a few bodies of 30 MB
a process holds hundreds of MB that it does not use.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

LARGE_BYTES = 4 * 2**20
"""After so many bytes of requests, call ``trim``."""


def trim() -> None:
    """Return freed memory, from another thread; without glibc, do nothing.

    It takes milliseconds, without the GIL.
    """
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        threading.Thread(target=malloc_trim, args=(0,), name="malloc_trim").start()


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
