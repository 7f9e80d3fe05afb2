"""docs/how-to/several-machines.md, on several nodes in one machine."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import yaml
from ray import serve
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from loadtests.chaos.scenarios.changes import replica_nodes
from reward_serve import HttpRewardClient, RewardClient
from reward_serve.app import build_app
from tests.fake_service import free_port
from tests.long.test_grpo_faults import until

pytestmark = pytest.mark.slow
ASKED = {"response": "#### 18", "reference": "18"}
NODE = {"include_dashboard": False, "object_store_memory": 2**27}
PORT = free_port()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head without cores and two nodes, which serve another application."""
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
    for _ in range(2):
        cluster.add_node(**NODE, num_cpus=2)
    ray.init(address=cluster.address, namespace="serve", log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        other = {"name": "other", "kind": "rule", "resources": {"num_cpus": 1}}
        target = serve.RunTarget(build_app({"models": [other]}), "other", "/other")
        serve.run_many([target])
        yield cluster
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.timeout(600)
def test_every_node_asks_and_other_applications_stay(cluster: Cluster, tmp_path: Path) -> None:
    model = {"name": "rule", "kind": "rule", "resources": {"num_cpus": 1}}
    application = {
        "name": "reward",
        "route_prefix": "/reward",
        "import_path": "reward_serve.app:build_app",
        "args": {"models": [{**model, "autoscaling": {"min_replicas": 2, "max_replicas": 2}}]},
    }
    http = {"host": "127.0.0.1", "port": PORT}
    content = {"proxy_location": "HeadOnly", "http_options": http, "applications": [application]}
    file, log = tmp_path / "reward.yaml", tmp_path / "log"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    serving = [sys.executable, "-m", "reward_serve", "serve", str(file)]
    with log.open("wb") as out:
        service = subprocess.Popen([*serving, "--address", cluster.address], stderr=out)
    try:
        assert until(lambda: "REWARD_SERVE_APP=reward" in log.read_text()), log.read_text()
        nodes = [node["NodeID"] for node in ray.nodes()]
        assert replica_nodes("rule") <= {*nodes} - {cluster.head_node.node_id}
        ask = ray.remote(num_cpus=0)(lambda: RewardClient("reward").score(ASKED).score)
        pinned = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        asked = [ask.options(scheduling_strategy=strategy).remote() for strategy in pinned]
        assert ray.get(asked) == [1.0, 1.0, 1.0]
        service.send_signal(signal.SIGTERM)
        assert service.wait(120) == 0
    finally:
        service.kill()
    assert set(serve.status().applications) == {"other"}
    with HttpRewardClient(f"http://127.0.0.1:{PORT}/other") as client:
        assert client.score(ASKED).score == 1.0
