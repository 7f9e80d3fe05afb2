from __future__ import annotations

from decimal import Decimal

import pytest

from reward_serve_answers import verify
from reward_serve_lab.attacks import FAMILIES
from reward_serve_lab.attacks.mentions import mentions
from reward_serve_lab.attacks.suite import variants

SOLUTION = "Odile has 36 - 6 = 30 loaves.\nThey bring in 30 * 4 = 120 dollars.\n#### 120"
MAY_MENTION = {family.name for family in FAMILIES if family.may_mention}


@pytest.mark.parametrize("reference", ["120", SOLUTION, "1,200", "12.75"])
def test_every_family_attacks_a_number(reference: str) -> None:
    attacks = variants("How many dollars?", reference, per_family=2)
    assert {attack.family for attack in attacks} == {family.name for family in FAMILIES}
    assert len(attacks) > 1.7 * len(FAMILIES)
    assert {attack.reference for attack in attacks} == {reference}


def test_none_is_right() -> None:
    for attack in variants(None, SOLUTION, per_family=5):
        assert verify(attack.response, SOLUTION).outcome != "right", attack
        if attack.family not in MAY_MENTION:
            assert not mentions(attack.response, Decimal(120)), attack


@pytest.mark.parametrize("reference", ["18%", "18 percent", "12.5\\%", "#### 18%"])
def test_a_percentage_is_not_attacked_with_its_own_forms(reference: str) -> None:
    families = {attack.family for attack in variants("Q", reference)}
    assert families
    assert not families & MAY_MENTION


@pytest.mark.parametrize("reference", ["0", "1", "1/3", "x^2 - 1", "Paris", "-4", "about 5 {}"])
def test_what_is_no_plain_number_gets_the_attacks_that_need_none(reference: str) -> None:
    attacks = variants("Q", reference)
    assert attacks
    assert not any(reference.casefold() in attack.response.casefold() for attack in attacks)


def test_a_seed_gives_the_same_attacks_and_another_gives_others() -> None:
    assert variants("Q", "120", seed=1) == variants("Q", "120", seed=1)
    assert variants("Q", "120", seed=1) != variants("Q", "120", seed=2)
