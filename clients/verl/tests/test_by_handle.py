"""verl 0.9.1's reward workers ask by handle, from another Ray job and namespace than the service's.

As Ray actors, as verl starts them; and the task runner that probes, as verl starts it. The service
runs in the environment that ``REWARD_SERVE_BIN`` names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.verl.tests import reward_job
from tests import rule_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A cluster that serves rules as the application ``reward``; its address."""
    command = [Path(os.environ["REWARD_SERVE_BIN"], "python"), "-m", rule_cluster.__name__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        address = process.stdout.readline().strip()
        assert address, "the service ended"
        yield address
        process.stdin.close()


def job(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A Ray job of its own, in another namespace."""
    module = reward_job.__name__
    assert Path.cwd() == Path(reward_job.__file__).parents[3]
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=280
    )


def test_the_reward_workers_find_the_service(cluster: str, tokenizer: Path) -> None:
    done = job("score", cluster, str(tokenizer))

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "trainer [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]"


def test_the_task_runner_ends_a_run_that_the_service_refuses(cluster: str, tmp_path: Path) -> None:
    done = job("probe", cluster, str(tmp_path))

    assert done.returncode == 1
    assert "row 0 of the training data cannot have a verdict: model: " in done.stderr
    assert "'nobody/model'" in done.stderr
