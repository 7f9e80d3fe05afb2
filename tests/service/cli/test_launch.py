from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from rich.console import Console

from reward_serve.cli import launch
from reward_serve.cli.file_schema import checked
from reward_serve.cli.launch import LaunchError, State, cause, until_stopped, wait_until


def state(name: str, message: str = "", **counts: int) -> State:
    """A state as read from Serve's status of an application with one deployment."""
    status = SimpleNamespace(value=name)
    deployment = SimpleNamespace(replica_states=counts, message=message)
    return launch._state(
        SimpleNamespace(status=status, message="", deployments={"judge": deployment})
    )


def test_an_application_is_usable_once_each_deployment_has_a_replica() -> None:
    assert state("DEPLOYING", RUNNING=1, STARTING=1).is_usable
    assert not state("DEPLOYING", STARTING=2).is_usable
    assert not state("DEPLOY_FAILED", RUNNING=1, STARTING=1).is_usable
    assert not launch._state(None).is_usable
    assert state("RUNNING").is_usable  # scaled to zero
    assert state("DEPLOYING", RUNNING=1, STOPPING=2).is_usable


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("The deployments ['judge'] are UNHEALTHY.", "The deployments ['judge'] are UNHEALTHY."),
        (
            "\x1b[36mray::f()\x1b[39m\nTraceback (most recent call last):\nRuntimeError: a\n\n"
            "Traceback (most recent call last):\nray.exceptions.RayTaskError(E): b\nnow",
            "ray.exceptions.RayTaskError(E): b\nnow",
        ),
    ],
)
def test_the_cause_is_the_error_without_its_tracebacks(message: str, expected: str) -> None:
    assert cause(message) == expected


def test_a_failed_or_slow_application_ends_the_wait_with_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: Iterator[State] = iter(
        [state("DEPLOYING", STARTING=1), state("DEPLOY_FAILED", "no disk")]
    )
    monkeypatch.setattr(launch, "states", lambda names: {"reward": next(said)})
    monkeypatch.setattr(launch, "_POLL_S", 0)
    with pytest.raises(LaunchError, match="reward: deploy_failed after 0 s: no disk"):
        wait_until(lambda found: False, Console(file=StringIO()), ["reward"])
    monkeypatch.setattr(launch, "states", lambda names: {"reward": state("DEPLOYING")})
    with pytest.raises(LaunchError, match="reward: deploying after"):
        wait_until(lambda found: False, Console(file=StringIO()), ["reward"], timeout_s=-1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_block_and_the_handlers_are_restored(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    out = StringIO()
    with until_stopped(Console(file=out)):
        signal.raise_signal(number)
        pytest.fail("the signal did not end the block")
    assert out.getvalue() == "stopped\n"
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_taken_port_is_named_before_ray_starts() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        with pytest.raises(LaunchError, match=r"Address already in use.*choose another --port"):
            launch._check_port("::1", port)
    launch._check_port("::1", port)


@pytest.mark.parametrize(
    ("least", "cores", "needed"), [(1, 2.0, 3), (1, 3.0, None), (0, 2.0, None), (0, 1.0, 2)]
)
def test_models_that_do_not_fit_on_this_machine_are_refused(
    least: int, cores: float, needed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaling = {"autoscaling": {"min_replicas": least}}
    models: list[dict[str, Any]] = [
        {"name": "judge", "kind": "judge"},
        {"name": "r", "kind": "rule"},
    ]
    args = {"models": [{**model, **scaling} for model in models]}
    application = {"import_path": "reward_serve.app:build_app", "args": args}
    found = checked({"applications": [application]}).models
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": cores})
    if needed is None:
        launch._check_room(found)
    else:
        with pytest.raises(LaunchError, match=rf"need {needed} CPU, .* machine has {cores:g}; lo"):
            launch._check_room(found)
