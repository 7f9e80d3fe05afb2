from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.config.judge import RubricAggregate
from reward_serve.reward_models.composite import (
    RUBRIC_AGGREGATES,
    Scores,
    mean,
    missing,
    status_to_report,
    total,
    vote,
    weighted,
)
from reward_serve.schema import Component, Status

unit = st.floats(0, 1)
weights = st.floats(1e-6, 1e6)
signed = st.builds(lambda weight, sign: weight * sign, weights, st.sampled_from([1, -1]))
rubrics = st.lists(st.tuples(unit, signed), min_size=1, max_size=64)
members = st.lists(st.tuples(unit, weights), min_size=1, max_size=16)


def exact(scores: Scores) -> list[tuple[Fraction, Fraction]]:
    return [(Fraction(score), Fraction(weight)) for score, weight in scores]


def near(value: float | None, formula: Fraction | float) -> bool:
    return value is not None and math.isclose(value, float(formula), rel_tol=1e-9, abs_tol=1e-9)


@given(rubrics)
def test_weighted_is_points_earned_of_points_possible(scores: Scores) -> None:
    possible = sum(w for _, w in exact(scores) if w > 0)
    if possible == 0:
        assert weighted(scores) is None
        return
    earned = sum(s * w for s, w in exact(scores))
    assert near(weighted(scores), min(Fraction(1), max(Fraction(0), earned / possible)))


@given(rubrics)
def test_all_min_and_mean_turn_faults_around(scores: Scores) -> None:
    met = [s if w > 0 else 1 - s for s, w in exact(scores)]
    found = {name: aggregate(scores) for name, aggregate in RUBRIC_AGGREGATES.items()}
    assert near(found["min"], min(met))
    assert near(found["mean"], sum(met) / len(met))
    if all(abs(each - Fraction(1, 2)) > 1e-9 for each in met):
        assert found["all"] == float(min(met) > Fraction(1, 2))


@given(rubrics, st.sampled_from(sorted(RUBRIC_AGGREGATES)), st.randoms())
def test_a_rubrics_score_is_in_0_to_1_whatever_the_order(
    scores: Scores, name: RubricAggregate, random: Random
) -> None:
    aggregate = RUBRIC_AGGREGATES[name]
    score = aggregate(scores)
    assert score is None or 0 <= score <= 1
    shuffled = list(scores)
    random.shuffle(shuffled)
    again = aggregate(shuffled)
    assert (again is None) is (score is None)
    assert score is None or near(again, score)


@given(members)
def test_a_mean_is_weighted_and_within_its_scores(scores: Scores) -> None:
    formula = sum(s * w for s, w in exact(scores)) / sum(w for _, w in exact(scores))
    assert near(mean(scores), formula)
    assert min(s for s, _ in scores) <= mean(scores) <= max(s for s, _ in scores)


@given(rubrics)
def test_a_total_is_the_sum_of_weight_times_score(scores: Scores) -> None:
    formula = float(sum(s * w for s, w in exact(scores)))
    assert math.isclose(total(scores), formula, rel_tol=1e-9, abs_tol=1e-9)


@given(members, unit)
def test_a_vote_needs_more_than_half_of_the_weight(scores: Scores, threshold: float) -> None:
    right = sum((w for s, w in exact(scores) if s >= threshold), Fraction(0))
    share = right / sum((w for _, w in exact(scores)), Fraction(0))
    found, weight = vote(scores, threshold)
    assert near(weight, share)
    if abs(share - Fraction(1, 2)) > 1e-8:
        assert found is (share > Fraction(1, 2))


def part(status: Status) -> Component:
    return Component(score=1.0 if status is Status.OK else None, status=status, reason="why")


@pytest.mark.parametrize(
    ("statuses", "needed", "required", "expected"),
    [
        (["ok", "timeout", "unparseable"], 2, [], Status.TIMEOUT),
        (["ok", "timeout", "unparseable"], 3, [], Status.UNPARSEABLE),
        (["ok", "error", "overloaded"], 3, [], Status.OVERLOADED),
        (["ok", "timeout", "truncated"], 1, ["truncated"], Status.TRUNCATED),
        (["ok", "timeout", "truncated"], 2, ["timeout"], Status.TIMEOUT),
    ],
)
def test_a_failure_is_retryable_if_a_retry_could_bring_the_score(
    statuses: list[str], needed: int, required: list[str], expected: Status
) -> None:
    parts = [part(Status(status)) for status in statuses]
    assert status_to_report(parts, needed, [part(Status(r)) for r in required]) is expected


def test_the_reason_names_the_first_failures() -> None:
    parts = {"a": part(Status.OK), **{f"b{i}": part(Status.ERROR) for i in range(5)}}
    assert missing(parts, 6, "criteria") == (
        "1 of 6 criteria have a score, 6 are needed: "
        "b0: error: why; b1: error: why; b2: error: why; and 2 more"
    )
