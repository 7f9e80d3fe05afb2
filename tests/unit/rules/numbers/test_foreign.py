from __future__ import annotations

import pytest

from reward_serve.rules.numbers.foreign import may_be_numbers
from reward_serve.rules.numbers.words import NUMBER_WORDS


@pytest.mark.parametrize(
    "text",
    [
        "dieciocho",
        "dix huit",
        "achtzehn",
        "diciotto",
        "dezoito",
        "achttien",
        "osiemnascie",
        "vosemnadtsat",
        "onsekiz",
        "delapan belas",
        "arton",
        "kahdeksantoista",
        "tizennyolc",
        "optsprezece",
        "osmnact",
        "labing walo",
        "kumi na nane",
        "juhachi",
        "shiba",
        "atharah",
        "dekaokto",
        "octodecim",
        "dreihundertsiebenunddrei ig",
        "zweiunddrei ig",
        "duecentoventi",
        "cinquantadue",
        "eightteen",
        "eigh teen",
        "eigtheen",
        "fif ty",
        "twen ty",
    ],
)
def test_a_number_of_another_language_or_spelling_is_seen(text: str) -> None:
    assert may_be_numbers(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "she sells the pears at the market every day and keeps four of them",
        "how many dollars does each friend have left in total on sunday",
        "they party in the city until the kitty is empty",
    ],
)
def test_plain_english_has_no_foreign_number(text: str) -> None:
    assert not may_be_numbers(text.split())


def test_the_numbers_that_are_read_are_not_suspected() -> None:
    assert not may_be_numbers(NUMBER_WORDS)
