from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from reward_serve_answers.values import parse_number
from reward_serve_judge.training.answers.base import near_miss
from reward_serve_judge.training.answers.numbers import (
    Number,
    invented,
    lookalikes,
    numbers_in,
    parse,
)
from reward_serve_judge.training.answers.numerals import spelled


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", Number(Fraction(18))),
        (" 1,800 ", Number(Fraction(1800))),
        ("$2.50", Number(Fraction(5, 2))),
        ("-7", Number(Fraction(-7))),
        ("15%", Number(Fraction(15), percent=True)),
    ],
)
def test_a_gold_answer_is_read(text: str, value: Number) -> None:
    assert parse(text) == value


def test_a_gold_answer_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="eighteen"):
        parse("eighteen")


def test_numbers_are_found_in_working() -> None:
    found = numbers_in("She pays $1,200.50 for 3 of 40, so 1200.50 / 3.")
    assert [str(value.number) for value in found] == ["2401/2", "3", "40", "2401/2", "3"]


@pytest.mark.parametrize("seed", range(300))
def test_every_form_has_the_value_and_a_near_miss_has_not(seed: int) -> None:
    """The rules' own reader of numbers agrees, wherever it reads the form at all."""
    rng = Random(seed)
    value = invented(rng)
    miss = near_miss(value, rng)
    assert miss != value
    for text in (value.written(rng), value.written(rng, tex=True), value.reference(rng)):
        number = parse_number(text)
        if number is not None:
            assert (number.value, number.percent) == (value.number, value.percent), text


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (Fraction(18), "eighteen"),
        (Fraction(125), "one hundred and twenty-five"),
        (Fraction(5, 2), "2 and a half"),
        (Fraction(3, 4), "three quarters"),
        (Fraction(10**12), None),
    ],
)
def test_words(number: Fraction, words: str | None) -> None:
    said = spelled(number)
    assert said == (words and words.replace("2 and", "two and"))


def test_words_of_another_language() -> None:
    assert spelled(Fraction(18), "de") == "achtzehn"
    assert spelled(Fraction(18), "zh") is None


def test_lookalikes_are_the_runs_of_digits() -> None:
    found = lookalikes("18k or 3/4 of 2.5")
    assert [str(value.number) for value in found] == ["18", "3", "4", "5/2"]
