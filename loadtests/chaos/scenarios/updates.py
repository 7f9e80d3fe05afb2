"""Config changes of a rule model under load: ``rolling_update`` and ``rolling_update_one``.

With two replicas of model and ingress: ``serve run`` with changed settings (which replaces every
replica, including the ingress), then with one more replica, then with another model. With one
replica: only the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from deployments.local import APP, serve_run
from loadtests.chaos import processes
from loadtests.chaos.cluster import deploy_rule, local_cluster
from loadtests.chaos.fault_under_load import Schedule, fault_under_load
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Figures, with_bounds

NAMES = ("rolling_update", "rolling_update_one")

DEADLINE_S = 60.0
SCHEDULE = Schedule(callers=8, before_s=3.0, min_requests=1000, after_s=2.0)
_CPUS = 16  # logical
_UPDATED_S = 90.0


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run each scenario on its own cluster."""
    for name in chosen:
        replicas = 2 if name == "rolling_update" else 1
        yield name, _updated(name, replicas)


def _updated(name: str, replicas: int) -> Figures:
    with local_cluster(num_cpus=_CPUS) as address:
        scaling = {"min_replicas": replicas, "max_replicas": replicas}
        fields = {"autoscaling": scaling, "resources": {"num_cpus": 0.1}}
        target, content = deploy_rule(address, {"num_replicas": replicas}, **fields)
        took: dict[str, float] = {}

        def inject() -> Figures:
            for what, change in list(_CHANGES.items())[: 1 if replicas == 1 else None]:
                began = time.monotonic()
                before = set(processes.actors(processes.REPLICA))
                change(content["applications"][0]["args"])
                serve_run(address, content)
                _await_update(before)
                took[what] = round(time.monotonic() - began, 1)
            return {"updates_s": took}

        questions = Questions(marked, name, DEADLINE_S)
        figures = asyncio.run(fault_under_load(target, questions, SCHEDULE, inject))
    bounds = {
        "no request failed": figures["right"] == figures["asked"],
        "no caller waited beyond its deadline": figures["waits"]["max_s"] <= DEADLINE_S,
    }
    slowest = figures["waits"]["max_s"]
    return with_bounds({**figures, "note": f"longest wait {slowest} s"}, bounds)


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


def _settings(args: dict[str, Any]) -> None:
    args["models"][0]["max_item_bytes"] = 50_000


def _replicas(args: dict[str, Any]) -> None:
    scaling = args["models"][0]["autoscaling"]
    scaling["min_replicas"] = scaling["max_replicas"] = scaling["max_replicas"] + 1


def _model(args: dict[str, Any]) -> None:
    args["models"].append({**args["models"][0], "name": "another"})


_CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "settings": _settings,
    "replicas": _replicas,
    "model": _model,
}
