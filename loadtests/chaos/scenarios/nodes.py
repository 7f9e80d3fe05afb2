"""``node_lost``: three Ray nodes, two with a replica each; one of the two is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from loadtests.chaos.cluster import deploy_rule
from loadtests.chaos.fault_under_load import Schedule, fault_under_load
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Figures, with_bounds

NAMES = ("node_lost",)

DEADLINE_S = 60.0
SCHEDULE = Schedule(callers=8, before_s=4.0, min_requests=1000, after_s=5.0)


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """A node has room for one replica; the lost one must restart on the third node."""
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=_node())
    others = [cluster.add_node(**_node()) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    try:
        yield "node_lost", _kill_node(cluster, others)
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()


def _node() -> dict[str, Any]:
    return {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 2**27}


def _kill_node(cluster: Any, others: list[Any]) -> Figures:
    scaling = {"min_replicas": 2, "max_replicas": 2}
    fields = {"autoscaling": scaling, "resources": {"num_cpus": 1}}
    target, _ = deploy_rule(cluster.gcs_address, {"num_replicas": 2}, **fields)
    before = replica_nodes("rule")
    lost = next(node for node in others if node.node_id in before)

    def inject() -> Figures:
        cluster.remove_node(lost, allow_graceful=False)
        return {}

    def restored() -> bool:
        now = replica_nodes("rule")
        return len(now) == len(before) and lost.node_id not in now

    questions = Questions(marked, "node", DEADLINE_S)
    figures = asyncio.run(fault_under_load(target, questions, SCHEDULE, inject, restored))
    bounds = {
        "two nodes held a replica each": len(before) == 2,
        "every request has its score": figures["right"] == figures["asked"],
        "it recovered by itself": None not in (figures["recovered_s"], figures["healed_s"]),
    }
    return with_bounds({**figures, "deadline_s": DEADLINE_S}, bounds)


def replica_nodes(model: str) -> set[str]:
    """Ids of the nodes with a replica of this model."""
    from ray._private import state

    alive = state.actors(actor_state_name="ALIVE").values()
    replicas = [actor for actor in alive if actor["ActorClassName"].endswith(f":{model}")]
    return {actor["Address"]["NodeID"] for actor in replicas}
