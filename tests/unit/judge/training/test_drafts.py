from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.drafts import Draft, Problem, of_number

PROBLEM = Problem.from_row(
    {
        "question": "Nadia packs 7 boxes of 24 pears and eats 6 pears. How many are left?",
        "answer": "Nadia packs 7 * 24 = <<7*24=168>>168 pears.\n"
        "She has 168 - 6 = <<168-6=162>>162 pears left.\n#### 162",
    }
)


def draft(seed: int, stated: int = 31) -> Draft[Number]:
    stated_value, gold = Number(Fraction(stated)), Number(Fraction(162))
    return Draft(PROBLEM, stated_value, gold, [], Random(seed), elsewhere=PROBLEM)


def test_a_row_that_ends_in_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="no idea"):
        Problem.from_row({"question": "?", "answer": "#### no idea"})


def test_working_is_made_to_fit_the_stated_value_and_nothing_else() -> None:
    text = "She has 168 - 6 = 162 pears left, not 1162 or 162.5."
    assert draft(0).restated(text) == "She has 168 - 6 = 31 pears left, not 1162 or 162.5."


def test_a_result_with_separators_is_made_to_fit_too() -> None:
    row = {"question": "?", "answer": "They earn $1,620.00 in all.\n#### 1620"}
    made = replace(draft(0), problem=Problem.from_row(row))
    assert made.restated("They earn $1,620.00 in all.") == "They earn $31 in all."


def test_a_solutions_sentence_states_the_drafts_value() -> None:
    said = {draft(seed).in_sentence("nine") for seed in range(200)}
    assert {"Nadia packs nine pears.", "She has nine pears left."} <= said
    assert not any(sentence is None or "168" in sentence for sentence in said)


def test_no_filled_number_is_the_stated_one() -> None:
    for seed in range(500):
        assert draft(seed, stated=7).filled("{m} {n} {k}").split().count("7") == 0


def test_every_slot_of_every_closing_is_filled() -> None:
    for seed in range(2_000):
        text = draft(seed).closing()
        assert not any(slot in text for slot in ("{s}", "{m}", "{n}", "{k}", "{u}")), text


def test_neither_value_is_always_the_problems_own() -> None:
    drafts = [of_number(PROBLEM, PROBLEM, Random(seed)) for seed in range(300)]
    own = [(d.stated == PROBLEM.answer, d.gold == PROBLEM.answer) for d in drafts]
    assert all(own.count(which) > 40 for which in ((True, False), (False, True), (False, False)))
    assert all(d.stated != d.gold for d in drafts)
    assert all(d.other() not in (d.stated, d.gold) for d in drafts)
