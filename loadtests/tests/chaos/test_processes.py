from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from loadtests.chaos import processes

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


def test_a_killed_process_is_gone(victim: subprocess.Popen[str]) -> None:
    processes.kill(victim.pid)
    assert victim.wait(30) == -9
    assert processes.rss_mib(victim.pid) is None


def test_a_suspended_process_exists_and_is_stopped(victim: subprocess.Popen[str]) -> None:
    processes.suspend(victim.pid)
    _, status = os.waitpid(victim.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert (processes.rss_mib(victim.pid) or 0) > 0


def test_a_starved_process_cannot_allocate_memory(victim: subprocess.Popen[str]) -> None:
    processes.starve(victim.pid)
    output, _ = victim.communicate("\n", timeout=30)
    assert output == "no memory\n"
