"""Sixteen Ray nodes on one machine: the real ingress, routing and admission, replicas that wait.

``calm`` trainers ask for 70% of what the replicas can give if judging took no time, ``full`` ones
for 130%, ``over`` ones for 200%. Rates and CPU times are of a window in which all are at work,
quantiles of the whole run.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil

from deployments.local import APP, console, free_port
from loadtests.chaos import processes
from loadtests.scale.workload import Seen, Shape, Waiting, WaitingReplica, merged, train
from reward_serve.app import bind_ingress, deployment_options
from reward_serve.config.app import AppConfig
from reward_serve.replica.deployment import RewardReplica

NODES, PROCESSES, SLOTS = 16, 2, 16
SLOWER = 4  # than the measured curve; otherwise two cores end before 24 replicas do
REPLICAS = (1, 2, 4, 8, 16, 24)
LOADS = {"calm": 0.7, "full": 1.3, "over": 2.0}
SHAPE = Shape(generation_s=6.0, pause_s=1.0, steps=3)
CYCLE_S = SHAPE.generation_s + SHAPE.pause_s
_ROLES = {
    "ServeReplica:reward:waiting": "replica",
    "ServeReplica:reward:ingress": "ingress",
    "ProxyActor": "proxy",
    "ServeController": "controller",
    "spawn_main": "caller",
    "raylet/raylet": "raylet",
    "gcs_server": "gcs",
}
_clients: list[Any] = []  # of a process of trainers

Curve = Mapping[int, float]


class Replica(WaitingReplica):
    """A ``WaitingReplica`` that autoscaling asks as it asks every replica."""

    record_autoscaling_stats = RewardReplica.record_autoscaling_stats


def slowed(curve: Curve) -> dict[int, float]:
    """The curve of a replica here."""
    return {items: SLOWER * seconds for items, seconds in curve.items()}


def capacity_per_s(curve: Curve, replicas: int) -> float:
    """Verdicts a second with all slots in use."""
    return replicas * SLOTS / Waiting(slowed(curve)).seconds(SLOTS)


def deploy(curve: Curve, replicas: int, **scaling: float) -> None:
    """Deploy the service, as an update if it is there; returns when it is ready.

    Args:
        curve: measured, of an engine.
        replicas: of the model; with ``scaling`` at most so many.
        scaling: fields of an ``AutoscalingConfig``.
    """
    from ray import serve

    bounds = {"min_replicas": replicas, "max_replicas": replicas, **scaling}
    model = {"name": "waiting", "kind": "rule", "max_concurrent_items": SLOTS}
    config = AppConfig.parse({"models": [{**model, "autoscaling": bounds}]})
    options = deployment_options(config.models[0])
    replica = serve.deployment(Replica).options(name="waiting", **options)
    app = bind_ingress(config.server, {"waiting": replica.bind(SLOTS, slowed(curve))})
    serve.run(app, name=APP, route_prefix="/")


@contextmanager
def cluster(nodes: int = NODES) -> Iterator[tuple[Any, str]]:
    """A head without cores and the other nodes, with two each: Ray's ``Cluster`` and a URL."""
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    node = {"include_dashboard": False, "object_store_memory": 80 * 2**20}
    with console.status(f"{nodes} nodes start"):
        started = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": 0})
        for _ in range(nodes - 1):
            started.add_node(wait=False, **node, num_cpus=2)
        started.wait_for_nodes()
    ray.init(started.address, namespace="serve", log_to_driver=False, logging_level="error")
    port = free_port()
    try:
        serve.start("HeadOnly", {"host": "127.0.0.1", "port": port})
        yield started, f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()
        started.shutdown()


