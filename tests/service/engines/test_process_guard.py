from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from reward_serve.engines.process_guard import install, own_child_processes
from tests.service.engines.owners import is_gone_within, owners, read_line, runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")

VARIABLE = "REWARD_SERVE_ENGINE_OWNER"

CHILD = """
import os, subprocess, sys, time
from reward_serve.engines.process_guard import install
{before}
install()
print(os.getpid(), flush=True)
{after}
time.sleep(60)
"""
STARTS_A_WORKER = f"subprocess.Popen([sys.executable, '-c', {CHILD.format(before='', after='')!r}])"
WAITS_FOR_AN_ORPHANS_PARENT = """
parent = os.getppid()
print(os.getpid(), flush=True)
while os.getppid() == parent:
    time.sleep(0.01)
print('init' if os.getppid() == 1 else 'subreaper', flush=True)
"""
OWNER = """
import subprocess, sys, time
from reward_serve.engines.process_guard import own_child_processes
own_child_processes()
subprocess.Popen([sys.executable, '-c', {child!r}])
time.sleep(60)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts an owner with one child; both write to the owner's standard output."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    with owners(environment) as started:

        def start(before: str = "", after: str = "") -> subprocess.Popen[str]:
            child = CHILD.format(before=before, after=after)
            return started("-c", OWNER.format(child=child))

        yield start


def test_an_owned_engine_and_its_workers_die_with_their_killed_owner(start: Start) -> None:
    owner = start(after=STARTS_A_WORKER)
    core, worker = int(read_line(owner)), int(read_line(owner))
    assert core != worker
    assert runs(core) and runs(worker)
    owner.send_signal(signal.SIGKILL)
    assert is_gone_within(10, core)
    assert is_gone_within(10, worker)


def test_an_engine_whose_owner_died_before_install_exits(start: Start) -> None:
    owner = start(before=WAITS_FOR_AN_ORPHANS_PARENT)
    child = int(read_line(owner))
    owner.send_signal(signal.SIGKILL)
    adopted_by = read_line(owner)
    if adopted_by != "init":
        os.kill(child, signal.SIGKILL)
        pytest.skip("orphans here are adopted by a subreaper")
    assert read_line(owner) == ""  # no process id: install() did not return
    assert is_gone_within(10, child)


def test_the_owner_itself_and_unowned_processes_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    install()
    monkeypatch.setenv(VARIABLE, "before")
    own_child_processes()
    install()
    found = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(2, ctypes.byref(found)) == 0  # PR_GET_PDEATHSIG
    assert found.value == 0
