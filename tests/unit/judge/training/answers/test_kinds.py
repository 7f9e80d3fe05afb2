from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from random import Random

import pytest
from sympy import Expr, simplify  # type: ignore[import-untyped]
from sympy.parsing.sympy_parser import (  # type: ignore[import-untyped]
    implicit_multiplication,
    parse_expr,
    standard_transformations,
)

from reward_serve_judge.training.answers.base import Answer, near_miss
from reward_serve_judge.training.answers.formulas import Formula
from reward_serve_judge.training.answers.intervals import Interval, Union
from reward_serve_judge.training.answers.kinds import drawn
from reward_serve_judge.training.answers.measures import Day, Quantity, Time
from reward_serve_judge.training.answers.sequences import Ordered, Unordered
from reward_serve_judge.training.answers.words import Choice, Symbol, Verdict, Words

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


@pytest.mark.parametrize("seed", range(200))
def test_a_near_miss_is_another_answer_of_the_same_kind(seed: int) -> None:
    rng = Random(seed)
    answer = drawn(rng)
    miss = near_miss(answer, rng)
    assert miss != answer and miss.kind == answer.kind
    assert miss.reference(Random(0)) != answer.reference(Random(0))
    for tex in (False, True):
        assert answer.written(rng, tex=tex).strip()


def value_of(text: str) -> Expr:
    text = re.sub(r"([a-z0-9)])([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: m[1] + "**" + m[2], text)
    text = re.sub(r"√(\d+)", r"sqrt(\1)", text.translate(SUPERSCRIPTS))
    text = re.sub(r"e\^\(?(\d*)x\)?", r"exp(\1 x)", re.sub(r"^[a-zA-Z(]+\) ?= ?|^y = ", "", text))
    text = text.replace("^", "**").replace("π", "pi").replace("i", "I").replace("pI", "pi")
    text = text.replace("sIn", "sin")
    text = re.sub(r"(?<![a-z])([a-z])(?=\()", r"\1*", text)
    return parse_expr(text, transformations=(*standard_transformations, implicit_multiplication))


@pytest.mark.parametrize("seed", range(60))
def test_every_notation_of_a_formula_has_its_value_and_a_near_miss_has_not(seed: int) -> None:
    rng = Random(seed)
    formula = Formula.invented(rng)
    miss = near_miss(formula, rng)
    value = value_of(formula.written(rng))
    for _ in range(4):
        text = formula.written(rng)
        assert simplify(value_of(text) - value) == 0, text
    assert simplify(value_of(miss.written(rng)) - value) != 0


@pytest.mark.parametrize("seed", range(40))
def test_a_time_is_the_same_in_every_notation(seed: int) -> None:
    rng = Random(seed)
    time = Time.invented(rng)
    for _ in range(8):
        text = time.written(rng).upper().replace(".", "").replace(" ", "")
        form = "%H:%M" if text[-1] != "M" else "%I:%M%p" if ":" in text else "%I%p"
        if "CLOCK" not in text:
            read = datetime.strptime(text, form)
            assert read.hour * 60 + read.minute == time.minutes, text


def references(answer: Answer) -> set[str]:
    return {answer.reference(Random(seed)) for seed in range(40)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Interval.invented, lambda i: Interval(i.low, i.high, (not i.closed[0], i.closed[1]))),
        (Union.invented, lambda u: near_miss(u, Random(0))),
        (Ordered.pair, lambda t: Ordered((t.elements[0] + 1, *t.elements[1:]))),
        (Unordered.invented, lambda s: Unordered(frozenset(list(s.elements)[1:]))),
        (Quantity.invented, lambda q: Quantity(q.number, q.group, q.unit - 1)),
        (Day.invented, lambda d: near_miss(d, Random(0))),
        (Choice.invented, lambda c: near_miss(c, Random(0))),
        (Verdict.invented, lambda v: near_miss(v, Random(0))),
        (Words.several, lambda w: near_miss(w, Random(0))),
        (Symbol.invented, lambda s: near_miss(s, Random(0))),
    ],
)
def test_two_answers_share_no_reference(
    one: Callable[[Random], Answer], other: Callable[[Answer], Answer]
) -> None:
    for seed in range(30):
        answer = one(Random(seed))
        if isinstance(answer, Interval) and answer.low is None:
            continue
        assert not references(answer) & references(other(answer))


def test_case_and_primes_matter_for_symbols_but_not_for_words() -> None:
    misses = {near_miss(Symbol("f'"), Random(seed)) for seed in range(50)}
    assert Symbol("f") in misses and Symbol("F'") in misses
    said = {Words("river").written(Random(seed)) for seed in range(200)}
    assert {"River", "RIVER", "river"} <= said
    assert all(near_miss(Words("river"), Random(n)).text.lower() != "river" for n in range(50))
