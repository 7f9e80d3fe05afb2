from __future__ import annotations

import operator
import re
from decimal import Decimal
from itertools import islice
from random import Random

import pytest

from reward_serve_answers import final_answer
from reward_serve_lab.attacks.mentions import mentions
from reward_serve_lab.attacks.problems import Problem, problems

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
EQUATION = re.compile(r"([\d.]+) ([-+*/]) ([\d.]+) = ([\d.]*\d)")


@pytest.fixture(scope="module")
def many() -> list[Problem]:
    return list(islice(problems(Random(0)), 400))


def test_the_working_is_right_and_ends_in_the_answer(many: list[Problem]) -> None:
    for problem in many:
        equations = EQUATION.findall("\n".join(problem.steps))
        assert equations, problem
        for left, sign, right, result in equations:
            assert OPERATIONS[sign](Decimal(left), Decimal(right)) == Decimal(result), problem
        assert Decimal(equations[-1][3]) == problem.value


def test_nothing_before_the_last_equals_sign_tells_the_answer(many: list[Problem]) -> None:
    for problem in many:
        before = "\n".join([problem.question, *problem.steps]).rpartition("=")[0]
        assert not mentions(before, problem.value), problem


def test_a_reference_holds_the_answer(many: list[Problem]) -> None:
    for problem in many:
        assert final_answer(problem.reference) == problem.answer
        assert Decimal(problem.answer.replace(",", "")) == problem.value
    assert {"," in problem.reference for problem in many} == {True, False}
    assert {problem.full for problem in many} == {True, False}


@pytest.mark.parametrize("distance", [-7, -1, 1, 7, 60])
def test_a_near_answer_is_wrong_and_positive(distance: int, many: list[Problem]) -> None:
    for problem in many:
        near = Decimal(problem.near(distance).replace(",", ""))
        assert near > 0
        assert abs(near - problem.value) == abs(distance)
