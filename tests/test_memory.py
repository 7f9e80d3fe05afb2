from __future__ import annotations

import sys
import time
from collections.abc import Callable

import psutil
import pytest

from reward_serve import memory


def _resident_mib() -> float:
    return float(psutil.Process().memory_info().rss) / 2**20


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_freed_memory_returns_to_the_system() -> None:
    blocks = [bytes([index % 251]) * 60_000 for index in range(4_000)]
    kept = blocks[-1]  # the top of the heap, which glibc's own trimming stops at
    held = _resident_mib()
    del blocks
    memory.trim()
    assert _within(5.0, lambda: _resident_mib() < held - 150)
    assert len(kept) == 60_000


def test_without_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    memory.trim()
