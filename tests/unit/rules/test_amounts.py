from __future__ import annotations

import random
from fractions import Fraction

import pytest

from reward_serve.rules.amounts import same_amount
from reward_serve.rules.gsm8k import verify

LENGTHS = {"mm": 1, "centimeters": 10, "m": 1000, "kilometers": 10**6}
TIMES = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
JOINS = ["{} ({})", "{}, or {}", "{} = {}", "{}, which is {}", "{} (i.e. {})", "{}, that is, {}"]


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("540 meters (0.54 km)", "540"),
        ("540 meters (0.54 km)", "0.54"),
        ("0.54 km (540 meters)", "540 meters"),
        ("160 minutes, which is 2 hours and 40 minutes", "160"),
        ("2 hours 40 minutes, or 160 minutes", "160"),
        ("100 minutes (1.67 hours)", "100"),
        ("36 months = 3 years", "3"),
        ("1,500 grams (1.5 kg)", "1500"),
    ],
)
def test_an_amount_in_two_units_is_one_answer(answer: str, reference: str) -> None:
    for response in (f"So it is.\nThe answer is {answer}.", f"#### {answer}", answer):
        assert verify(response, reference).outcome == "right", response


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("540 meters (0.45 km)", "540"),
        ("540 meters (0.54 miles)", "540"),
        ("160 minutes, which is 2 hours and 40 minutes", "2"),
        ("160 minutes, which is 2 hours and 40 minutes", "40"),
        ("160 minutes, which is 2 hours and 20 minutes", "160"),
        ("102 minutes (1.67 hours)", "1.67"),
        ("100 minutes (2 hours)", "100"),
        ("40 minutes and 2 hours, or 160 minutes", "160"),
        ("about 540 meters (0.54 km)", "540"),
        ("5 m per hour (500 cm per day)", "5"),
        ("540 meters (0.54 km)", "540 hours"),
        ("540 meters (0.54 km) or 20 meters (0.02 km)", "540"),
    ],
)
def test_other_amounts_are_not(answer: str, reference: str) -> None:
    for response in (f"The answer is {answer}.", f"#### {answer}", answer):
        assert verify(response, reference).outcome != "right", response


def test_another_amount_is_wrong_and_its_conversion_is_left_to_the_judge() -> None:
    assert verify("The answer is 540 meters (0.54 km).", "77").outcome == "wrong"
    assert verify("The answer is 540 meters (0.54 km).", "54000").outcome == "abstain"


@pytest.mark.parametrize("seed", range(200))
def test_amounts_agree_where_their_sizes_do(seed: int) -> None:
    rng = random.Random(seed)
    sizes = rng.choice([LENGTHS, TIMES])
    (one, small), (two, large) = rng.sample(sorted(sizes.items()), 2)
    first = rng.randrange(1, 5000)
    second = Fraction(first * small, large)
    if rng.random() < 0.5:
        second += rng.choice([Fraction(1), Fraction(-1, 2), second])
    digits = f"{float(second):.6f}".rstrip("0").rstrip(".")
    text = rng.choice(JOINS).format(f"{first} {one}", f"{digits} {two}")
    exact = Fraction(digits) * large == first * small
    rounded = "." in digits and round(Fraction(first * small, large), 6) == Fraction(digits)

    assert bool(same_amount(text)) is (exact or rounded), text
