r"""Read one amount that is stated in two units: "540 meters (0.54 km)".

same_amount("160 minutes, which is 2 hours and 40 minutes")  # (Number(160, unit=("minutes",)),)
same_amount("540 meters (0.45 km)")                          # (): not the same amount
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from reward_serve.rules.numbers.parsing import Number, parse_number
from reward_serve.rules.numbers.presence import rounds_to
from reward_serve.rules.units import singular

MAX_TEXT = 200

_SIZES = (  # of what measures the same, in one of them
    {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800},
    {"month": 1, "year": 12},
    {"millimeter": 1, "centimeter": 10, "meter": 1000, "kilometer": 10**6},
    {"milligram": 1, "gram": 1000, "kilogram": 10**6},
    {"milliliter": 1, "liter": 1000},
    {"inch": 1, "foot": 12, "yard": 36, "mile": 63_360},
    {"ounce": 1, "pound": 16},
    {"pint": 1, "quart": 2, "gallon": 8},
)
_AMOUNT = re.compile(r"(?<![\d.,:/-])(\d[\d,]*(?:\.\d+)?)[ ~]?([A-Za-z]+)\b")
_SHELL = " \t$*_()[]{}.,:"
_SAME_STATEMENT = frozenset(["", "and", ",", ", and"])  # between its parts
_NEXT_STATEMENT = re.compile(
    r"\W{0,3}(?:[(\[=]|\b(?:or|ie|i\. ?e\.|that is(?: to say)?|that's|in other words|equivalently"
    r"|which (?:is|equals|means)(?: the same as| equal to)?)(?!\w))\W{0,3}",
    re.IGNORECASE,
)


def same_amount(text: str) -> Sequence[Number]:
    """The numbers that state a text's only amount by themselves; none if it is not such a text.

    "2 hours and 40 minutes" is one statement and no number; "1.67 hours" are 100 minutes.

    Args:
        text: what a marker is followed by, up to the end of its sentence.
    """
    statements = _statements(text)
    numbers = [number for parts in statements for number in parts]
    fitting = (sizes for sizes in _SIZES if all(_unit(number) in sizes for number in numbers))
    sizes = next(fitting, {})
    if len(statements) != 2 or not sizes:
        return ()
    amounts = [_amount(parts, sizes) for parts in statements]
    if not all(amounts):
        return ()
    alone = [
        (parts[0], other / sizes[_unit(parts[0])])
        for parts, other in zip(statements, reversed(amounts), strict=True)
        if len(parts) == 1
    ]
    if amounts[0] != amounts[1] and not any(rounds_to(other, one.value) for one, other in alone):
        return ()
    return [number for number, _ in alone]


def _statements(text: str) -> Sequence[Sequence[Number]]:
    """The parts of each statement; none if the text is not made of statements alone."""
    if len(text) > MAX_TEXT:
        return ()
    found = list(_AMOUNT.finditer(text))
    statements: list[list[Number]] = [[]]
    end = 0
    for amount in found:
        between = text[end : amount.start()] if end else text[: amount.start()].strip(_SHELL)
        if end and _NEXT_STATEMENT.fullmatch(between):
            statements.append([])
        elif between.strip() not in _SAME_STATEMENT:
            return ()
        number = parse_number(amount[1])
        if number is None:
            return ()
        statements[-1].append(replace(number, unit=(amount[2].lower(),)))
        end = amount.end()
    return () if text[end:].strip(_SHELL) else statements


def _amount(parts: Sequence[Number], sizes: Mapping[str, int]) -> Fraction:
    """The sum of a statement's parts; 0 if they do not go from large units to small ones."""
    units = [sizes[_unit(part)] for part in parts]
    if any(small >= large for large, small in pairwise(units)):
        return Fraction()
    return sum((part.value * unit for part, unit in zip(parts, units, strict=True)), Fraction())


def _unit(number: Number) -> str:
    return singular(number.unit[0])
