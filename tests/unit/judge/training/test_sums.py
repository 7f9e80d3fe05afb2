from __future__ import annotations

import re
from fractions import Fraction
from random import Random

import pytest
from sympy import sympify  # type: ignore[import-untyped]

from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.sums import sum_of

SIGNS = {
    "plus|and another": "+",
    "minus|less|−": "-",
    r"\\times|times|×|(?<= )x(?= )": "*",
    "divided by|÷": "/",
}


@pytest.mark.parametrize("whole", [2, 3, 7, 15, 60, 997, 4_096, 999_999])
def test_a_sum_is_worth_the_value(whole: int) -> None:
    for seed in range(200):
        text = sum_of(Number(Fraction(whole)), Random(seed))
        assert text
        for words, sign in SIGNS.items():
            text = re.sub(words, sign, text)
        assert sympify(text) == whole


@pytest.mark.parametrize(
    "value",
    [Number(Fraction(1)), Number(Fraction(-4)), Number(Fraction(5, 2)), Number(Fraction(15), True)],
)
def test_only_small_whole_numbers_have_a_sum(value: Number) -> None:
    assert sum_of(value, Random(0)) is None
