from __future__ import annotations

import pytest

from reward_serve_judge.training.sentences import (
    carriers,
    equations,
    givens,
    prose,
    statements,
)


def test_prose_has_results_in_place_of_their_calculations() -> None:
    assert prose("She makes 9 * 2 = $<<9*2=18>>18 a day.") == "She makes $18 a day."


def test_equations_are_the_annotations() -> None:
    assert equations("She has 9 * 2 = <<9*2=18>>18 and 3.") == ["9*2 = 18"]


def test_statements_are_whole_sentences_that_ask_nothing() -> None:
    question = "Bo pays $1 a box. She buys 4. How much is it?"
    assert statements(question) == ["Bo pays $1 a box.", "She buys 4."]


def test_what_follows_a_decimal_point_is_no_sentence() -> None:
    assert statements("Bo pays $1.50 a box. She buys 4.") == ["She buys 4."]


def test_a_carrier_is_the_text_around_a_sentences_last_number() -> None:
    lines = ("Of 9 hens 9 - 2 = <<9-2=7>>7 hens were sold.", "So 7 * 3 = <<7*3=21>>21")
    assert carriers(lines) == [("Of 9 hens ", " hens were sold.")]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("That is a share of 30% of all.", id="percent"),
        pytest.param("She has bought 3 dozen eggs.", id="dozen"),
        pytest.param("He ran for 1/2 of the way.", id="fraction"),
        pytest.param("He has 18 more than Ann has.", id="difference"),
        pytest.param("x + 3 = y and nothing else", id="equation"),
        pytest.param("That leaves her with 139 - 19 euros.", id="operand"),
        pytest.param("They need to sort 500 trees * 3 = 1500 trees.", id="operand with a unit"),
        pytest.param("There are none of them.", id="no number"),
    ],
)
def test_a_number_that_is_part_of_another_carries_nothing(line: str) -> None:
    assert carriers((line,)) == []


def test_a_question_gives_the_sentences_with_one_number() -> None:
    question = "Bo has 9 hens. He buys 4 eggs and 2 loaves. He needs at least 3 pens. How many?"
    assert givens(question) == [("Bo has ", " hens.")]
