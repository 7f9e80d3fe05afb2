from __future__ import annotations

import subprocess
import sys

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


def test_a_starved_process_cannot_allocate_memory() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _GREEDY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        assert (processes.rss_mib(victim.pid) or 0) > 0
        processes.starve(victim.pid)
        output, _ = victim.communicate("\n", timeout=60)
    assert output == "no memory\n"
    assert processes.rss_mib(victim.pid) is None
