from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from loadtests.chaos import faults

_GREEDY = """
import sys
print("ready", flush=True)
sys.stdin.readline()
try:
    bytearray(2**30)
except MemoryError:
    print("no memory", flush=True)
"""


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _GREEDY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_what_is_killed_is_gone(victim: subprocess.Popen[str]) -> None:
    faults.kill(victim.pid)
    assert victim.wait(5) == -9
    assert faults.rss_mib(victim.pid) == 0.0


def test_what_is_suspended_is_there_and_does_nothing(victim: subprocess.Popen[str]) -> None:
    faults.suspend(victim.pid)
    _, status = os.waitpid(victim.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert faults.rss_mib(victim.pid) > 0


def test_what_is_starved_has_no_memory_to_allocate(victim: subprocess.Popen[str]) -> None:
    faults.starve(victim.pid)
    told, _ = victim.communicate("\n", timeout=5)
    assert told == "no memory\n"
