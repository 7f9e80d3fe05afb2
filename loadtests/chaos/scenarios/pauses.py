"""Stop a process with SIGSTOP under load and continue it: ``paused_replica`` and others.

A paused process keeps its connections, as on a machine that swaps or whose container is frozen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import psutil

from loadtests.chaos import processes
from loadtests.chaos.cluster import deploy_rule, first_model, local_cluster
from loadtests.chaos.fault_under_load import Schedule, fault_under_load
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Figures, with_bounds

PAUSE_S = 8.0
DEADLINE_S = 60.0
RECOVERED_S = 15.0
SCHEDULE = Schedule(callers=8, before_s=3.0, min_requests=500, after_s=3.0)


def _of_ray(name: str) -> int:
    family = psutil.Process().children(recursive=True)
    return next(each.pid for each in family if each.name() == name)


def _ingress() -> int:
    replicas = processes.actors(processes.REPLICA).items()
    return next(pid for pid, name in replicas if name.endswith("ingress"))


_PAUSED: dict[str, Callable[[], int]] = {
    "paused_ingress": _ingress,
    "paused_proxy": lambda: processes.only(processes.PROXY),
    "paused_controller": lambda: processes.only(processes.CONTROLLER),
    "paused_raylet": lambda: _of_ray("raylet"),
    "paused_gcs": lambda: _of_ray("gcs_server"),
}
_REPLICA = "paused_replica"
NAMES = (_REPLICA, *_PAUSED)


def _pause(pid: int) -> Figures:
    process = psutil.Process(pid)
    process.suspend()
    time.sleep(PAUSE_S)
    process.resume()
    return {}


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run each scenario on the same application, in turn."""
    with local_cluster() as address:
        target, _ = deploy_rule(address)
        for name in chosen:
            pid = first_model(target)["pid"] if name == _REPLICA else _PAUSED[name]()
            questions = Questions(marked, name, DEADLINE_S)
            load = fault_under_load(target, questions, SCHEDULE, partial(_pause, pid))
            figures = asyncio.run(load)
            recovered_s = figures["recovered_s"]
            bounds = {
                "every request has its score": figures["right"] == figures["asked"],
                f"recovered within {RECOVERED_S:g} s": recovered_s is not None
                and recovered_s < RECOVERED_S,
            }
            yield name, with_bounds({**figures, "pause_s": PAUSE_S}, bounds)
