import ctypes
import subprocess
import sys
import time

import psutil
import pytest

from reward_serve.engines.process_guard import (
    install,
    mark_undefined_rows,
    own_child_processes,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")

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


def runs(pid: int) -> bool:
    """Whether a process runs; one that waits for its parent to collect it does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_an_owned_engine_and_its_workers_die_with_their_killed_owner() -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        core, worker = (int(owner.stdout.readline()) for _ in range(2))
        assert core != worker and runs(core) and runs(worker)
        owner.kill()
    deadline = time.monotonic() + 30
    while (runs(core) or runs(worker)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs(core) and not runs(worker)


def test_the_owner_and_unowned_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REWARD_SERVE_ENGINE_OWNER", raising=False)
    install()
    monkeypatch.setenv("REWARD_SERVE_ENGINE_OWNER", "before")
    own_child_processes()
    install()
    signal = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(2, ctypes.byref(signal)) == 0  # PR_GET_PDEATHSIG
    assert signal.value == 0


def test_rows_that_are_not_computed_are_of_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.outputs import LogprobsTensors

    monkeypatch.setattr(LogprobsTensors, "empty_cpu", staticmethod(LogprobsTensors.empty_cpu))
    mark_undefined_rows()
    tensors = LogprobsTensors.empty_cpu(3, 2)
    assert tensors.logprob_token_ids[:, 0].tolist() == [-1] * 3
    assert tensors.logprobs.shape == (3, 2)
