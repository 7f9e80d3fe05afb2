"""``raylet_killed`` and ``gcs_killed``: Ray dies under `reward-serve serve` with a supervisor.

The command must end by itself, with exit code 1 and without orphans, so that it is started again.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence

import psutil

from deployments.local import free_port
from loadtests.chaos import processes
from loadtests.chaos.cluster import wait_until
from loadtests.chaos.load import Tally, closed_loop
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Figures, with_bounds
from reward_serve.client import HttpRewardClient

_KILLED = {"raylet_killed": "raylet", "gcs_killed": "gcs_server"}
NAMES = tuple(_KILLED)

CALLERS = 8
BEFORE_S, AFTER_S = 3.0, 3.0
START_S = 120.0
NOTICED_WITHIN_S = 30.0
DEADLINE_S = 120.0


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Each on a service of its own."""
    for name in chosen:
        yield name, asyncio.run(_killed(_KILLED[name], name))


async def _killed(process_name: str, scenario: str) -> Figures:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    tally, stopped = Tally(), asyncio.Event()
    client = HttpRewardClient(url, timeout_s=DEADLINE_S)
    first = await _serve(port)
    second = None
    try:
        with HttpRewardClient(url) as probe:
            await wait_until(probe.is_ready, START_S)
            questions = Questions(marked, scenario, DEADLINE_S)
            ways = {"http": client.ascore_batch}
            load = asyncio.create_task(closed_loop(tally, ways, questions, CALLERS, stopped.is_set))
            await asyncio.sleep(BEFORE_S)
            family = psutil.Process(first.pid).children(recursive=True)
            killed_s = time.monotonic()
            processes.kill(next(each.pid for each in family if each.name() == process_name))
            code = await asyncio.wait_for(first.wait(), START_S)
            ended_s = time.monotonic()
            orphans = sum(each.is_running() for each in family)
            second = await _serve(port)
            await wait_until(lambda: bool(tally.recovered_s(ended_s)), START_S)
            await asyncio.sleep(AFTER_S)
            stopped.set()
            await load
    finally:
        for service in (first, second):
            if service is not None and service.returncode is None:
                service.terminate()
                await service.wait()
    noticed_s, recovered_s = ended_s - killed_s, tally.recovered_s(ended_s).get("http")
    figures = {
        **tally.figures(),
        "noticed_s": round(noticed_s, 1),
        "recovered_s": None if recovered_s is None else round(noticed_s + recovered_s, 1),
        "outage_s": round(max(tally.outage_s(killed_s).values(), default=0.0), 1),
        "deadline_s": DEADLINE_S,
    }
    bounds = {
        "the command ended within 30 s": noticed_s < NOTICED_WITHIN_S,
        "with exit code 1": code == 1,
        "it left no process": orphans == 0,
        "every request has its score": figures["right"] == figures["asked"],
        "it was served again": recovered_s is not None,
    }
    return with_bounds(figures, bounds)


async def _serve(port: int) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "reward_serve", "serve", "rule.yaml", "--port", str(port)]
    return await asyncio.create_subprocess_exec(*command)
