"""``verifier_stopped``: SIGSTOP of the child process in which a rule model computes formulas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from random import Random

import psutil

from loadtests.chaos import processes
from loadtests.chaos.cluster import deploy_rule, first_model, local_cluster
from loadtests.chaos.fault_under_load import Schedule, fault_under_load
from loadtests.chaos.questions import Pair, Questions
from loadtests.chaos.report import Figures, with_bounds

STOPPED = "verifier_stopped"
NAMES = (STOPPED,)

DEADLINE_S = 60.0
REPLACED_S = 40.0
"""The verifier's limit for a call, 20 s, and a start that imports sympy."""
SCHEDULE = Schedule(callers=4, before_s=6.0, min_requests=400, after_s=2.0)


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run each scenario on its own cluster."""
    for name in chosen:
        with local_cluster() as address:
            yield name, _stopped(address)


def _stopped(address: str) -> Figures:
    target, _ = deploy_rule(address, rule={"verifier": "math"})

    def child() -> psutil.Process:
        (forker,) = psutil.Process(first_model(target)["pid"]).children()
        return forker.children()[0]

    def inject() -> Figures:
        before.append(child().pid)
        processes.suspend(before[0])
        return {}

    before: list[int] = []
    questions = Questions(_formula, STOPPED, DEADLINE_S)
    figures = asyncio.run(
        fault_under_load(target, questions, SCHEDULE, inject, lambda: [child().pid] != before)
    )
    recovered_s = figures["recovered_s"]
    bounds = {
        f"recovered within {REPLACED_S:g} s": recovered_s is not None and recovered_s < REPLACED_S,
        "the process was replaced": figures["healed_s"] is not None,
        "every request has its score": figures["right"] == figures["asked"],
    }
    return with_bounds(figures, bounds)


def _formula(rng: Random) -> Pair:
    """A fraction, which the rule's process must compare."""
    over, under = rng.randrange(1, 2_000), rng.randrange(2, 2_000)
    right = rng.random() < 0.5
    body = {
        "response": rf"So it is \boxed{{\frac{{{over}}}{{{under}}}}}",
        "reference": rf"$\frac{{{3 * over + (not right)}}}{{{3 * under}}}$",
    }
    return body, float(right)
