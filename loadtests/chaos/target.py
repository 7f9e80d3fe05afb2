"""The applications that scenarios break, and their clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from deployments.local import APP, free_port, serve_run
from loadtests.chaos.load import Ask
from loadtests.chaos.standin import NAME, StandInReplica
from loadtests.cluster import await_ready, config, replica_served
from reward_serve.client import Client, HttpRewardClient, RewardClient
from reward_serve.client.transport import HandleTransport, HttpTransport, ServiceTransport

_POLL_S = 0.1


@dataclass(frozen=True)
class Target:
    """A deployed application.

    Attributes:
        address: GCS address of its Ray cluster.
        url: base URL of its HTTP server.
    """

    address: str
    url: str

    @property
    def port(self) -> int:
        """Its HTTP port."""
        return int(self.url.rpartition(":")[2])


@contextmanager
def stand_in_service(slots: int, service_s: float, fault_rate: float = 0.0) -> Iterator[Target]:
    """Deploy the stand-in's replica behind the service's own ingress."""
    with replica_served(NAME, StandInReplica, slots, service_s, fault_rate) as (address, url):
        await_ready(url)
        yield Target(address, url)


def deploy_rule(
    address: str, server: Mapping[str, Any] | None = None, **fields: Any
) -> tuple[Target, dict[str, Any]]:
    """Deploy a rule model and wait until it is ready; return its config to change and rerun."""
    model = {"name": "rule", "kind": "rule", **fields}
    target = Target(address, f"http://127.0.0.1:{free_port()}")
    content = config(target.port, [model], server)
    serve_run(address, content)
    await_ready(target.url)
    return target, content


def shared_clients(target: Target, **settings: Any) -> dict[str, Client]:
    """The trainers' client, which retries, by handle and over HTTP."""
    return {
        "handle": RewardClient(APP, **settings),
        "http": HttpRewardClient(target.url, **settings),
    }


def bare_clients(target: Target) -> dict[str, ServiceTransport]:
    """The clients' transports, which do not retry, by handle and over HTTP."""
    return {"handle": HandleTransport(APP), "http": HttpTransport(target.url)}


def ask_functions(
    clients: Mapping[str, Client | ServiceTransport],
) -> dict[str, Ask]:
    """Each client's batch function."""
    return {way: client.ascore_batch for way, client in clients.items()}


def ask_teacher(clients: Mapping[str, Client]) -> dict[str, Ask]:
    """Each client's function for log-probabilities."""
    return {way: client.alogprobs for way, client in clients.items()}


def first_model(target: Target) -> dict[str, Any]:
    """The first model's entry in ``/v1/models``, which lacks its replica's part if that is late."""
    with HttpRewardClient(target.url) as client:
        for _ in range(5):
            entry = client.models()[0]
            if "pid" in entry:
                break
            time.sleep(_POLL_S)
        return entry


async def wait_until(condition: Callable[[], bool], within_s: float) -> float | None:
    """Poll a condition, which may block; seconds until it held, None if it did not."""
    began = time.monotonic()
    while not await asyncio.to_thread(condition):
        if time.monotonic() - began > within_s:
            return None
        await asyncio.sleep(_POLL_S)
    return time.monotonic() - began
