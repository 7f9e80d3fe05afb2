"""From comparisons of pairs to a score for each response.

Bradley-Terry strengths are fitted to all comparisons, so that a win against a strong response
counts for more. A response's score is its expected win rate against the others of its group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Pair = tuple[int, int]

PRIOR = 0.1
_MAX_ITERATIONS = 1000
_DECIMALS = 2


def strengths(size: int, outcomes: Mapping[Pair, float], tolerance: float = 1e-6) -> list[float]:
    """Bradley-Terry strengths, positive and with 1 for an average response.

    The maximum a posteriori estimate by minorisation-maximisation (Hunter, 2004). Every response
    has won and lost ``PRIOR`` comparisons with a virtual response of strength 1, which keeps the
    strength of one that wins always finite.

    Args:
        size: number of responses.
        outcomes: for each pair, the probability that its first response is better.
        tolerance: relative change of an iteration at which to stop.
    """
    wins = [PRIOR] * size
    rivals: list[list[int]] = [[] for _ in range(size)]
    for (a, b), p in outcomes.items():
        wins[a] += p
        wins[b] += 1 - p
        rivals[a].append(b)
        rivals[b].append(a)
    found = [1.0] * size
    for _ in range(_MAX_ITERATIONS):
        change = 0.0
        for i in range(size):
            played = sum(1 / (found[i] + found[j]) for j in rivals[i])
            new = wins[i] / (played + 2 * PRIOR / (found[i] + 1))
            change = max(change, abs(new - found[i]) / found[i])
            found[i] = new
        if change < tolerance:
            break
    return found


def scores(size: int, outcomes: Mapping[Pair, float], min_comparisons: int) -> list[float | None]:
    """A score in 0..1 for each response; None for one that cannot be placed among the others.

    Responses can only be ranked if comparisons connect them, so only a connected set of more than
    half of them is scored. Scores have two decimals, because GRPO divides by the group's
    standard deviation: 0.5003 against 0.4998 would become a full advantage.

    Args:
        size: number of responses.
        outcomes: for each pair, the probability that its first response is better.
        min_comparisons: minimum comparisons of a response with a score.
    """
    connected = _connected_majority(size, outcomes)
    within = {pair: p for pair, p in outcomes.items() if pair[0] in connected}
    found = strengths(size, within)
    result: list[float | None] = [None] * size
    for i in connected:
        if sum(i in pair for pair in within) >= min_comparisons:
            wins = (found[i] / (found[i] + found[j]) for j in connected - {i})
            result[i] = round(sum(wins) / (len(connected) - 1), _DECIMALS)
    return result


def cycles(outcomes: Mapping[Pair, float]) -> int:
    """The number of triples of responses in which a beats b, b beats c and c beats a."""
    below: dict[int, set[int]] = {}
    above: dict[int, set[int]] = {}
    for (a, b), p in outcomes.items():
        if p != 0.5:
            winner, loser = (a, b) if p > 0.5 else (b, a)
            below.setdefault(winner, set()).add(loser)
            above.setdefault(loser, set()).add(winner)
    found = (below.get(b, set()) & above.get(a, set()) for a in below for b in below[a])
    return sum(map(len, found)) // 3


def _connected_majority(size: int, outcomes: Mapping[Pair, float]) -> set[int]:
    """More than half of the responses, connected by comparisons; empty if no set has as many."""
    component = list(range(size))
    for a, b in outcomes:
        old, new = component[b], component[a]
        component = [new if each == old else each for each in component]
    members = ({i for i in range(size) if component[i] == each} for each in set(component))
    return next((each for each in members if 2 * len(each) > size), set())


def placed(names: Sequence[int], size: int) -> list[float | None]:
    """The scores of a listing: for each response, the share of the others that it is ranked above.

    Responses that are missing or listed twice have no score, and their places are unknown: a score
    is the mean over all complete rankings that fit, so that only a complete listing gives 0 or 1.
    As in ``scores``, no response has a score unless more than half of the group is listed.
    """
    listed = [name for name in names if 0 <= name < size and names.count(name) == 1]
    found: list[float | None] = [None] * size
    if 2 * len(listed) > size:
        for place, name in enumerate(listed):
            behind = (len(listed) - place) * (size + 1) / (len(listed) + 1) - 1
            found[name] = behind / (size - 1)
    return found
