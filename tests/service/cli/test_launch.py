from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from rich.console import Console

from reward_serve.cli import launch
from reward_serve.cli.file_schema import checked
from reward_serve.cli.launch import LaunchError, State, cause, until_stopped, wait_until
from reward_serve.cli.options import Options, deployments_file

TWO_MODELS = """
applications:
  - name: reward
    import_path: reward_serve.app:build_app
    args:
      models:
        - {name: judge, kind: judge}
        - {name: format, kind: rule}
"""


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
            "Deploying failed:\nTraceback (most recent call last):\n  File x\nValueError: no\nnow",
            "ValueError: no\nnow",
        ),
        (
            "\x1b[36mray::f()\x1b[39m\nTraceback (most recent call last):\nRuntimeError: a\n\n"
            "Traceback (most recent call last):\nray.exceptions.RayTaskError(E): b",
            "ray.exceptions.RayTaskError(E): b",
        ),
    ],
)
def test_the_cause_is_the_error_without_its_tracebacks(message: str, expected: str) -> None:
    assert cause(message) == expected


def test_a_failed_application_ends_the_wait_with_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: Iterator[State] = iter(
        [state("DEPLOYING", STARTING=1), state("DEPLOY_FAILED", "no disk")]
    )
    monkeypatch.setattr(launch, "states", lambda names: {"reward": next(said)})
    monkeypatch.setattr(launch, "_POLL_S", 0)
    out = StringIO()
    with pytest.raises(LaunchError, match="reward: deploy_failed after 0 s: no disk"):
        wait_until(lambda found: False, Console(file=out), ["reward"])
    assert out.getvalue().split("\n") == ["reward: deploying", "reward: deploy_failed", ""]


def test_an_application_that_takes_too_long_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_it_prints_the_trainers_addresses_and_the_workbenchs_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [
        {"NodeID": each, "NodeManagerAddress": f"192.0.2.{port}", "MetricsExportPort": port}
        for each, port in (("other", 1), ("this", 2))
    ]
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    here = SimpleNamespace(get_node_id=lambda: "this")
    monkeypatch.setattr("ray.get_runtime_context", lambda: here)
    rule = {"name": "rule", "kind": "rule", "verdict_log": {"folder": "/a b"}}
    application = {"name": "reward", "import_path": "reward_serve.app:build_app"}
    file = checked({"applications": [{**application, "args": {"models": [rule]}}]})
    out = StringIO()
    url = "http://127.0.0.1:8000"
    launch._print_addresses(file, [url], "192.0.2.1:6379", 9.0, Console(file=out))
    assert out.getvalue().splitlines() == [
        "ready after 9 s; press Ctrl-C to stop",
        f"REWARD_SERVE_URL={url}",
        "REWARD_SERVE_APP=reward RAY_ADDRESS=192.0.2.1:6379",
        "metrics of this node: http://192.0.2.2:2/metrics",
        f"reward-serve ui --url {url} --metrics http://192.0.2.2:2/metrics --log '/a b'",
    ]


def test_a_port_of_an_ipv6_address_is_checked_before_ray_starts() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        with pytest.raises(LaunchError, match=r"Address already in use.*choose another --port"):
            launch._check_port("::1", port)
    launch._check_port("::1", port)


def test_models_that_fit_alone_but_not_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO_MODELS, encoding="utf-8")
    models = deployments_file(str(file), Options()).models
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    with pytest.raises(LaunchError, match=r"the models need 3 CPU .* this machine has 2;"):
        launch._check_room(models)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 3.0})
    launch._check_room(models)
