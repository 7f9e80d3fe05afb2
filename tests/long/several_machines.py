"""docs/how-to/several-machines.md, on several nodes in one machine; writes what was seen.

A process of its own: Ray connects a process to one cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ["RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
import yaml
from ray import serve
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from loadtests.chaos.scenarios.changes import replica_nodes
from reward_serve import HttpRewardClient, RewardClient
from reward_serve.app import build_app
from tests.fake_service import free_port

ASKED = {"response": "#### 18", "reference": "18"}
NODE = {"include_dashboard": False, "object_store_memory": 2**27}
CALLERS = 16


async def slowly(response: str, reference: str, request: dict[str, Any]) -> float:
    """A verifier for which load builds up."""
    await asyncio.sleep(0.2)
    return float(reference in response)


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
    first = cluster.add_node(**NODE, num_cpus=2)
    ray.init(address=cluster.address, namespace="serve", log_to_driver=False)
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    other = build_app({"models": [{"name": "other", "kind": "rule", "resources": {"num_cpus": 1}}]})
    serve.run_many([serve.RunTarget(other, "other", "/other")])
    try:
        with served(cluster.address, port) as (service, said):
            seen = used(cluster, first) | ended(service, port)
        Path(sys.argv[1]).write_text(json.dumps({"said": said, **seen}), encoding="utf-8")
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()


def used(cluster: Cluster, first: Any) -> dict[str, Any]:
    """A node is added under load, each node asks, a node is lost."""
    seen: dict[str, Any] = {"no replica on the head": replica_nodes("rule") == {first.node_id}}
    with load() as statuses:
        until(lambda: statuses["ok"] > CALLERS)
        added = cluster.add_node(**NODE, num_cpus=1)
        until(lambda: replica_nodes("rule") == {first.node_id, added.node_id})
        ask = ray.remote(num_cpus=0)(asked_by_handle)
        nodes = [cluster.head_node, first, added]
        pinned = [NodeAffinitySchedulingStrategy(node.node_id, soft=False) for node in nodes]
        seen["scores on each node"] = ray.get(
            [ask.options(scheduling_strategy=node).remote() for node in pinned]
        )
        cluster.remove_node(added, allow_graceful=False)
        until(lambda: replica_nodes("rule") == {first.node_id})
        after = statuses["ok"]
        until(lambda: statuses["ok"] > after + 3 * CALLERS)
    return seen | {"statuses": dict(statuses)}


def ended(service: subprocess.Popen[bytes], port: int) -> dict[str, Any]:
    """What serves once the command has ended."""
    service.send_signal(signal.SIGTERM)
    code = service.wait(120)
    with HttpRewardClient(f"http://127.0.0.1:{port}/other") as client:
        score = client.score(ASKED).score
    return {"code": code, "left": sorted(serve.status().applications), "other": score}


@contextmanager
def served(address: str, port: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """``reward-serve serve FILE --address``, once it has said where; and what it said."""
    scaling = {"min_replicas": 1, "max_replicas": 2, "target_items": 2}
    model = {
        "name": "rule",
        "kind": "rule",
        "rule": {"verifier": "function", "function": f"{__spec__.name}:slowly"},
        "resources": {"num_cpus": 1},
        "autoscaling": {**scaling, "look_back_period_s": 2, "upscale_delay_s": 0},
    }
    application = {
        "name": "reward",
        "route_prefix": "/reward",
        "import_path": "reward_serve.app:build_app",
        "args": {"models": [model]},
    }
    http = {"host": "127.0.0.1", "port": port}
    content = {"proxy_location": "HeadOnly", "http_options": http, "applications": [application]}
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder, "reward.yaml"), Path(folder, "log")
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        command = [sys.executable, "-m", "reward_serve", "serve", str(file), "--address", address]
        with log.open("w") as out:
            service = subprocess.Popen(command, stderr=out)
        try:
            until(lambda: "REWARD_SERVE_APP" in log.read_text() or service.poll() is not None)
            yield service, log.read_text()
        finally:
            service.kill()


def asked_by_handle() -> float | None:
    return RewardClient("reward").score(ASKED).score


@contextmanager
def load() -> Iterator[Counter[str]]:
    """Callers by handle, all the while; the statuses of their results."""
    statuses: Counter[str] = Counter()
    over = threading.Event()
    client = RewardClient("reward")

    def call() -> None:
        while not over.is_set():
            statuses[client.score(ASKED).status.value] += 1

    callers = [threading.Thread(target=call, daemon=True) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield statuses
    finally:
        over.set()
        for caller in callers:
            caller.join()


def until(condition: Callable[[], bool], within_s: float = 120.0) -> None:
    """Poll until it holds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not come to this within {within_s:g} s")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
