"""Kendall's tau of each strategy by number of calls, against an oracle with known order and noise.

    python -m loadtests.strategies

Responses have standard normal qualities. The oracle sees the gap of two qualities with a normal
error of standard deviation ``noise``, a new one for each order, and adds ``BIAS`` to the logit of
the response that is shown first. A call is one forward pass: a pair takes two.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console

from reward_serve.reward_models import group as ranking
from reward_serve.reward_models.group import Pair, next_round
from reward_serve.schema import Strategy

STRATEGIES: tuple[Strategy, ...] = ("circular", "swiss", "all_pairs")
NOISES = (0.25, 1.0)
BIAS = 1.0
_SIZES = (4, 8, 16, 32)


def tau(estimated: Sequence[float], truth: Sequence[float]) -> float:
    """Kendall's tau-a: a tie in the scores counts as 0, between right and wrong."""
    pairs = list(combinations(range(len(truth)), 2))

    def sign(value: float) -> int:
        return (value > 0) - (value < 0)

    return fmean(sign(estimated[a] - estimated[b]) * sign(truth[a] - truth[b]) for a, b in pairs)


def oracle(chance: random.Random, gap: float, noise: float) -> float:
    """The probability that the response shown first is better."""
    logit = (gap + chance.gauss(0, noise)) / 0.5 + BIAS
    return 1 / (1 + math.exp(-logit))


def group(chance: random.Random, size: int, strategy: Strategy, noise: float) -> tuple[float, int]:
    """Tau of one random group, and its number of calls."""
    truth = [chance.gauss(0, 1) for _ in range(size)]
    played: dict[Pair, float | None] = {}
    rounds = 0
    while pairs := next_round(strategy, size, rounds, played):
        rounds += 1
        for a, b in pairs:
            forward = oracle(chance, truth[a] - truth[b], noise)
            backward = oracle(chance, truth[b] - truth[a], noise)
            played[a, b] = 0.5 + (forward - backward) / 2
    outcomes = {pair: p for pair, p in played.items() if p is not None}
    scores = ranking.scores(size, outcomes)
    return tau([score or 0.0 for score in scores], truth), 2 * len(played)


def main(groups: Annotated[int, typer.Option(help="Random groups per cell.")] = 100) -> None:
    """Print the table."""
    say = partial(Console(soft_wrap=True).print, markup=False)
    say("| samples | strategy | calls | " + " | ".join(f"noise {n:g}" for n in NOISES) + " |")
    say("|---" * (3 + len(NOISES)) + "|")
    for size in _SIZES:
        for strategy in STRATEGIES:
            cells, calls = [], 0
            for noise in NOISES:
                chance = random.Random(f"{size} {noise}")
                estimates = [group(chance, size, strategy, noise) for _ in range(groups)]
                cells.append(f"{fmean(value for value, _ in estimates):.2f}")
                calls = round(fmean(count for _, count in estimates))
            say(f"| {size} | {strategy} | {calls} | {' | '.join(cells)} |")


if __name__ == "__main__":
    typer.run(main)
