from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.reward_models.group import Pair, next_round
from reward_serve.schema import Strategy

sizes = st.integers(2, 64)


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


@given(size=sizes, strategy=st.sampled_from(["all_pairs", "circular", "swiss"]))
def test_pairs_are_ordered_distinct_and_within_the_group(size: int, strategy: Strategy) -> None:
    pairs = [pair for pairs in played(strategy, size) for pair in pairs]
    assert len(set(pairs)) == len(pairs)
    assert all(0 <= a < b < size for a, b in pairs)


@given(size=sizes)
def test_all_pairs_are_all_of_them_in_one_round(size: int) -> None:
    assert played("all_pairs", size) == [list(combinations(range(size), 2))]


@given(size=st.integers(3, 64))
def test_circular_compares_each_with_two_others_and_connects_all(size: int) -> None:
    (pairs,) = played("circular", size)
    assert len(pairs) == size
    assert set(Counter(i for pair in pairs for i in pair).values()) == {2}


@given(size=sizes, data=st.data())
def test_swiss_takes_n_log_n_comparisons_and_no_one_plays_twice_in_a_round(
    size: int, data: st.DataObject
) -> None:
    every = list(combinations(range(size), 2))
    fails = frozenset(data.draw(st.lists(st.sampled_from(every), max_size=20)))
    rounds = played("swiss", size, fails)
    assert len(rounds) <= math.ceil(math.log2(size))
    for pairs in rounds:
        assert len({i for pair in pairs for i in pair}) == 2 * len(pairs)
    assert {i for pairs in rounds for pair in pairs for i in pair} == set(range(size))
    assert len(rounds) < 3 or all(len(pairs) >= size // 2 - 1 for pairs in rounds[:2])


@pytest.mark.parametrize("strategy", ["all_pairs", "circular", "swiss"])
def test_a_group_of_two_is_one_comparison(strategy: Strategy) -> None:
    assert played(strategy, 2) == [[(0, 1)]]
