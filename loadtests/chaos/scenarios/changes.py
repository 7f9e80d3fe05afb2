"""Changes of a rule model's replicas under load.

``rolling_update``, with two replicas of model and ingress: ``serve run`` with changed settings
(which replaces every replica, including the ingress), then with one more replica, then with another
model. ``rolling_update_one``, with one replica: only the first. ``scale_to_zero``: the model idles
until it has no replica, then is asked; by each way. ``node_lost``: three Ray nodes, two with a
replica each; one of the two is killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

from deployments.local import APP, serve_run
from loadtests.chaos import processes
from loadtests.chaos.fault_under_load import fault_under_load
from loadtests.chaos.load import Tally
from loadtests.chaos.questions import marked, questions_of
from loadtests.chaos.report import Figures, all_right, recovers, with_bounds
from loadtests.chaos.target import (
    Target,
    ask_functions,
    deploy_rule,
    shared_clients,
    wait_until,
)
from loadtests.cluster import local_cluster

NAMES = ("rolling_update", "rolling_update_one", "scale_to_zero", "node_lost")

DEADLINE_S = 60.0
MIN_REQUESTS = 1000
_UPDATED_S, _IDLE_S = 90.0, 90.0
_AT_ONCE = 8
_SMALL = {"resources": {"num_cpus": 0.1}}
_TO_ZERO = {
    "min_replicas": 0,
    "max_replicas": 2,
    "initial_replicas": 1,
    "look_back_period_s": 3.0,
    "downscale_delay_s": 3.0,
    "upscale_delay_s": 0.0,
}


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run each scenario on its own cluster."""
    for name in chosen:
        if name == "node_lost":
            yield name, _node_lost()
        elif name == "scale_to_zero":
            with local_cluster(num_cpus=4) as address:
                target, _ = deploy_rule(address, autoscaling=_TO_ZERO, **_SMALL)
                yield name, asyncio.run(_from_zero(target))
        else:
            yield name, _updated(name, 2 if name == "rolling_update" else 1)


def _updated(name: str, replicas: int) -> Figures:
    with local_cluster(num_cpus=16) as address:  # logical
        scaling = {"min_replicas": replicas, "max_replicas": replicas}
        target, content = deploy_rule(
            address, {"num_replicas": replicas}, autoscaling=scaling, **_SMALL
        )
        args = content["applications"][0]["args"]
        took: dict[str, float] = {}

        def update(what: str) -> None:
            began, before = time.monotonic(), set(processes.actors(processes.REPLICA))
            serve_run(address, content)
            _await_update(before)
            took[what] = round(time.monotonic() - began, 1)

        def inject() -> None:
            (model,) = args["models"]
            model["max_item_bytes"] = 50_000
            update("settings")
            if replicas > 1:
                model["autoscaling"] = {"min_replicas": 3, "max_replicas": 3}
                update("replicas")
                args["models"].append({**model, "name": "another"})
                update("model")

        questions = questions_of(marked, name, DEADLINE_S)
        load = fault_under_load(target, questions, inject, min_requests=MIN_REQUESTS)
        figures = asyncio.run(load)
    slowest = figures["waits"]["max_s"]
    bounds = {
        "no request failed": figures["right"] == figures["asked"],
        "no caller waited beyond its deadline": slowest <= DEADLINE_S,
    }
    note = f"longest wait {slowest} s"
    return with_bounds({**figures, "updates_s": took, "note": note}, bounds)


def _await_update(before: set[int]) -> None:
    """Wait until the application runs and all replicas of ``before`` are replaced.

    Raises:
        TimeoutError: after ``_UPDATED_S``.
    """
    from ray import serve

    ends = time.monotonic() + _UPDATED_S
    while before & processes.actors(processes.REPLICA).keys() or (
        serve.status().applications[APP].status != "RUNNING"
    ):
        if time.monotonic() > ends:
            raise TimeoutError(f"the update did not finish in {_UPDATED_S:g} s")
        time.sleep(0.2)


async def _from_zero(target: Target) -> Figures:
    tally = Tally()
    questions = questions_of(marked, "zero", DEADLINE_S)
    idle: list[float | None] = []
    first: dict[str, float] = {}

    def is_idle() -> bool:
        names = processes.actors(processes.REPLICA).values()
        return f"{processes.REPLICA}{APP}:rule" not in names

    for way, ask in ask_functions(shared_clients(target)).items():
        idle.append(await wait_until(is_idle, _IDLE_S))
        began = time.monotonic()
        await asyncio.gather(*(tally.send(way, ask, [next(questions)]) for _ in range(_AT_ONCE)))
        first[way] = round(tally.recovered_s(began).get(way, float("nan")), 2)
    figures = {
        **tally.figures(),
        "recovered_s": max(first.values()),
        "first_answer_s": first,
        "idle_s": [None if took is None else round(took, 1) for took in idle],
    }
    return with_bounds(figures, {"it scaled to zero": None not in idle, **all_right(figures)})


def _node_lost() -> Figures:
    """A node has room for one replica; the lost one must restart on the third node."""
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {
        "num_cpus": 1,
        "include_dashboard": False,
        "object_store_memory": 2**27,
    }
    cluster = Cluster(initialize_head=True, head_node_args=node)
    others = [cluster.add_node(**node) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    try:
        scaling = {"min_replicas": 2, "max_replicas": 2}
        fields: dict[str, Any] = {"autoscaling": scaling, "resources": {"num_cpus": 1}}
        target, _ = deploy_rule(cluster.gcs_address, {"num_replicas": 2}, **fields)
        before = replica_nodes("rule")
        lost = next(node for node in others if node.node_id in before)

        def restored() -> bool:
            now = replica_nodes("rule")
            return len(now) == len(before) and lost.node_id not in now

        load = fault_under_load(
            target,
            questions_of(marked, "node", DEADLINE_S),
            lambda: cluster.remove_node(lost, allow_graceful=False),
            restored,
            min_requests=MIN_REQUESTS,
        )
        figures = asyncio.run(load)
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()
    two = {"two nodes held a replica each": len(before) == 2}
    return with_bounds(figures, {**two, **recovers(figures)})


def replica_nodes(model: str) -> set[str]:
    """Ids of the nodes with a replica of this model."""
    from ray._private import state

    alive = state.actors(actor_state_name="ALIVE").values()
    replicas = [actor for actor in alive if actor["ActorClassName"].endswith(f":{model}")]
    return {actor["Address"]["NodeID"] for actor in replicas}
