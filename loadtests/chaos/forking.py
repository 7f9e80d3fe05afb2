"""``python -m loadtests.chaos.forking URL``: forked processes ask through inherited clients.

Without Ray, as in a trainer that asks over HTTP. Prints the sum of the tallies' figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from loadtests.chaos.load import Tally, closed_loop
from loadtests.chaos.questions import Questions, marked
from reward_serve.client import HttpRewardClient
from reward_serve.client.http import HttpTransport
from reward_serve.client.transport import Transport

CHILDREN, EACH, CALLERS = 8, 300, 8
DEADLINE_S = 60.0

inherited: Mapping[str, Transport]


def inherit(clients: Mapping[str, Transport]) -> None:
    """Keep the clients that the process was forked with."""
    global inherited
    inherited = clients


def ask(child: int) -> dict[str, Any]:
    """Figures of ``EACH`` requests."""
    tally = Tally()
    questions = Questions(marked, f"child {child}", DEADLINE_S)
    ways = {name: client.ascore_batch for name, client in inherited.items()}
    load = closed_loop(tally, ways, questions, CALLERS, lambda: tally.asked >= EACH)
    asyncio.run(load)
    return tally.figures()


def main(url: str) -> None:
    """Ask, fork, and ask in each process at once."""
    client = HttpRewardClient(url)
    inherit({"client": client, "transport": HttpTransport(url)})
    client.score(next(Questions(marked, "before", DEADLINE_S)).body)
    before = ask(-1)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(CHILDREN, context, inherit, (inherited,)) as pool:
        figures = [before, *pool.map(ask, range(CHILDREN)), ask(-2)]
    counts: Counter[str] = Counter()
    absent: Counter[str] = Counter()
    for each in figures:
        counts.update({k: n for k, n in each.items() if isinstance(n, int)})
        absent.update(each["absent"])
    json.dump({**counts, "absent": absent}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