class Trainers:
    """Trainers in processes, one for two replicas, each with a client of its own.

    Args:
        address: the Ray cluster's.
        where: a URL, or the application's name for clients by handle.
        curve, replicas: see ``deploy``.
        load: of ``LOADS``.
        steps: their number.
    """

    def __init__(
        self, address: str, where: str, curve: Curve, replicas: int, load: str, steps: int
    ) -> None:
        self.count = max(PROCESSES, replicas // 2)
        asked = LOADS[load] * capacity_per_s(curve, replicas) * CYCLE_S
        self.prompts = round(asked / SHAPE.samples / self.count)
        shape = replace(SHAPE, prompts=self.prompts, steps=steps)
        spawn, each = multiprocessing.get_context("spawn"), self.count // PROCESSES
        connected = spawn.Barrier(PROCESSES + 1)
        pool = ProcessPoolExecutor(PROCESSES, spawn, _connect, (connected, address, where, each))
        self._parts = [pool.submit(_train, shape, n * each) for n in range(PROCESSES)]
        connected.wait(120)
        self.began, self.ends = (now := time.monotonic()), now + steps * CYCLE_S
        pool.shutdown(wait=False)

    @property
    def ended(self) -> bool:
        """Whether all have ended."""
        return all(part.done() for part in self._parts)

    def seen(self) -> Seen:
        """What they saw, when they have ended."""
        return merged(part.result() for part in self._parts)


def _connect(connected: Any, address: str, where: str, count: int) -> None:
    import ray

    from reward_serve.client import HttpRewardClient, RewardClient

    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    client: Any = HttpRewardClient if where.startswith("http") else RewardClient
    if client is RewardClient:
        ray.init(address, namespace="serve", log_to_driver=False, logging_level="error")
    _clients.extend(client(where) for _ in range(count))
    for each in _clients:
        each.score({"response": "first", "reference": "1"})
    connected.wait(120)


def _train(shape: Shape, first: int) -> Seen:
    return asyncio.run(train(_clients, shape, first))


def usage() -> dict[str, Counter[str]]:
    """CPU ms, MiB of their own and number of this process's descendants, by role."""
    roles: dict[str, Counter[str]] = {}
    for process in psutil.Process().children(recursive=True):
        try:
            title, times = " ".join(process.cmdline()), process.cpu_times()
            mib = round(process.memory_full_info().uss / 2**20)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        role = next((role for part, role in _ROLES.items() if part in title[:200]), "rest of Ray")
        cpu_ms = round(1000 * (times.user + times.system))
        roles.setdefault(role, Counter()).update(cpu_ms=cpu_ms, mib=mib, processes=1)
    return roles


def measured(address: str, where: str, curve: Curve, replicas: int, load: str) -> dict[str, Any]:
    """The figures of one load."""
    trainers = Trainers(address, where, curve, replicas, load, SHAPE.steps)
    begins, ends = trainers.began + CYCLE_S, trainers.ends
    time.sleep(begins - time.monotonic())
    before, _ = usage(), psutil.cpu_percent()
    time.sleep(ends - time.monotonic())
    after, busy, seen = usage(), psutil.cpu_percent(), trainers.seen()
    rate = seen.per_s(begins, ends)
    ms = {role: (used - before.get(role, Counter()))["cpu_ms"] for role, used in after.items()}
    verdicts = rate * (ends - begins)
    return {
        "trainers": trainers.count,
        "prompts": trainers.prompts,
        "per_s": round(rate, 1),
        "share": round(rate / capacity_per_s(curve, replicas), 3),
        "imbalance": round(seen.imbalance(begins, ends), 3),
        "imbalance_2s": round(
            statistics.mean(seen.imbalance(begins + s, begins + s + 2) for s in range(0, 14, 2)), 3
        ),
        **seen.figures(),
        "cpu_ms": {role: round(ms[role] / verdicts, 3) for role in sorted(ms)},
        "cpu_busy": round(busy / 100, 3),
        "cores": round(sum(ms.values()) / 1000 / (ends - begins), 2),
        "mib": {role: after[role]["mib"] for role in sorted(after)},
        "processes": {role: after[role]["processes"] for role in sorted(after)},
    }


def curves(
    curve: Curve,
    loads: Sequence[str],
    replicas: Sequence[int] = REPLICAS,
    over_http: bool = False,
    nodes: int = NODES,
) -> dict[str, Any]:
    """The figures of these loads by number of replicas, on one cluster."""
    figures: dict[str, Any] = {load: {} for load in loads}
    with cluster(nodes) as (ray_cluster, url):
        asked = ray_cluster.address, url if over_http else APP, curve
        for count in replicas:
            with console.status(f"{count} replicas"):
                deploy(curve, count)
                for load in loads:
                    figures[load][str(count)] = measured(*asked, count, load)
    return figures


def faults(curve: Curve, replicas: int = 16, nodes: int = NODES, steps: int = 4) -> dict[str, Any]:
    """Beside ``over`` trainers: 3 of 8 replicas killed, an update, a quarter of the nodes lost."""
    figures = {}
    with cluster(nodes) as (ray_cluster, _), console.status("faults"):

        def lose_replicas() -> None:
            for pid in [*processes.actors("ServeReplica:reward:waiting")][: 3 * replicas // 8]:
                processes.kill(pid)

        def lose_nodes() -> None:
            for node in list(ray_cluster.worker_nodes)[: nodes // 4]:
                node.kill_all_processes(check_alive=False, allow_graceful=False, wait=False)

        def update() -> None:
            deploy(curve, replicas)

        update()
        for fault in (lose_replicas, update, lose_nodes):
            trainers = Trainers(ray_cluster.address, APP, curve, replicas, "over", steps)
            at = trainers.began + 2 * CYCLE_S
            time.sleep(at - time.monotonic())
            fault()
            ends = trainers.began + LOADS["over"] * steps * CYCLE_S  # at the earliest
            figures[fault.__name__] = recovery(trainers.seen(), at, ends)
            console.log(fault.__name__, figures[fault.__name__])
    return figures


def recovery(seen: Seen, at: float, ends: float) -> dict[str, Any]:
    """The rate in the ``CYCLE_S`` before a fault, its lowest, and when it stays above 80%.

    Args:
        seen: all that trainers saw.
        at: when it was, on the loop's clock.
        ends: until when they all asked.
    """
    before = seen.per_s(at - CYCLE_S, at)
    rates = [seen.per_s(at + s, at + s + 3) for s in range(int(ends - at) - 2)]
    back_s = max((s + 1 for s, rate in enumerate(rates) if rate < 0.8 * before), default=0)
    return {
        **seen.figures(),
        "before_per_s": round(before, 1),
        "low_per_s": round(min(rates), 1),
        "back_s": back_s if back_s < len(rates) else None,
        "rates_per_s": [round(rate) for rate in rates],
    }


def scaling(curve: Curve, replicas: int = 24, nodes: int = NODES, steps: int = 7) -> dict[str, Any]:
    """From one replica to all by ``replicas_for_items`` when ``calm`` trainers begin, and back."""
    from ray import serve

    running = list[int]()

    def watch() -> int:
        states = serve.status().applications[APP].deployments["waiting"].replica_states
        running.append(states.get("RUNNING", 0))
        time.sleep(1)
        return running[-1]

    with cluster(nodes) as (ray_cluster, _), console.status("scaling"):
        deploy(curve, replicas, min_replicas=1, downscale_delay_s=20)
        trainers, all_s = Trainers(ray_cluster.address, APP, curve, replicas, "calm", steps), None
        while not trainers.ended:
            if watch() == replicas and all_s is None:
                all_s = round(time.monotonic() - trainers.began)
        seen, ended = trainers.seen(), time.monotonic()
        while watch() > 1 and time.monotonic() < ended + 120:
            pass
    one_s = round(time.monotonic() - ended)
    return {**seen.figures(), "all_s": all_s, "one_s": one_s, "replicas": running}
