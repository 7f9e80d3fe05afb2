"""Changed configs under load, on the rule model: ``rolling_update`` and ``rolling_update_one``.

With two replicas of everything, ``serve run`` of a config whose settings changed (every replica is
replaced, the ingress's too), then of one with a replica more, then of one with another model beside
it. With one replica, the first of these.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from deployments.local import APP, serve_run
from loadtests.chaos import faults
from loadtests.chaos.cluster import deployed_rule, local_cluster
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Figures, reported
from loadtests.chaos.strike import Siege, besieged

NAMES = ("rolling_update", "rolling_update_one")

DEADLINE_S = 60.0
SIEGE = Siege(callers=8, calm_s=3.0, at_least=1000, after_s=2.0)
_CPUS = 16  # logical
_UPDATED_S = 90.0


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Each on a cluster of its own."""
    for name in chosen:
        replicas = 2 if name == "rolling_update" else 1
        yield name, _updated(name, replicas)


def _updated(name: str, replicas: int) -> Figures:
    with local_cluster(num_cpus=_CPUS) as address:
        scaling = {"min_replicas": replicas, "max_replicas": replicas}
        fields = {"autoscaling": scaling, "resources": {"num_cpus": 0.1}}
        target, told = deployed_rule(address, {"num_replicas": replicas}, **fields)
        took: dict[str, float] = {}

        def strike() -> Figures:
            for what, change in list(_CHANGES.items())[: 1 if replicas == 1 else None]:
                began = time.monotonic()
                before = set(faults.actors(faults.REPLICA))
                change(told["applications"][0]["args"])
                serve_run(address, told)
                _await_update(before)
                took[what] = round(time.monotonic() - began, 1)
            return {"updates_s": took}

        questions = Questions(marked, name, DEADLINE_S)
        figures = asyncio.run(besieged(target, questions, SIEGE, strike))
    bounds = {
        "none failed": figures["right"] == figures["asked"],
        "callers waited within their deadlines": figures["waits"]["max_s"] <= DEADLINE_S,
    }
    slowest = figures["waits"]["max_s"]
    return reported({**figures, "note": f"longest wait {slowest} s"}, bounds)


def _await_update(before: set[int]) -> None:
    """Until the application runs, and none of its replicas is one of these.

    Raises:
        TimeoutError: it does not come to that.
    """
    from ray import serve

    ends = time.monotonic() + _UPDATED_S
    while before & faults.actors(faults.REPLICA).keys() or (
        serve.status().applications[APP].status != "RUNNING"
    ):
        if time.monotonic() > ends:
            raise TimeoutError(f"the update was not done in {_UPDATED_S:g} s")
        time.sleep(0.2)


def _settings(args: dict[str, Any]) -> None:
    args["models"][0]["max_item_chars"] = 50_000


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
