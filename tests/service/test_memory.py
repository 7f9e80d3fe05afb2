from __future__ import annotations

import subprocess
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


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_large_blocks_return_when_they_are_freed() -> None:
    code = """
import psutil
from reward_serve import memory
resident = lambda: psutil.Process().memory_info().rss / 2**20
memory.return_large_blocks()
first = b"x" * 30_000_000
del first  # after which glibc keeps up to 32 MiB by itself
before, kept, blocks = resident(), [], []
for index in range(30):
    blocks.append(bytes([index]) * 6_000_000)
    kept.append(bytes([index]) * 100_000)
held = resident()
del blocks
print(held - before, resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    held, left = map(float, done.stdout.split())
    assert held > 140
    assert left < 20


def test_without_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    memory.trim()
