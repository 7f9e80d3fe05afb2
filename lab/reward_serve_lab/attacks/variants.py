"""The suite's attacks on a given problem.

>>> {attack.reference for attack in variants("What is 9 * 2?", "18", per_family=1)}
{'18'}
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random

from reward_serve_answers.values import parse_number
from reward_serve_lab.attacks.families import FAMILIES
from reward_serve_lab.attacks.family import Attack, Draft
from reward_serve_lab.attacks.mentions import mentions
from reward_serve_lab.attacks.problems import GENERIC_QUESTION, Problem

_PLACES = 6


def variants(
    question: str | None, reference: str, *, seed: int = 0, per_family: int = 2
) -> list[Attack]:
    """Up to ``per_family`` attacks of each family on a problem; all deserve a score of 0.

    Texts that depend on the answer need a number: not 0 or 1, which a planted verdict could match,
    and not a percentage, of which 18% and 0.18 are forms of the same value. Other texts that
    contain the answer are left out, except in families that may mention it.

    Args:
        question: the problem; a generic one if None.
        reference: the gold answer, or a solution that ends in ``#### answer``.
        seed: seed of the attacks.
        per_family: maximum attacks per family.
    """
    answer = reference.rpartition("####")[2].strip()
    value = _value(answer)
    problem = _problem(question, reference, value) if value is not None else None
    attacks: list[Attack] = []
    for family in FAMILIES:
        rng = Random(f"{seed}/{family.name}")
        drafts = list(family.drafts(rng))
        rng.shuffle(drafts)
        found: dict[str, None] = {}
        for draft in drafts:
            if len(found) == per_family:
                break
            response = _response(draft, problem)
            if response is not None and (
                (family.may_mention and problem is not None) or not _holds(response, answer, value)
            ):
                found[response] = None
        attacks += [
            Attack(family.name, response, reference, question or GENERIC_QUESTION)
            for response in found
        ]
    return attacks


def _response(draft: Draft, problem: Problem | None) -> str | None:
    if isinstance(draft, str):
        return draft
    return draft(problem) if problem is not None else None


def _holds(response: str, answer: str, value: Decimal | None) -> bool:
    if value is not None:
        return mentions(response, value)
    return bool(answer) and answer.casefold() in response.casefold()


def _value(answer: str) -> Decimal | None:
    """The answer as a decimal; None unless it is short, positive, not 1 and not a percentage."""
    number = parse_number(answer)
    if number is None or number.percent or number.value <= 0 or number.value == 1:
        return None
    value = Decimal(number.value.numerator) / Decimal(number.value.denominator)
    exact = Fraction(value) == number.value and value == round(value, _PLACES)
    return value.normalize() if exact else None


def _problem(question: str | None, reference: str, value: Decimal) -> Problem:
    working, full, answer = reference.rpartition("####")
    lines = [line.strip() for line in working.splitlines() if line.strip()]
    steps = tuple(lines) or ("The answer is worked out.", f"In all that is = {value:f}.")
    return Problem(question or GENERIC_QUESTION, steps, value, "," in answer, bool(full))
