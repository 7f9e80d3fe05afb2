"""Which pairs of a group's responses to compare.

``all_pairs`` compares every pair, ``circular`` each response with its two neighbours. ``swiss``
runs ``ceil(log2(n))`` rounds, each between responses of similar standing, so it takes about
n / 2 * log2(n) comparisons. ``python -m loadtests.groups`` compares them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Literal

from reward_serve.groups.ranking import Pair, strengths

Strategy = Literal["all_pairs", "circular", "swiss", "listwise"]

_STANDINGS_TOLERANCE = 0.02


def next_round(
    strategy: Strategy, size: int, rounds: int, played: Mapping[Pair, float | None]
) -> list[Pair]:
    """The pairs to compare next, each with its lower index first; empty at the end.

    Args:
        strategy: any strategy but ``listwise``, which compares no pairs.
        size: number of responses, at least 2.
        rounds: number of rounds so far.
        played: the pairs of these rounds with the probability that the first response is better;
            None for a pair that failed, which is not asked again.
    """
    if strategy == "swiss":
        return _swiss_round(size, played) if rounds < math.ceil(math.log2(size)) else []
    if rounds:
        return []
    if strategy == "all_pairs":
        return list(combinations(range(size), 2))
    return sorted({(i, i + 1) for i in range(size - 1)} | {(0, size - 1)})


def _swiss_round(size: int, played: Mapping[Pair, float | None]) -> list[Pair]:
    """Pair neighbours in the standings that have not met; with an odd size, one sits out."""
    games = [0] * size
    for pair in played:
        for index in pair:
            games[index] += 1
    outcomes = {pair: p for pair, p in played.items() if p is not None}
    standing = strengths(size, outcomes, _STANDINGS_TOLERANCE)
    # Of equals (in the first round, all), those with fewer comparisons come first, so that
    # another one sits out.
    waiting = sorted(range(size), key=lambda i: (-standing[i], games[i], i))
    pairs = []
    while len(waiting) > 1:
        first = waiting.pop(0)
        rival = next((j for j in waiting if (min(first, j), max(first, j)) not in played), None)
        if rival is not None:
            waiting.remove(rival)
            pairs.append((min(first, rival), max(first, rival)))
    return sorted(pairs)
