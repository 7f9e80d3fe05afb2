from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from examples.train_judge.drafts import Problem
from examples.train_judge.responses import Example, make, make_bare, make_first
from reward_serve.rules import verify

PROBLEMS = [
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


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return [example for seed in range(1_500) for example in make(PROBLEMS, Random(seed))]


def test_a_seed_makes_the_same_examples_again(examples: list[Example]) -> None:
    again = [example for seed in range(50) for example in make(PROBLEMS, Random(seed))]
    assert again == examples[: len(again)]


def test_a_committed_response_meets_one_reference_and_misses_another() -> None:
    groups = [make(PROBLEMS, Random(seed)) for seed in range(300)]
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


def test_rules_contradict_no_label(examples: list[Example]) -> None:
    outcomes = {True: "wrong", False: "right"}
    bare = [example for seed in range(500) for example in make_bare(PROBLEMS, Random(seed))]
    first = [example for seed in range(100) for example in make_first(Random(seed))]
    wrong = [
        example
        for example in [*examples, *bare, *first]
        if verify(example.response, example.reference).outcome == outcomes[example.correct]
    ]
    assert wrong == []
