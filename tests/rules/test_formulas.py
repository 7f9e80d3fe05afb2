from __future__ import annotations

from fractions import Fraction

import pytest

from reward_serve.rules.formulas import (
    Constant,
    Formula,
    Group,
    Name,
    Product,
    UnreadError,
    ordered,
    product,
)

TWO, THREE, MINUS_TWO = (Constant(Fraction(value)) for value in (2, 3, -2))
X, Y = Name("x"), Name("y")


def test_the_order_of_terms_does_not_matter() -> None:
    assert ordered([X, TWO, Y]) == ordered([Y, X, TWO])


def test_an_interval_is_no_term() -> None:
    with pytest.raises(UnreadError):
        ordered([X, Group("[)", (TWO, THREE))])


@pytest.mark.parametrize(
    ("factors", "divisors", "negative", "expected"),
    [
        ([X], [], False, X),
        ([X], [], True, Product(Fraction(-1), (X,))),
        ([TWO], [THREE], False, Constant(Fraction(2, 3))),
        ([Y, TWO, X], [THREE], False, Product(Fraction(2, 3), (X, Y))),
        (
            [Product(Fraction(1, 2), (X,), (Y,)), Y],
            [],
            False,
            Product(Fraction(1, 2), (X, Y), (Y,)),
        ),
        ([X], [Product(Fraction(2), (Y,))], False, Product(Fraction(1, 2), (X,), (Y,))),
        ([Constant(Fraction(1)), X], [], False, X),
    ],
)
def test_a_product_gathers_its_numbers(
    factors: list[Formula], divisors: list[Formula], negative: bool, expected: Formula
) -> None:
    assert product(factors, divisors, negative=negative) == expected


@pytest.mark.parametrize(
    ("factors", "divisors", "negative"),
    [
        ([TWO, THREE], [], False),
        ([X], [TWO, THREE], False),
        ([Constant(Fraction(36))], [TWO], False),
        ([X], [Constant(Fraction(0))], False),
        ([Constant(Fraction(1, 2))], [THREE], False),
        ([MINUS_TWO], [], True),
        ([MINUS_TWO, X], [MINUS_TWO], False),
    ],
)
def test_arithmetic_left_undone_is_no_product(
    factors: list[Formula], divisors: list[Formula], negative: bool
) -> None:
    with pytest.raises(UnreadError):
        product(factors, divisors, negative=negative)
