"""Short calculations with a given result."""

from __future__ import annotations

from random import Random

from reward_serve_judge.training.answers.numbers import Number

_SIGNS = {
    "+": ("+", "+", "plus", "and another"),
    "-": ("-", "-", "−", "minus", "less"),
    "*": ("*", "×", "x", "times", "\\times"),
    "/": ("/", "÷", "divided by"),
}


def sum_of(value: Number, rng: Random) -> str | None:
    """Such as "20 - 5", "20 minus 5" or "3 × 5" for 15; None unless an integer of at least 2."""
    number = value.number
    if number.denominator != 1 or not 2 <= number < 10**6 or value.percent:
        return None
    whole = int(number)
    sign = rng.choice("++--*/")
    part = rng.randint(1, max(2, whole - 1)) if rng.random() < 0.5 else rng.randint(1, 12)
    factors = [k for k in range(2, 61) if whole % k == 0 and k < whole]
    if sign == "*" and factors:
        part = rng.choice(factors)
        terms = [whole // part, part]
        rng.shuffle(terms)
    elif sign == "/":
        part = rng.randint(2, 12)
        terms = [whole * part, part]
    elif sign == "-" or part >= whole:
        sign, terms = "-", [whole + part, part]
    else:
        sign, terms = "+", [whole - part, part]
        if rng.random() < 0.3 and terms[0] > 1:
            third = rng.randint(1, terms[0] - 1)
            terms = [terms[0] - third, third, part]
    return f" {rng.choice(_SIGNS[sign])} ".join(map(str, terms))
