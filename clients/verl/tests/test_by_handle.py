"""verl 0.9.1's reward workers ask by handle, from another Ray job and namespace than the service's.

As Ray actors, as verl starts them. The service runs in the environment of ``REWARD_SERVE_BIN``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from clients.verl.tests import reward_job
from tests import rule_cluster


def test_the_reward_workers_find_the_service(tokenizer: Path) -> None:
    assert Path.cwd() == Path(reward_job.__file__).parents[3]
    command = [Path(os.environ["REWARD_SERVE_BIN"], "python"), "-m", rule_cluster.__name__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as service:
        address = service.stdout.readline().strip()
        assert address, "the service ended"
        job = [sys.executable, "-m", reward_job.__name__, address, str(tokenizer)]
        done = subprocess.run(job, capture_output=True, text=True, timeout=280)
        service.stdin.close()

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "trainer [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]"
