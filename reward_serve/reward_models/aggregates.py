"""Pure functions that combine the scores of criteria or members into one score.

``scores`` are (score, weight) pairs of the parts with a score; sums are exact (``fsum``). Failed
parts are excluded. The caller decides whether enough parts have a score; if not,
``status_to_report`` gives the status of the result.

>>> weighted([(1.0, 3.0), (1.0, -1.0), (0.0, 1.0)])
0.5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from reward_serve.config.judge import RubricAggregate
from reward_serve.schema import Component, ScoreResult, Status

Scores = Sequence[tuple[float, float]]

# Statuses to report when parts are missing, retryable ones first.
_SEVERITY = (
    Status.OVERLOADED,
    Status.TIMEOUT,
    Status.ERROR,
    Status.TRUNCATED,
    Status.UNPARSEABLE,
    Status.INVALID,
)
_PERMANENT = frozenset([Status.INVALID, Status.UNPARSEABLE, Status.TRUNCATED])


def weighted(scores: Scores) -> float | None:
    """The points earned as a share of the points possible, clipped to 0..1.

    ``clip(sum(w * s) / sum(w for w > 0))``, as in HealthBench (Arora et al. 2025,
    arXiv:2505.08775). None without a positive weight.
    """
    possible = math.fsum(weight for _, weight in scores if weight > 0)
    if not possible:
        return None
    return min(1.0, max(0.0, total(scores) / possible))


def total(scores: Scores) -> float:
    """``sum(w * s)``."""
    return math.fsum(score * weight for score, weight in scores)


def mean(scores: Scores) -> float:
    """``sum(w * s) / sum(w)``, for positive weights; never outside the range of the scores."""
    values = [score for score, _ in scores]
    return min(max(total(scores) / math.fsum(w for _, w in scores), min(values)), max(values))


def vote(scores: Scores, threshold: float) -> tuple[bool, float]:
    """Whether parts with more than half of the weight reach ``threshold``, and their share.

    A tie is not a majority, also if rounding puts its share slightly above 0.5.
    """
    share = mean([(float(score >= threshold), weight) for score, weight in scores])
    return share > 0.5 and not math.isclose(share, 0.5), share


def _met(scores: Scores) -> list[float]:
    """How well each criterion is met: its score, or 1 - score if its weight is negative."""
    return [score if weight > 0 else 1.0 - score for score, weight in scores]


RUBRIC_AGGREGATES: Mapping[RubricAggregate, Callable[[Scores], float | None]] = {
    "weighted": weighted,
    "all": lambda scores: float(all(met > 0.5 for met in _met(scores))),
    "min": lambda scores: min(_met(scores)),
    "mean": lambda scores: fmean(_met(scores)),
}
"""``all``: 1 if every criterion is met by more than half, else 0. ``min`` and ``mean``: the lowest
and the mean degree to which criteria are met."""

NEED_EVERY_PART: frozenset[RubricAggregate] = frozenset(["all", "min"])
"""Aggregates that a missing criterion could lower: without it, only a 0 is certain."""


def status_to_report(
    parts: Sequence[Component], needed: int, required: Sequence[Component] = ()
) -> Status:
    """The status of an aggregate without a score; retryable if a retry could produce the score.

    Args:
        parts: every part; at least one has no score.
        needed: the number of parts that must have a score.
        required: the parts that must have a score.
    """
    permanent = sum(part.status in _PERMANENT for part in parts)
    hopeless = len(parts) - permanent < needed or any(r.status in _PERMANENT for r in required)
    failed = {part.status for part in parts if part.score is None}
    known = [status for status in _SEVERITY if status in failed]
    return next(s for s in known if not hopeless or s in _PERMANENT)


def missing(parts: Mapping[str, Component], needed: int, what: str) -> str:
    """Why there is no score: how many parts have one, and why the first three others do not."""
    failed = {name: part for name, part in parts.items() if part.score is None}
    first = [f"{name}: {part.status.value}: {part.reason}" for name, part in failed.items()][:3]
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    scored = len(parts) - len(failed)
    return (
        f"{scored} of {len(parts)} {what} have a score, {needed} are needed: "
        f"{'; '.join(first)}{more}"
    )


def component_of(result: ScoreResult) -> Component:
    """The result of a part asked on its own."""
    return Component(
        score=result.score,
        status=result.status,
        reason=result.reason,
        probabilities=result.probabilities,
    )
