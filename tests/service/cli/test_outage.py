from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from reward_serve.cli.outage import Endpoint, http_endpoints, outage, ray_endpoints
from tests.fake_service import free_port


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield "127.0.0.1", server.getsockname()[1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("reward_serve.cli.outage.time.monotonic", lambda: now[0])
    return now


def test_a_listening_endpoint_is_up(listening: tuple[str, int]) -> None:
    assert outage([Endpoint("Ray's raylet", listening, 0.0)]) is None


def test_an_endpoint_that_refuses_for_its_patience_is_reported_by_name(
    listening: tuple[str, int], clock: list[float]
) -> None:
    port = free_port()
    there = Endpoint("Ray's GCS", listening, 3.0)
    gone = Endpoint("Ray's raylet", ("127.0.0.1", port), 3.0)
    assert outage([there, gone]) is None
    clock[0] += 2.9
    assert outage([there, gone]) is None
    clock[0] += 0.1
    assert outage([there, gone]) == (
        f"Ray's raylet has died: nothing listens on 127.0.0.1:{port}; start the service again"
    )


def test_an_endpoint_that_comes_back_gets_its_full_patience_again(clock: list[float]) -> None:
    port = free_port()
    proxy = Endpoint("Serve's HTTP proxy", ("127.0.0.1", port), 60.0)
    assert not proxy.is_gone()
    clock[0] += 59
    with socket.create_server(("127.0.0.1", port)):
        assert not proxy.is_gone()
    assert not proxy.is_gone()
    clock[0] += 59
    assert not proxy.is_gone()
    clock[0] += 1
    assert proxy.is_gone()


@pytest.mark.parametrize(("head", "patience_s"), [("192.0.2.1", 3.0), ("192.0.2.2", 20.0)])
def test_a_gcs_on_another_machine_may_be_unreachable_for_longer(
    head: str, patience_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = SimpleNamespace(gcs_address=f"{head}:6379", get_node_id=lambda: "here")
    node = {"NodeID": "here", "NodeManagerAddress": "192.0.2.1", "NodeManagerPort": 4000}
    monkeypatch.setattr("ray.get_runtime_context", lambda: context)
    monkeypatch.setattr("ray.nodes", lambda: [node, {"NodeID": "another"}])
    raylet, gcs = ray_endpoints()
    assert (raylet.address, raylet.patience_s) == (("192.0.2.1", 4000), 3.0)
    assert (gcs.address, gcs.patience_s) == ((head, 6379), patience_s)


def test_a_proxy_is_watched_once_for_all_its_applications() -> None:
    urls = ["http://127.0.0.1:8001", "http://127.0.0.1:8001/judge"]
    assert [each.address for each in http_endpoints(urls)] == [("127.0.0.1", 8001)]
