"""``node_lost``: of three Ray nodes, one of two with a replica each is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from loadtests.chaos.cluster import deployed_rule
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Figures, reported
from loadtests.chaos.strike import Siege, besieged

NAMES = ("node_lost",)

DEADLINE_S = 60.0
SIEGE = Siege(callers=8, calm_s=4.0, at_least=1000, after_s=5.0)


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """A node holds one replica, no more; the lost one's comes back on the third node."""
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=_node())
    others = [cluster.add_node(**_node()) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    try:
        yield "node_lost", _struck(cluster, others)
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()


def _node() -> dict[str, Any]:
    return {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 2**27}


def _struck(cluster: Any, others: list[Any]) -> Figures:
    scaling = {"min_replicas": 2, "max_replicas": 2}
    fields = {"autoscaling": scaling, "resources": {"num_cpus": 1}}
    target, _ = deployed_rule(cluster.gcs_address, {"num_replicas": 2}, **fields)
    before = replica_nodes("rule")
    lost = next(node for node in others if node.node_id in before)

    def strike() -> Figures:
        cluster.remove_node(lost, allow_graceful=False)
        return {}

    def again() -> bool:
        now = replica_nodes("rule")
        return len(now) == len(before) and lost.node_id not in now

    questions = Questions(marked, "node", DEADLINE_S)
    figures = asyncio.run(besieged(target, questions, SIEGE, strike, again))
    bounds = {
        "two nodes held a replica each": len(before) == 2,
        "every request has its score": figures["right"] == figures["asked"],
        "it recovered by itself": None not in (figures["recovered_s"], figures["healed_s"]),
    }
    return reported({**figures, "deadline_s": DEADLINE_S}, bounds)


def replica_nodes(model: str) -> set[str]:
    """Nodes with a replica of this model."""
    from ray._private import state

    alive = state.actors(actor_state_name="ALIVE").values()
    replicas = [actor for actor in alive if actor["ActorClassName"].endswith(f":{model}")]
    return {actor["Address"]["NodeID"] for actor in replicas}
