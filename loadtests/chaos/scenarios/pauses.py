"""Stop processes of a rule model's service with SIGSTOP under load.

``paused_replica`` and ``paused_ingress`` are continued after a while: a paused process keeps its
connections, as on a machine that swaps or whose container is frozen. ``verifier_stopped`` is never
continued: the child process in which a rule compares formulas must be replaced.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from random import Random

import psutil

from loadtests.chaos import processes
from loadtests.chaos.fault_under_load import fault_under_load
from loadtests.chaos.questions import Pair, marked, questions_of
from loadtests.chaos.report import Figures, recovers, with_bounds
from loadtests.chaos.target import deploy_rule, first_model
from loadtests.cluster import local_cluster

PAUSE_S = 8.0
DEADLINE_S = 60.0
RECOVERED_S = 15.0
REPLACED_S = 40.0
"""The verifier's limit for a call, 20 s, and a start that imports sympy."""


def _replica(deployment: str) -> int:
    replicas = processes.actors(processes.REPLICA).items()
    return next(pid for pid, name in replicas if name.endswith(deployment))


_PAUSED = {"paused_replica": "rule", "paused_ingress": "ingress"}
_STOPPED = "verifier_stopped"
NAMES = (*_PAUSED, _STOPPED)


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Pause in turn on the same application; stop the verifier on another."""
    paused = [name for name in chosen if name in _PAUSED]
    if paused:
        with local_cluster() as address:
            target, _ = deploy_rule(address)
            for name in paused:
                process = psutil.Process(_replica(_PAUSED[name]))

                def pause(process: psutil.Process = process) -> None:
                    process.suspend()
                    time.sleep(PAUSE_S)
                    process.resume()

                questions = questions_of(marked, name, DEADLINE_S)
                figures = asyncio.run(fault_under_load(target, questions, pause, min_requests=500))
                yield name, with_bounds(figures, recovers(figures, RECOVERED_S))
    if _STOPPED in chosen:
        with local_cluster() as address:
            yield _STOPPED, _stopped(address)


def _stopped(address: str) -> Figures:
    target, _ = deploy_rule(address, rule={"verifier": "math"})

    def child() -> int:
        (forker,) = psutil.Process(first_model(target)["pid"]).children()
        return int(forker.children()[0].pid)

    def inject() -> None:
        before.append(child())
        processes.suspend(before[0])

    before: list[int] = []
    questions = questions_of(_formula, _STOPPED, DEADLINE_S)
    load = fault_under_load(
        target, questions, inject, lambda: [child()] != before, min_requests=400, callers=4
    )
    figures = asyncio.run(load)
    return with_bounds(figures, recovers(figures, REPLACED_S))


def _formula(rng: Random) -> Pair:
    """A fraction, which the rule's process must compare."""
    over, under = rng.randrange(1, 2_000), rng.randrange(2, 2_000)
    right = rng.random() < 0.5
    body = {
        "response": rf"So it is \boxed{{\frac{{{over}}}{{{under}}}}}",
        "reference": rf"$\frac{{{3 * over + (not right)}}}{{{3 * under}}}$",
    }
    return body, float(right)
