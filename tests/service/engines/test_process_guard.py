from __future__ import annotations

import ctypes
import os
import signal
import sys

import pytest

from reward_serve.engines.process_guard import install, own_child_processes
from tests.service.engines.owners import is_gone_within, owners, read_line, runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")

VARIABLE = "REWARD_SERVE_ENGINE_OWNER"

CHILD = """
import os, subprocess, sys, time
from reward_serve.engines.process_guard import install
install()
print(os.getpid(), flush=True)
{after}
time.sleep(60)
"""
WORKER = CHILD.format(after="")
CORE = CHILD.format(after=f"subprocess.Popen([sys.executable, '-c', {WORKER!r}])")
OWNER = f"""
import subprocess, sys, time
from reward_serve.engines.process_guard import own_child_processes
own_child_processes()
subprocess.Popen([sys.executable, '-c', {CORE!r}])
time.sleep(60)
"""


def test_an_owned_engine_and_its_workers_die_with_their_killed_owner() -> None:
    with owners(os.environ) as start:  # each writes to the owner's standard output
        owner = start("-c", OWNER)
        core, worker = int(read_line(owner)), int(read_line(owner))
        assert core != worker
        assert runs(core) and runs(worker)
        owner.send_signal(signal.SIGKILL)
        assert is_gone_within(10, core)
        assert is_gone_within(10, worker)


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
