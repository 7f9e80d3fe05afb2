"""``disconnects``: callers that hang up mid-request, and some that read a byte a second."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from loadtests.chaos.cluster import (
    Target,
    ask_functions,
    bare_clients,
    first_model,
    stand_in_service,
    wait_until,
)
from loadtests.chaos.load import Tally, open_loop, quantiles
from loadtests.chaos.processes import memory_mib
from loadtests.chaos.questions import Questions, prose
from loadtests.chaos.report import Figures, with_bounds
from reward_serve.http.api import NDJSON

NAMES = ("disconnects",)

SLOTS, SERVICE_S = 256, 0.5
OTHERS_PER_S = 20.0
PHASE_S = 15.0
DEADLINE_S = 10.0
CALLERS, ITEMS = 100, 4
SLOW, SLOW_ITEMS = 8, 64
SLOWER_BY_S = 0.5  # how much longer the other callers' p99 may be
_HANG_UP_AFTER_S = 0.3
_STUCK_S = 5.0
_ECHOED = "x" * 60_000  # in each result, so that a stream fills every buffer between


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run a steady load alone, then beside those callers."""
    with stand_in_service(SLOTS, SERVICE_S) as target:
        yield "disconnects", asyncio.run(_run(target))


async def _run(target: Target) -> Figures:
    before = memory_mib()
    alone = await _others(target, "alone")
    reading = [asyncio.create_task(_reads_slowly(target)) for _ in range(SLOW)]
    await asyncio.sleep(_STUCK_S)  # their scores are ready and wait to be read
    async with httpx.AsyncClient(base_url=target.url, limits=httpx.Limits()) as client:
        times = (number * PHASE_S / CALLERS for number in range(CALLERS))
        hanging_up = asyncio.gather(*(_hangs_up(client, at_s) for at_s in times))
        among = await _others(target, "among")
        hung_up = await hanging_up
    freed_s = await wait_until(lambda: first_model(target)["items"] == 0, 10.0)
    done = sum(task.done() for task in reading)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    calm, busy = (quantiles(tally.latencies_s("right")) for tally in (alone, among))
    figures = {
        **among.figures(),
        "hung_up": sum(hung_up),
        "slow_readers": SLOW,
        "slow_readers_done": done,
        "in_peace": calm,
        "among_them": busy,
        "freed_s": None if freed_s is None else round(freed_s, 2),
        "note": f"other callers' p99 {busy['p99_s']} s, alone {calm['p99_s']} s",
        "memory_mib": {"before": before, "after": memory_mib()},
    }
    slower = (busy["p99_s"] or 0.0) - (calm["p99_s"] or 0.0)
    bounds = {
        "every other request has its score": figures["right"] == figures["asked"],
        f"the other callers' p99 is not {SLOWER_BY_S} s longer": slower < SLOWER_BY_S,
        "no abandoned item is still running": freed_s is not None,
        "most hung up before they were answered": sum(hung_up) > CALLERS // 2,
        "no slow reader had finished": not done,
    }
    return with_bounds(figures, bounds)


async def _others(target: Target, run: str) -> Tally:
    tally = Tally()
    questions = Questions(prose, run, DEADLINE_S)
    await open_loop(tally, ask_functions(bare_clients(target)), questions, OTHERS_PER_S, PHASE_S)
    return tally


async def _hangs_up(client: httpx.AsyncClient, at_s: float) -> bool:
    """Send a batch and hang up; whether that was before the answer."""
    await asyncio.sleep(at_s)
    body = _batch("hangs-up", ITEMS)
    try:
        await client.post("/v1/score/batch", json=body, timeout=_HANG_UP_AFTER_S)
    except httpx.TimeoutException:  # httpx closes the connection
        return True
    return False


async def _reads_slowly(target: Target) -> None:
    """Read a stream of results to its end, a byte a second."""
    body = json.dumps(_batch("slow", SLOW_ITEMS, echoed=_ECHOED)).encode()
    head = (
        f"POST /v1/score/batch HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: {NDJSON}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.setblocking(False)
        await loop.sock_connect(link, ("127.0.0.1", target.port))
        await loop.sock_sendall(link, head.encode() + body)
        byte = b"?"
        while byte:
            byte, _ = await asyncio.gather(loop.sock_recv(link, 1), asyncio.sleep(1.0))


def _batch(run: str, items: int, **metadata: str) -> dict[str, Any]:
    questions = Questions(prose, run, DEADLINE_S)
    return {"requests": [{**next(questions).body, "metadata": metadata} for _ in range(items)]}
