"""Compares the responses of a group with each other, by one judge's model.

Each pair is asked in both orders. With ``p_ab`` the probability that the response shown first is
better, the pair's probability is ``(p_ab + 1 - p_ba) / 2``, which cancels a preference for either
place. Failed comparisons are excluded; they never become a number.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from reward_serve.config.judge import GroupConfig
from reward_serve.engines.base import EndpointDownError
from reward_serve.off_loop import off_loop
from reward_serve.reward_models.base import (
    MODELS_SHARE,
    InvalidRequestError,
    Place,
    failure_of,
    gathered,
    summed_usage,
)
from reward_serve.reward_models.comparison import Comparison
from reward_serve.schema import (
    GroupComparison,
    GroupRequest,
    GroupResult,
    Mode,
    ScoreRequest,
    ScoreResult,
    Status,
    Strategy,
    failure,
)
from reward_serve.templates import Template

Pair = tuple[int, int]

PRIOR = 0.1
_STANDINGS_TOLERANCE = 0.02
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
    strength = [1.0] * size
    for _ in range(_MAX_ITERATIONS):
        change = 0.0
        for i in range(size):
            played = sum(1 / (strength[i] + strength[j]) for j in rivals[i])
            new = wins[i] / (played + 2 * PRIOR / (strength[i] + 1))
            change = max(change, abs(new - strength[i]) / strength[i])
            strength[i] = new
        if change < tolerance:
            break
    return strength


def scores(size: int, outcomes: Mapping[Pair, float]) -> list[float | None]:
    """A score in 0..1 for each response; None for one that cannot be placed among the others.

    Responses can only be ranked if comparisons connect them, so only a connected set of more than
    half of them is scored. Scores have two decimals, because GRPO divides by the group's
    standard deviation: 0.5003 against 0.4998 would become a full advantage.
    """
    connected = _connected_majority(size, outcomes)
    within = {pair: p for pair, p in outcomes.items() if pair[0] in connected}
    strength = strengths(size, within)
    placed: list[float | None] = [None] * size
    for i in connected:
        wins = (strength[i] / (strength[i] + strength[j]) for j in connected - {i})
        placed[i] = round(sum(wins) / (len(connected) - 1), _DECIMALS)
    return placed


def _connected_majority(size: int, outcomes: Mapping[Pair, float]) -> set[int]:
    """More than half of the responses, connected by comparisons; empty if no set has as many."""
    component = list(range(size))
    for a, b in outcomes:
        old, new = component[b], component[a]
        component = [new if number == old else number for number in component]
    number, count = Counter(component).most_common(1)[0]
    return {i for i in range(size) if component[i] == number} if 2 * count > size else set()


def next_round(
    strategy: Strategy, size: int, rounds: int, played: Mapping[Pair, float | None]
) -> list[Pair]:
    """The pairs to compare after some rounds, each with its lower index first; empty at the end.

    ``played`` has the pairs of these rounds, with the probability that the first response is
    better; None for a pair that failed, which is not asked again.
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
    games = Counter(index for pair in played for index in pair)
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


_RANKED = 2**12  # what a response costs

_Answers = dict[Pair, ScoreResult]
"""The model's answer for each order, the response shown first named first."""


