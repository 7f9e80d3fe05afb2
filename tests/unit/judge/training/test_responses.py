from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from reward_serve_answers import verify
from reward_serve_judge.canonical import canonical
from reward_serve_judge.training.answers.words import Verdict
from reward_serve_judge.training.drafts import Draft, Problem
from reward_serve_judge.training.responses import (
    Example,
    Material,
    in_a_family,
    make,
    make_bare,
    make_first,
)
from reward_serve_judge.training.texts import KINDS

MATERIAL = Material(
    [
        Problem.from_row({"question": question, "answer": answer})
        for question, answer in (
            (
                "Nadia packs 7 boxes of 24 pears and eats 6 pears. How many are left?",
                "Nadia packs 7 * 24 = <<7*24=168>>168 pears.\n"
                "She has 168 - 6 = <<168-6=162>>162 pears left.\n#### 162",
            ),
            (
                "Oskar has a rope of 90 feet. He cuts off 3 pieces of 12 feet. How long is it now?",
                "He cuts off 3 * 12 = <<3*12=36>>36 feet.\n"
                "The rope is now 90 - 36 = <<90-36=54>>54 feet long.\n#### 54",
            ),
        )
    ]
)


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return [example for seed in range(1_500) for example in make(MATERIAL, Random(seed))]


def test_a_seed_makes_the_same_examples_again(examples: list[Example]) -> None:
    again = [example for seed in range(50) for example in make(MATERIAL, Random(seed))]
    assert again == examples[: len(again)]


def test_a_committed_response_meets_one_reference_and_misses_another() -> None:
    groups = [make(MATERIAL, Random(seed)) for seed in range(300)]
    committed = [group for group in groups if any(example.correct for example in group)]
    assert 100 < len(committed) < 250
    for group in committed:
        assert len({example.response for example in group}) == 1
        met = {example.reference for example in group if example.correct}
        missed = {example.reference for example in group if not example.correct}
        assert missed
        assert not met & missed


def test_what_commits_to_nothing_is_never_right(examples: list[Example]) -> None:
    never = {"hedge", "bound", "cut_off", "no_answer", "obscured", "unfinished"}
    count = Counter((example.family, example.correct) for example in examples)
    assert all(count[family, False] > 5 for family in never)
    assert not any(count[family, True] for family in never)


def test_no_missed_reference_is_also_met(examples: list[Example]) -> None:
    shown: dict[str, dict[str, bool]] = {}
    for example in examples:
        labels = shown.setdefault(example.response, {})
        reference = re.sub(r"\s", "", canonical(example.reference))
        assert labels.setdefault(reference, example.correct) is example.correct, example


def test_every_kind_is_met_and_missed(examples: list[Example]) -> None:
    kinds = {"number", "formula", "tuple", "set", "interval", "yes_no", "choice", "words", "symbol"}
    count = Counter((example.kind, example.correct) for example in examples)
    for kind in kinds | {"unit", "date", "time"}:
        assert count[kind, True] > 3 < count[kind, False], kind


def test_two_different_values_are_no_answer_and_two_notations_are(examples: list[Example]) -> None:
    double = [example for example in examples if example.family == "double"]
    restated = [example for example in examples if example.family == "restated"]
    assert len(double) > 100 < len(restated)
    assert not any(example.correct or example.answered for example in double)
    assert sum(example.correct for example in restated) >= len(restated) / 3


def test_wordings_for_evaluation_are_not_used_for_training() -> None:
    for name in [name for name in KINDS if name.endswith("_unseen")]:
        assert not set(KINDS[name]) & set(KINDS[name.removesuffix("_unseen")])


def test_an_answer_that_a_refusal_mentions_is_not_given_one() -> None:
    """ "No" may refuse, or answer no."""
    general = {"no_answer": (1.0, lambda draft: ("No, I cannot.", None))}
    verdict, other = Verdict(0, 1), Verdict(0, 0)
    problem = MATERIAL.problems[0]
    for stated, gold, family in ((other, verdict, "plain"), (verdict, other, "no_answer")):
        draft = Draft(problem, stated, gold, [], Random(0), problem)
        assert {example.family for example in in_a_family(draft, general)} == {family}


def test_rules_contradict_no_label(examples: list[Example]) -> None:
    outcomes = {True: "wrong", False: "right"}
    bare = [example for seed in range(500) for example in make_bare(MATERIAL, Random(seed))]
    first = [example for seed in range(100) for example in make_first(Random(seed))]
    wrong = [
        example
        for example in [*examples, *bare, *first]
        if example.kind == "number"
        and verify(example.response, example.reference).outcome == outcomes[example.correct]
    ]
    assert wrong == []
