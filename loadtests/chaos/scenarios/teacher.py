"""Faults under a teacher's load: every token's log-probability is compared with its own.

``teacher_killed`` (SIGKILL of the replica) and ``teacher_hung`` (SIGSTOP of its engine core).
``teacher_overload``: sequences as long as the model reads, in greater number than it scores within
their deadline, beside short ones and label requests of the same judge; clients do not retry.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from deployments.local import free_port, serve_run
from loadtests.chaos import processes
from loadtests.chaos.load import Ask, Tally, closed_loop, quantiles
from loadtests.chaos.questions import Pair, questions_of, sequences
from loadtests.chaos.report import Figures, with_bounds
from loadtests.chaos.scenarios.kills import DEADLINE_S, answered_right, judge, measured
from loadtests.chaos.target import Target, ask_functions, ask_teacher, bare_clients, first_model
from loadtests.cluster import await_ready, config, local_cluster
from reward_serve.client import HttpRewardClient

_FAULTS: dict[str, Callable[[int], None]] = {
    "teacher_killed": processes.kill,
    "teacher_hung": lambda replica: processes.suspend(processes.engine_core(replica)),
}
_OVERLOAD = "teacher_overload"
NAMES = (*_FAULTS, _OVERLOAD)

SHORT, LONG = (20, 120), (2040, 2047)
LONG_CALLERS, OTHER_CALLERS = 24, 2
OVERLOAD_DEADLINE_S = 30.0
OVERLOAD_S = 90.0


def run(names: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run each scenario once the service has recovered."""
    with local_cluster() as address:
        target = Target(address, f"http://127.0.0.1:{free_port()}")
        model = {**judge(), "teacher": True}
        model["engine"] |= {"dtype": "float32"}  # in int8, the same tokens differ between steps
        serve_run(address, config(target.port, [model]))
        await_ready(target.url)
        short = right_alone(target, 48, SHORT)
        for name in names:
            if name == _OVERLOAD:
                yield name, asyncio.run(_overload(target, short))
                continue

            def inject(name: str = name) -> None:
                _FAULTS[name](first_model(target)["pid"])

            questions = questions_of(lambda rng: rng.choice(short), name, DEADLINE_S, None)
            load = {"ask": ask_teacher, "min_requests": 200}
            yield name, asyncio.run(measured(target, name, questions, inject, True, **load))


def right_alone(target: Target, count: int, lengths: tuple[int, int]) -> list[Pair]:
    """Sequences, and the log-probabilities of each without any other in the engine."""
    bodies = sequences(Random(0), count, lengths)
    with HttpRewardClient(target.url, timeout_s=DEADLINE_S) as client:
        return [(body, client.logprobs([body])[0].logprobs) for body in bodies]


async def _overload(target: Target, short: Sequence[Pair]) -> Figures:
    pools = {
        "long": await asyncio.to_thread(right_alone, target, 4, LONG),
        "short": short,
        "labels": (await asyncio.to_thread(answered_right, target))[0],
    }
    transports = bare_clients(target)

    def ask(way: str) -> Ask:
        async def one_each(bodies: list[dict[str, Any]]) -> list[Any]:
            return [await transports[way].alogprobs(body) for body in bodies]

        return one_each

    ways = {"long": ask("http"), "short": ask("handle")}
    ways["labels"] = ask_functions(transports)["handle"]
    tally, ends = Tally(), time.monotonic() + OVERLOAD_S

    async def load(way: str) -> None:
        options = ({"cache": False},) if way == "labels" else None
        pool = pools[way]
        questions = questions_of(lambda rng: rng.choice(pool), way, OVERLOAD_DEADLINE_S, options)
        callers = LONG_CALLERS if way == "long" else OTHER_CALLERS
        await closed_loop(
            tally, {way: ways[way]}, questions, callers, lambda: time.monotonic() > ends
        )

    await asyncio.gather(*map(load, ways))
    figures = tally.figures()
    for way in ways:
        records = [record for record in tally.records if record.way == way]
        waits = [record.ended_s - record.asked_s for record in records if record.outcome == "right"]
        outcomes = Counter(record.why or record.outcome for record in records)
        figures[way] = {**outcomes, "waits": quantiles(waits)}
    bounds = {
        "every absence is overloaded or timeout": figures["absent"].keys()
        <= {"overloaded", "timeout"},
        "short sequences and labels are never absent": all(
            {*figures[way]} <= {"right", "waits"} for way in ("short", "labels")
        ),
    }
    return with_bounds(figures, bounds)
