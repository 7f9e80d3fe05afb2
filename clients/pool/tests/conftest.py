from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

KEY = "pool-key-0123456789"


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The base URL of a service with the bundled judge, which runs in its own environment."""
    command = [Path(os.environ["REWARD_SERVE_BIN"], "python"), "-m", "clients.pool.tests.judge"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    keys = {"POOL_KEYS": f"run={KEY}", "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(command, text=True, env=os.environ | keys, **pipes) as service:
        address = service.stdout.readline().strip()
        assert address, "the service ended"
        yield address
        service.stdin.close()
