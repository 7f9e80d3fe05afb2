from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_serve.reward_models.group import PRIOR, Pair, next_round, scores, strengths
from reward_serve.schema import Strategy


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, dict[Pair, float]]:
    size = draw(st.integers(2, 12))
    every = list(combinations(range(size), 2))
    pairs = draw(st.lists(st.sampled_from(every), unique=True))
    return size, {pair: draw(st.floats(0, 1)) for pair in pairs}


@given(order=st.permutations(range(6)))
def test_a_clear_order_is_the_order_of_the_scores(order: list[int]) -> None:
    outcomes = {(a, b): 0.9 if order[a] > order[b] else 0.1 for a, b in combinations(range(6), 2)}
    found = scores(6, outcomes)
    by_score = sorted(range(6), key=lambda i: found[i] or 0.0)
    assert [order[i] for i in by_score] == list(range(6))


@given(table=tables())
@settings(max_examples=30, deadline=None)
def test_strengths_are_the_maximum_that_scipy_finds_and_scores_lie_in_0_to_1(
    table: tuple[int, dict[Pair, float]],
) -> None:
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    size, outcomes = table
    games = [(a, b, p) for (a, b), p in outcomes.items()]

    def loss(theta: list[float]) -> float:
        padded = [*theta, 0.0]
        virtual = [(i, size, PRIOR) for i in range(size)] + [(size, i, PRIOR) for i in range(size)]
        found = [(p, padded[a] - padded[b]) for a, b, p in games]
        found += [(1 - p, padded[b] - padded[a]) for a, b, p in games]
        found += [(weight, padded[a] - padded[b]) for a, b, weight in virtual]
        return sum(weight * math.log1p(math.exp(-gap)) for weight, gap in found)

    assert all(0 <= score <= 1 for score in scores(size, outcomes) if score is not None)
    best = minimize(loss, [0.0] * size)
    for theta, strength in zip(best.x, strengths(size, outcomes), strict=True):
        assert math.log(strength) == pytest.approx(theta, abs=2e-3)


def test_a_response_that_nothing_connects_with_the_others_has_no_score() -> None:
    outcomes = {(0, 1): 0.9, (1, 2): 0.9, (3, 4): 0.9}
    found = scores(5, outcomes)
    assert [score is None for score in found] == [False, False, False, True, True]
    assert scores(6, outcomes) == [None] * 6  # half of a group is too little to score any of it
    assert found[:3] == scores(3, {(0, 1): 0.9, (1, 2): 0.9})


def test_a_preference_that_is_noise_is_no_preference() -> None:
    assert scores(2, {(0, 1): 0.5004}) == [0.5, 0.5]


def played(strategy: Strategy, size: int, fails: frozenset[Pair] = frozenset()) -> list[list[Pair]]:
    """The rounds against an oracle that prefers the higher index and fails on some pairs."""
    outcomes: dict[Pair, float | None] = {}
    rounds: list[list[Pair]] = []
    while pairs := next_round(strategy, size, len(rounds), outcomes):
        assert not outcomes.keys() & set(pairs), "a pair was asked twice"
        outcomes |= {pair: None if pair in fails else 0.1 for pair in pairs}
        rounds.append(pairs)
        assert len(rounds) < 100
    return rounds


@given(size=st.integers(2, 64), data=st.data())
def test_a_strategy_asks_its_pairs_once_whatever_fails(size: int, data: st.DataObject) -> None:
    every = list(combinations(range(size), 2))
    fails = frozenset(data.draw(st.lists(st.sampled_from(every), max_size=20)))
    assert played("all_pairs", size, fails) == [every]
    (circle,) = played("circular", size, fails)
    games = Counter(index for pair in circle for index in pair)
    assert games == dict.fromkeys(range(size), 2 if size > 2 else 1)
    rounds = played("swiss", size, fails)
    assert len(rounds) <= math.ceil(math.log2(size))
    for pairs in rounds:
        assert len({i for pair in pairs for i in pair}) == 2 * len(pairs)
    assert {i for pairs in rounds for pair in pairs for i in pair} == set(range(size))
    assert len(rounds) < 3 or all(len(pairs) >= size // 2 - 1 for pairs in rounds[:2])
