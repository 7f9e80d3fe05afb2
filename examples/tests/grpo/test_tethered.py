from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.grpo import tethered

OWNER = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True)
time.sleep(60)
"""
COMMAND = ["sh", "-c", 'sleep 60 & echo $! > "$0"; wait']


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def runs(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("killed", ["owner", "tether"])
def test_what_a_command_started_ends_with_its_owner_and_its_tether(
    killed: str, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    command = [sys.executable, tethered.__file__, *COMMAND, str(pid_file)]
    if killed == "owner":
        command = [sys.executable, "-c", OWNER, *command]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert until(lambda: pid_file.exists() and bool(pid_file.read_text().strip()))
        grandchild = int(pid_file.read_text())
        assert runs(grandchild)
        process.kill()  # a Ray worker kills its children, too, before it ends

    assert until(lambda: not runs(grandchild))


def test_its_status_is_the_commands() -> None:
    command = [sys.executable, tethered.__file__, sys.executable, "-c", "raise SystemExit(7)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait() == 7
