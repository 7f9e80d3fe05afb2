"""The workbench as a person runs it: the command, in a process of its own."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake_service import free_port

FLAGS = [
    "--no-sandbox",  # which a container has no rights for
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """The browser's path; without one the test is skipped, and fails where CI is set."""
    if path := next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None):
        return path
    reason = "no Chromium here (Debian: apt-get install chromium)"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@dataclass
class Running:
    """A workbench that answers.

    Attributes:
        url: with its token, as the command printed it.
        said: all that the command printed.
    """

    url: str
    errors: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return self.url.partition("/?")[0]

    def at(self, path: str) -> str:
        """The address of a page, with the token."""
        return f"{self.base}{path}?{self.url.partition('?')[2]}"


@contextmanager
def workbench(
    service: str, *, log: Path | None = None, key: str | None = None
) -> Iterator[Running]:
    """``python -m reward_serve ui`` for a service, until the context ends."""
    port = free_port()
    command = [sys.executable, "-m", "reward_serve", "ui", "--url", service, "--port", str(port)]
    command += ["--log", str(log)] if log else []
    environment: dict[str, Any] = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTEST_CURRENT_TEST", "REWARD_SERVE_API_KEY")
    }
    if key is not None:
        environment["REWARD_SERVE_API_KEY"] = key
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    errors = process.stderr
    opens = (line[5:].strip() for line in errors if line.startswith("open "))
    running = Running(next(opens, ""))
    reader = threading.Thread(target=lambda: running.errors.extend(errors), daemon=True)
    reader.start()
    try:
        assert running.url, "it printed no address"
        _wait(running, process)
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        reader.join(30)
        errors.close()


def _wait(running: Running, process: subprocess.Popen[str]) -> None:
    for _ in range(480):
        try:
            httpx.get(running.base)
            return
        except httpx.TransportError:
            assert process.poll() is None, running.errors
            threading.Event().wait(0.25)
    raise AssertionError(f"no answer after 2 minutes: {running.errors}")
