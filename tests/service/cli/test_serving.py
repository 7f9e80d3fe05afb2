from __future__ import annotations

import socket
from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from reward_serve.cli import clusters, serving
from reward_serve.cli.clusters import LaunchError
from reward_serve.cli.controller import ReplicaReports, State
from reward_serve.cli.file_schema import checked
from reward_serve.cli.outage import Endpoint
from tests.fake_service import free_port


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_POLL_S", 0.01)
    monkeypatch.setattr(serving, "_ABSENCE_S", 0.1)


@pytest.fixture
def there() -> Iterator[Endpoint]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Endpoint("Ray's raylet", ("127.0.0.1", server.getsockname()[1]), 0.1)


def watch(monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint, names: list[str]) -> str:
    """Why watching ends when Serve reports these states and then ABSENT."""
    said = iter(names)
    monkeypatch.setattr(
        serving, "states", lambda _: {"reward": State(next(said, "ABSENT"), "", {})}
    )
    with pytest.raises(LaunchError) as caught:
        serving._watch(["reward"], [endpoint], ReplicaReports(), Console(file=StringIO()))
    assert next(said, None) is None
    return str(caught.value)


def test_watching_ends_when_the_raylet_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Endpoint("Ray's raylet", ("127.0.0.1", free_port()), 0.1)
    reason = watch(monkeypatch, gone, ["RUNNING"])
    assert reason.startswith("Ray's raylet has died")
    assert "\n" not in reason


def test_watching_ends_when_serve_is_removed(
    monkeypatch: pytest.MonkeyPatch, there: Endpoint
) -> None:
    reason = watch(monkeypatch, there, ["RUNNING"])
    assert reason == "Serve, or an application of this file, was removed from the cluster"


def test_watching_continues_while_the_controller_restarts_and_over_a_short_absence(
    monkeypatch: pytest.MonkeyPatch, there: Endpoint
) -> None:
    names = ["RUNNING", *["UNKNOWN"] * 30, "ABSENT", "RUNNING", *["DEPLOYING"] * 30, "UNHEALTHY"]
    assert "removed" in watch(monkeypatch, there, names)


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
    serving._print_addresses(file, [url], "192.0.2.1:6379", 9.0, Console(file=out))
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
            clusters._check_port("::1", port)
    clusters._check_port("::1", port)
