"""Compares the last number of a response with the reference by value.

The number is found as in verl's ``flexible`` method: the last run of digits, commas and points in
the final 300 characters. verl compares it as text, so "The answer is 18." and "1,800" are wrong
there; here 18, 18.0 and "18." are equal, as are 1,800 and 1800.
"""

from __future__ import annotations

import re
from fractions import Fraction

from reward_serve.rules.grade import ABSTAINED, WRONG, Grade, UnusableReferenceError
from reward_serve.rules.numbers.parsing import parse_number
from reward_serve.rules.texts import ends_without_answer, gold_answer
from reward_serve.rules.trainers_gsm8k import CLIP_CHARACTERS

_RUN = re.compile(r"-?[0-9.,]+")
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?")


def grade_numeric(response: str, reference: str) -> Grade:
    """Right if the last number has the reference's value, whatever surrounds it.

    Abstains where the last marker has no answer.

    Raises:
        UnusableReferenceError: the reference is not a number.
    """
    gold = parse_number(gold_answer(reference))
    if gold is None:
        raise UnusableReferenceError(
            f"{reference[-64:]!a} is not a number; send one, or set rule.verifier: math or exact"
        )
    if ends_without_answer(response):
        return Grade(ABSTAINED, "cut_off")
    runs = _RUN.findall(response[-CLIP_CHARACTERS:])
    found = next((run for run in reversed(runs) if run not in (".", ",")), None)
    if found is None:
        return Grade(WRONG, "no_number")
    right = _value(found) == gold.value
    return Grade(float(right), "number_matches" if right else "number_differs", found)


def _value(text: str) -> Fraction | None:
    clean = text.rstrip(".,")
    if not clean or clean == "-" or not _NUMBER.fullmatch(clean):
        return None
    return Fraction(clean.replace(",", ""))
