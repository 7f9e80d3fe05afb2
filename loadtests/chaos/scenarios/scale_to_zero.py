"""``scale_to_zero``: a rule model idles until it has no replica, then is asked; by each way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

from deployments.local import APP
from loadtests.chaos import processes
from loadtests.chaos.cluster import (
    Target,
    ask_functions,
    deploy_rule,
    local_cluster,
    shared_clients,
    wait_until,
)
from loadtests.chaos.load import Tally
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Figures, with_bounds

NAMES = ("scale_to_zero",)

DEADLINE_S = 60.0
_AT_ONCE = 8
_IDLE_S = 90.0
_SCALING = {
    "min_replicas": 0,
    "max_replicas": 2,
    "initial_replicas": 1,
    "look_back_period_s": 3.0,
    "downscale_delay_s": 3.0,
    "upscale_delay_s": 0.0,
}


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Use Serve's default intervals for reporting load."""
    with local_cluster(num_cpus=4) as address:
        fields = {"autoscaling": _SCALING, "resources": {"num_cpus": 0.1}}
        target, _ = deploy_rule(address, **fields)
        yield "scale_to_zero", asyncio.run(_run(target))


async def _run(target: Target) -> Figures:
    tally, before = Tally(), processes.memory_mib()
    ways = ask_functions(shared_clients(target))
    questions = Questions(marked, "zero", DEADLINE_S)
    idle: list[float | None] = []
    first: dict[str, float] = {}
    for way, ask in ways.items():
        idle.append(await wait_until(lambda: not _replicas(), _IDLE_S))
        began = time.monotonic()
        await asyncio.gather(*(tally.send(way, ask, [next(questions)]) for _ in range(_AT_ONCE)))
        first[way] = round(tally.recovered_s(began).get(way, float("nan")), 2)
    figures = {
        **tally.figures(),
        "recovered_s": max(first.values()),
        "first_answer_s": first,
        "idle_s": [None if took is None else round(took, 1) for took in idle],
        "deadline_s": DEADLINE_S,
        "memory_mib": {"before": before, "after": processes.memory_mib()},
    }
    bounds = {
        "it scaled to zero": None not in idle,
        "every request has its score": figures["right"] == figures["asked"],
    }
    return with_bounds(figures, bounds)


def _replicas() -> int:
    """Number of the rule model's replicas."""
    names = processes.actors(processes.REPLICA).values()
    return sum(name == f"{processes.REPLICA}{APP}:rule" for name in names)
