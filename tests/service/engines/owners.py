"""Processes that own others, started and killed by tests."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import psutil


@contextmanager
def owners(environment: Mapping[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python processes with these arguments; ends them after the block."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, *arguments]
        owner = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(environment), text=True)
        started.append(owner)
        return owner

    yield start
    for owner in started:
        owner.kill()
        owner.wait()
        assert owner.stdout is not None
        owner.stdout.close()


def read_line(owner: subprocess.Popen[str]) -> str:
    assert owner.stdout is not None
    return owner.stdout.readline().strip()


def runs(pid: int) -> bool:
    """Whether a process runs; one that waits for its parent to collect it does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def is_gone_within(seconds: float, pid: int) -> bool:
    deadline = time.monotonic() + seconds
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not runs(pid)
