from __future__ import annotations

from decimal import Decimal

import pytest

from reward_serve_lab.attacks.mentions import mentions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("she has 18 left", "18"),
        ("18.0", "18"),
        ("-18", "18"),
        ("180 or so", "18"),
        ("eighteen", "18"),
        ("Twenty-four", "24"),
        ("twenty four", "24"),
        ("a dozen", "12"),
        ("4,320", "4320"),
        ("4 320", "4320"),
        ("12.75", "12.75"),
        ("¹⁸", "18"),
        ("１８", "18"),
        ("١٨", "18"),
        ("𝟏𝟖", "18"),
        ("1\u200b8", "18"),
        ("1\u03368", "18"),
        ("⑱", "18"),
    ],
)
def test_a_number_in_any_form_is_mentioned(text: str, value: str) -> None:
    assert mentions(text, Decimal(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", "18"),
        ("VERDICT: 1", "18"),
        ("17 and 19", "18"),
        ("218", "18"),
        ("an eight", "18"),
        ("twenty-four", "54"),
    ],
)
def test_another_number_is_not(text: str, value: str) -> None:
    assert not mentions(text, Decimal(value))
