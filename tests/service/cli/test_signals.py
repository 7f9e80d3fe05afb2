from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from reward_serve.cli.signals import signals, until_stopped

ROOT = Path(__file__).resolve().parents[3]
SWALLOWED = """
import signal
from rich.console import Console
from reward_serve.cli.signals import signals, until_stopped

with until_stopped(Console(stderr=True)):
    try:
        signal.raise_signal(signal.{name})
    except:
        print("swallowed")
    signal.raise_signal(signal.{name})  # a second one does not end the ending
    signals.check()
    print("not reached")
print("ended")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_a_bare_except_swallowed_ends_the_block_at_the_next_check(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED.format(name=name)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        # As a shell starts what is in its background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert (done.returncode, done.stdout.split()) == (0, ["swallowed", "ended"]), done.stderr


def test_the_handlers_are_restored_and_a_second_block_runs() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    for number in numbers:
        with until_stopped(Console(quiet=True)):
            signals.check()
            signal.raise_signal(number)
            pytest.fail("the signal did not end the block")

    assert [signal.getsignal(number) for number in numbers] == before
