"""Kills under load, on the bundled judge: its engine core, replica, controller and proxy.

``engine_killed`` (SIGKILL), ``engine_starved`` (no address space left, so that it runs out of
memory), ``engine_hung`` (SIGSTOP), ``replica_killed``, ``controller_killed`` and ``proxy_killed``
(SIGKILL each), and ``judge_updated``: a changed config, with one replica. One deployment for all,
one after another; the model judges every request, and nothing is cached.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import psutil

from deployments.local import free_port, serve_run
from loadtests.chaos import faults
from loadtests.chaos.cluster import (
    Target,
    await_ready,
    config,
    described,
    local_cluster,
)
from loadtests.chaos.questions import Pair, Questions, chosen, marked
from loadtests.chaos.report import Figures, reported
from loadtests.chaos.strike import Siege, besieged
from reward_serve.client import HttpRewardClient, ServiceUnavailableError

POOL = 128
STALL_S = 5.0
DEADLINE_S = 120.0
SIEGE = Siege(callers=8, calm_s=6.0, at_least=330)

Strike = Callable[[int], None]
"""Takes the process of the replica."""

_STRIKES: dict[str, Strike] = {
    "engine_killed": lambda replica: faults.kill(faults.engine_core(replica)),
    "engine_starved": lambda replica: faults.starve(faults.engine_core(replica)),
    "engine_hung": lambda replica: faults.suspend(faults.engine_core(replica)),
    "replica_killed": faults.kill,
    "controller_killed": lambda replica: faults.kill(faults.only(faults.CONTROLLER)),
    "proxy_killed": lambda replica: faults.kill(faults.only(faults.PROXY)),
}
_REPLICA_GOES = ("engine_killed", "engine_starved", "engine_hung", "replica_killed")
_UPDATED = "judge_updated"
NAMES = (*_STRIKES, _UPDATED)


def run(names: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Each strike once the service is whole again; the cold start beside them."""
    began = time.monotonic()
    with local_cluster() as address:
        target = Target(address, f"http://127.0.0.1:{free_port()}")
        told = config(target.port, [_judge()])
        deployed = time.monotonic()
        serve_run(address, told)
        await_ready(target)
        cold = {
            "cold_start_s": round(time.monotonic() - deployed, 1),
            "from_nothing_s": round(time.monotonic() - began, 1),
            "replica_start_s": described(target)["start_s"],
        }
        pool, set_aside = answered_in_peace(target)
        for name in names:
            strike = _update(target, told) if name == _UPDATED else _kill(target, name)
            figures = asyncio.run(_struck(target, name, pool, strike))
            yield name, {**figures, **cold, "set_aside": set_aside}


def _judge() -> dict[str, Any]:
    """As deployments/judge.yaml, but that the model judges all and a hung engine is told soon."""
    return {
        "name": "judge",
        "kind": "judge",
        "engine": {"model": "bundled", "max_num_seqs": 64, "stall_timeout_s": STALL_S},
        "judge": {"template": "final_answer", "rules_first": False},
        "cache": {"enabled": False},
        "max_concurrent_items": 32,
        "resources": {"num_cpus": 2},
    }


def answered_in_peace(target: Target, size: int = POOL) -> tuple[list[Pair], int]:
    """Questions that the judge answers rightly when nothing is wrong; and how many it did not."""
    rng = Random(0)
    pairs = [marked(rng) for _ in range(size)]
    with HttpRewardClient(target.url, timeout_s=DEADLINE_S) as client:
        results = client.score_batch([body for body, _ in pairs])
    kept = [p for p, result in zip(pairs, results, strict=True) if result.score == p[1]]
    return kept, size - len(kept)


def _kill(target: Target, name: str) -> Callable[[], Figures]:
    def strike() -> Figures:
        _STRIKES[name](described(target)["pid"])
        return {}

    return strike


def _update(target: Target, told: dict[str, Any]) -> Callable[[], Figures]:
    def strike() -> Figures:
        (model,) = told["applications"][0]["args"]["models"]
        model["judge"]["response_tokens"] = 80  # another prompt, and so another fingerprint
        serve_run(target.address, told)
        return {}

    return strike


async def _struck(
    target: Target, name: str, pool: Sequence[Pair], strike: Callable[[], Figures]
) -> Figures:
    before = described(target)["pid"]
    family = [psutil.Process(before), *psutil.Process(before).children(recursive=True)]
    controller, proxy = faults.only(faults.CONTROLLER), faults.only(faults.PROXY)

    def again() -> bool:
        """Whether what was struck is there again, and new."""
        try:
            with HttpRewardClient(target.url) as client:
                model = client.models()[0]
            now = {*faults.actors(faults.CONTROLLER), *faults.actors(faults.PROXY)}
        except (ServiceUnavailableError, IndexError):
            return False
        if not model["ready"] or len(now) != 2:
            return False
        if name == "controller_killed":
            return controller not in now
        return proxy not in now if name == "proxy_killed" else bool(model["pid"] != before)

    questions = Questions(chosen(pool), name, DEADLINE_S)
    figures = await besieged(target, questions, SIEGE, strike, again)
    replica_goes = name in (*_REPLICA_GOES, _UPDATED)
    orphans = [p.pid for p in family if replica_goes and p.is_running()]
    bounds = {
        "300 requests were asked": figures["asked"] >= 300,
        "every request has its score": figures["right"] == figures["asked"],
        "it recovered by itself": None not in (figures["recovered_s"], figures["healed_s"]),
        "no process of the old replica is left": not orphans,
    }
    return reported({**figures, "deadline_s": DEADLINE_S}, bounds)
