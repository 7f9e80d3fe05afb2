"""Returns freed memory to the operating system.

glibc keeps freed memory in each thread's arena: after a few request bodies of 30 MB, a process
holds hundreds of MB of unused memory.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

LARGE_BYTES = 4 * 2**20
"""Call ``trim`` after this many bytes of requests."""

_M_MMAP_THRESHOLD = -3  # from malloc.h
_LARGE_BLOCK = 2**22


def return_large_blocks() -> None:
    """From now on, return freed blocks of 4 MiB or more at once; no effect without glibc.

    By default glibc raises this limit to the size of the largest block freed, up to 32 MiB, and
    keeps smaller blocks.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def trim() -> None:
    """Return all freed memory, in another thread; no effect without glibc.

    It takes milliseconds and does not hold the GIL.
    """
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        threading.Thread(target=malloc_trim, args=(0,), name="malloc_trim").start()


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
