import socket
from io import StringIO
from types import SimpleNamespace

import pytest
from ray import serve
from rich.console import Console

from reward_serve.cli import launch
from reward_serve.cli.launch import LaunchError, wait_until

TRACEBACK = "\x1b[36mray::f()\x1b[39m\nTraceback (most recent call last):\nRuntimeError: a\n"


def wait(monkeypatch: pytest.MonkeyPatch, *statuses: tuple[str, str], timeout_s: float = 60) -> str:
    """What is printed during a wait for an application with these statuses and messages."""
    states = iter(statuses)

    def status() -> SimpleNamespace:
        name, message = next(states)
        deployments = {"judge": SimpleNamespace(message=message)}
        app = SimpleNamespace(status=name, message="", deployments=deployments)
        return SimpleNamespace(applications={"reward": app})

    monkeypatch.setattr(serve, "status", status)
    monkeypatch.setattr(launch, "_POLL_S", 0)
    wait_until(lambda: True, Console(file=(out := StringIO())), ["reward"], timeout_s)
    return out.getvalue()


def test_it_waits_until_an_application_runs_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = ("DEPLOYING", "1 replica waits for CPU: 9, available: 2")
    printed = wait(monkeypatch, ("DEPLOYING", ""), waits, waits, ("RUNNING", ""))
    assert printed.splitlines() == [
        "reward: deploying",
        "reward: deploying: 1 replica waits for CPU: 9, available: 2",
        "reward: running",
    ]
    failed = ("DEPLOY_FAILED", f"{TRACEBACK}ValueError: no disk\nnow")
    with pytest.raises(LaunchError, match=r"^reward: deploy_failed: ValueError: no disk\nnow$"):
        wait(monkeypatch, waits, failed)
    with pytest.raises(LaunchError, match="not ready after 0 s: reward: deploying"):
        wait(monkeypatch, waits, timeout_s=-1)


def test_a_taken_port_is_named_before_ray_starts() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        with pytest.raises(LaunchError, match=r"Address already in use.*choose another --port"):
            launch._check_port("::1", port)
    launch._check_port("::1", port)
