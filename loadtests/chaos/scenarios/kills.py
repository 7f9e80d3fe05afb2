"""Kill the bundled judge's engine core, replica, controller and proxy under load.

``engine_killed`` (SIGKILL), ``engine_starved`` (no free address space, so that it runs out of
memory), ``engine_hung`` (SIGSTOP), ``replica_killed``, ``controller_killed`` and ``proxy_killed``
(SIGKILL), and ``judge_updated``: a changed config with one replica. All run on one deployment, in
turn; the model judges every request and nothing is cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import psutil

from deployments.local import free_port, serve_run
from loadtests.chaos import processes
from loadtests.chaos.fault_under_load import fault_under_load
from loadtests.chaos.questions import Pair, Question, marked, questions_of
from loadtests.chaos.report import Figures, recovers, with_bounds
from loadtests.chaos.target import Target, first_model
from loadtests.cluster import await_ready, config, local_cluster
from reward_serve.client import HttpRewardClient, ServiceUnavailableError

POOL = 128
STALL_S = 5.0
DEADLINE_S = 120.0

Kill = Callable[[int], None]
"""Takes the replica's process id."""

_KILLS: dict[str, Kill] = {
    "engine_killed": lambda replica: processes.kill(processes.engine_core(replica)),
    "engine_starved": lambda replica: processes.starve(processes.engine_core(replica)),
    "engine_hung": lambda replica: processes.suspend(processes.engine_core(replica)),
    "replica_killed": processes.kill,
    "controller_killed": lambda replica: processes.kill(processes.only(processes.CONTROLLER)),
    "proxy_killed": lambda replica: processes.kill(processes.only(processes.PROXY)),
}
_REPLICA_GOES = ("engine_killed", "engine_starved", "engine_hung", "replica_killed")
_UPDATED = "judge_updated"
NAMES = (*_KILLS, _UPDATED)


def run(names: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run each scenario once the service has recovered."""
    with local_cluster() as address:
        target = Target(address, f"http://127.0.0.1:{free_port()}")
        content = config(target.port, [judge()])
        serve_run(address, content)
        await_ready(target.url)
        pool, set_aside = answered_right(target)
        for name in names:

            def inject(name: str = name) -> None:
                if name == _UPDATED:
                    (model,) = content["applications"][0]["args"]["models"]
                    model["judge"]["response_tokens"] = 80  # changes the prompt and the fingerprint
                    serve_run(address, content)
                else:
                    _KILLS[name](first_model(target)["pid"])

            questions = questions_of(lambda rng: rng.choice(pool), name, DEADLINE_S)
            replica_goes = name in (*_REPLICA_GOES, _UPDATED)
            figures = asyncio.run(measured(target, name, questions, inject, replica_goes))
            yield name, {**figures, "set_aside": set_aside}


def judge() -> dict[str, Any]:
    """As deployments/judge.yaml, without rules first and with a short stall timeout."""
    return {
        "name": "judge",
        "kind": "judge",
        "engine": {"model": "bundled", "max_num_seqs": 64, "stall_timeout_s": STALL_S},
        "judge": {"template": "final_answer", "rules_first": False},
        "cache": {"enabled": False},
        "max_concurrent_items": 32,
        "resources": {"num_cpus": 2},
    }


def answered_right(target: Target, size: int = POOL) -> tuple[list[Pair], int]:
    """Questions that the judge answers rightly without faults, and how many it does not."""
    rng = Random(0)
    pairs = [marked(rng) for _ in range(size)]
    with HttpRewardClient(target.url, timeout_s=DEADLINE_S) as client:
        results = client.score_batch([body for body, _ in pairs])
    kept = [p for p, result in zip(pairs, results, strict=True) if result.score == p[1]]
    return kept, size - len(kept)


async def measured(
    target: Target,
    name: str,
    questions: Iterator[Question],
    inject: Callable[[], None],
    replica_goes: bool,
    **load: Any,
) -> Figures:
    """The figures of ``fault_under_load``, and whether the replica leaves no process behind."""
    before = first_model(target)["pid"]
    family = [psutil.Process(before), *psutil.Process(before).children(recursive=True)]
    controller, proxy = processes.only(processes.CONTROLLER), processes.only(processes.PROXY)

    def restored() -> bool:
        """Whether the killed process has been replaced."""
        try:
            with HttpRewardClient(target.url) as client:
                model = client.models()[0]
            now = {*processes.actors(processes.CONTROLLER), *processes.actors(processes.PROXY)}
        except (ServiceUnavailableError, IndexError):
            return False
        if not model["ready"] or len(now) != 2:
            return False
        if name == "controller_killed":
            return controller not in now
        return proxy not in now if name == "proxy_killed" else bool(model["pid"] != before)

    load = {"min_requests": 330, **load}
    figures = await fault_under_load(target, questions, inject, restored, **load)
    orphans = [p.pid for p in family if replica_goes and p.is_running()]
    bounds = {**recovers(figures), "no process of the old replica is left": not orphans}
    return with_bounds(figures, bounds)
