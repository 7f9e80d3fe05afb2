"""``giants``: bodies up to and over the limits beside small requests, on a rule model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from deployments.local import APP
from loadtests.chaos.cluster import Target, deploy_rule, local_cluster, wait_until
from loadtests.chaos.giants import DEADLINE_S, REFUSED, Giants, ask_for, connect
from loadtests.chaos.load import Ask, Tally, open_loop, quantiles
from loadtests.chaos.posting import Poster
from loadtests.chaos.processes import memory_mib
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Bounds, Figures, with_bounds
from reward_serve.client.handle import HandleTransport

NAMES = ("giants",)

SMALL_PER_S = 40.0
CALM_S, AMONG_S = 20.0, 120.0
SLOWER = 2.0  # times the p95 of small requests without large ones
GROWTH, GROWTH_MIB, SETTLED_S = 1.25, 150.0, 30.0
_CPUS = 16  # logical
_PROCESSES = ("rule", "ingress")


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Send small requests alone, then beside large ones from another process."""
    with local_cluster(num_cpus=_CPUS) as address:
        target, _ = deploy_rule(address, rule={"verifier": "gsm8k_strict_last"})
        with ProcessPoolExecutor(1, get_context("spawn"), connect, (address,)) as pool:
            yield "giants", asyncio.run(_run(target, pool))


async def _run(target: Target, pool: ProcessPoolExecutor) -> Figures:
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(pool, os.getpid)  # once it is connected
    async with Poster(target.url) as poster:
        ways = {"handle": HandleTransport(APP).ascore_batch, "http": poster.single}
        calm = await _small(ways, "calm", CALM_S)
        before = await asyncio.to_thread(memory_mib)
        asking = loop.run_in_executor(pool, ask_for, target.url, AMONG_S)
        among = await _small(ways, "among", AMONG_S)
        giants = await asking
    memory = {"before": before, "at_once": await asyncio.to_thread(memory_mib)}
    settled_s = await wait_until(lambda: settled(before, memory_mib()), SETTLED_S)
    memory["after"] = await asyncio.to_thread(memory_mib)
    small = {
        way: {
            "calm": quantiles(calm.latencies_s("right", way=way)),
            "among": quantiles(among.latencies_s("right", way=way)),
        }
        for way in ways
    }
    codes = poster.codes + giants.codes
    figures = {
        **joined(calm, among, giants.tally).figures(),
        "small": small,
        **sent(giants),
        "codes": {str(code): number for code, number in sorted(codes.items())},
        "memory_mib": memory,
        "settled_s": None if settled_s is None else round(settled_s, 1),
        "note": "; ".join(
            f"small by {way}: p95 {each['among']['p95_s']} s, calm {each['calm']['p95_s']} s"
            for way, each in small.items()
        ),
    }
    back = f"memory is back within {GROWTH - 1:.0%} or {GROWTH_MIB:g} MiB in {SETTLED_S:g} s"
    bounds = {
        "every request within the limits has its score": figures["right"] == figures["asked"],
        "a request over a limit is a 413 or invalid": giants.refused.keys() == REFUSED,
        "no reply is a 5xx": not any(code >= 500 for code in codes),
        **not_slower(small),
        back: settled_s is not None,
    }
    return with_bounds(figures, bounds)


def sent(giants: Giants) -> Figures:
    """Sizes and latencies of the large requests, and the refusals."""
    ways = sorted({one.way for one in giants.tally.records})
    return {
        "giants": {way: quantiles(giants.tally.latencies_s("right", way=way)) for way in ways},
        "bodies": giants.bodies,
        "mib": round(giants.mib),
        "refused": dict(giants.refused),
    }


def not_slower(small: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> Bounds:
    """For each way, the bound on the small requests' p95 beside large ones."""
    return {
        f"small by {way}: p95 is at most {SLOWER:g} times the calm one": (
            each["among"]["p95_s"] or float("inf")
        )
        <= SLOWER * (each["calm"]["p95_s"] or 0.0)
        for way, each in small.items()
    }


def settled(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    """Whether the memory of replica and ingress is about as before."""
    return all(
        each in now and now[each] <= max(GROWTH * before[each], before[each] + GROWTH_MIB)
        for each in _PROCESSES
    )


def joined(*tallies: Tally) -> Tally:
    """Merge several tallies."""
    every = Tally()
    every.asked = sum(one.asked for one in tallies)
    every.records = [record for one in tallies for record in one.records]
    return every


async def _small(ways: Mapping[str, Ask], run: str, seconds: float) -> Tally:
    tally = Tally()
    await open_loop(tally, ways, Questions(marked, run, DEADLINE_S), SMALL_PER_S, seconds)
    return tally