class GroupJudge:
    """Judges groups; ``prepare`` makes a comparison by the judge's model for a request."""

    def __init__(
        self, config: GroupConfig, prepare: Callable[[ScoreRequest, Template, Mode], Comparison]
    ) -> None:
        self._config = config
        self._prepare = prepare
        self.counts = {"agreed": 0, "flipped": 0, "failed": 0}
        """Pairs of which both orders agree or not, and failed pairs."""

    def describe(self) -> dict[str, Any]:
        """The settings and counts."""
        settings = {
            "template": self._config.default_template.name,
            "templates": self._config.known_templates,
            "strategy": self._config.strategy,
        }
        return {"groups": settings, "group": self.counts}

    async def score(self, request: GroupRequest, place: Place) -> GroupResult:
        """Judge a group within its deadline, of which a tenth is kept for the ranking.

        Raises:
            InvalidRequestError: the request is invalid.
        """
        strategy = request.strategy or self._config.strategy
        try:
            template = self._config.find_template(
                request.template or self._config.default_template.name
            )
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None
        mode: Mode = self._config.mode if template.label else "generate"
        comparison = self._prepare(request.as_single(), template, mode)
        fingerprint = f"{comparison.fingerprint};group={strategy}"
        comparison = replace(comparison, fingerprint=fingerprint)
        answers = await self._answers(comparison, request, strategy, place)
        size = len(request.responses)
        return await off_loop(_RANKED * size, self._ranked, comparison, answers, size, strategy)

    async def _answers(
        self, comparison: Comparison, request: GroupRequest, strategy: Strategy, place: Place
    ) -> _Answers:
        answers, orders, rounds, size = _Answers(), list[Pair](), 0, len(request.responses)

        async def ask(first: int, second: int) -> None:
            responses = request.responses[first], request.responses[second]
            both = replace(comparison, responses=responses)
            try:
                async with place():
                    answers[first, second] = await both.verdict(request.reference or "")
            except EndpointDownError:  # nor does it answer the others
                raise
            except Exception as error:
                answers[first, second] = failure_of(error, "a comparison of two responses")

        def played() -> dict[Pair, float | None]:
            return {(pair.a, pair.b): pair.probability for pair in _compared(answers)}

        try:
            async with asyncio.timeout(MODELS_SHARE * request.timeout_s):
                while pairs := next_round(strategy, size, rounds, played()):
                    rounds += 1
                    # Prompts with the same first response share their prefix.
                    orders = sorted(order for a, b in pairs for order in ((a, b), (b, a)))
                    await gathered(ask(*order) for order in orders)
        except TimeoutError:
            late = failure(Status.TIMEOUT, "not compared by the group's deadline")
            for order in orders:
                answers.setdefault(order, late)
        return answers

    def _ranked(
        self, comparison: Comparison, answers: _Answers, size: int, strategy: Strategy
    ) -> GroupResult:
        comparisons = _compared(answers)
        outcomes = {(c.a, c.b): c.probability for c in comparisons if c.probability is not None}
        agreed = sum(c.orders_agree is True for c in comparisons)
        self.counts["agreed"] += agreed
        self.counts["flipped"] += len(outcomes) - agreed
        self.counts["failed"] += len(comparisons) - len(outcomes)
        details = {
            "strategy": strategy,
            "calls": len(answers),
            "order_agreement": agreed / len(outcomes) if outcomes else None,
        }
        results = [
            _result(comparison, answers, index, score)
            for index, score in enumerate(scores(size, outcomes))
        ]
        return GroupResult.of(results, comparisons=comparisons, details=details)


def _compared(answers: _Answers) -> list[GroupComparison]:
    """The pairs that were asked in both orders."""
    return [_comparison(answers, a, b) for a, b in sorted(answers) if a < b]


def _comparison(answers: _Answers, a: int, b: int) -> GroupComparison:
    both = answers[a, b], answers[b, a]
    forward, backward = (answer.score for answer in both)
    fields: dict[str, Any] = {"a": a, "b": b, "forward": forward, "backward": backward}
    if forward is None or backward is None:
        failed = next(answer for answer in both if answer.score is None)
        return GroupComparison(reason=f"{failed.status.value}: {failed.reason}", **fields)
    probability = 0.5 + (forward - backward) / 2
    return GroupComparison(probability=probability, reason=both[0].reason, **fields)


def _result(
    comparison: Comparison, answers: _Answers, index: int, score: float | None
) -> ScoreResult:
    """The result of one response, with the usage of the answers in which it is shown first."""
    usage = summed_usage([a for (first, _), a in answers.items() if first == index])
    if score is not None:
        source = comparison.asker.source
        return comparison.result(Status.OK, score=score, source=source, usage=usage)
    failed = [order for order, answer in answers.items() if answer.score is None]
    mine = [order for order in failed if index in order]
    if not failed:
        return comparison.result(Status.ERROR, reason="it has too few comparisons", usage=usage)
    first = answers[(mine or failed)[0]]
    reason = (
        f"{len(mine)} comparisons of this response and {len(failed)} of its group failed, so it "
        f"cannot be ranked: {first.reason}"
    )
    return comparison.result(first.status, reason=reason, usage=usage)
