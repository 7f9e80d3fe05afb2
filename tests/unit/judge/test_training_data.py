"""Training rows: what they are made of, and that no label is false."""

import json
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
import typer

from reward_serve_answers import verify
from reward_serve_judge.canonical import canonical
from reward_serve_judge.training import unseen
from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.answers.tasks import HELD_OUT, TRAINED, Task
from reward_serve_judge.training.drafts import Draft, Problem
from reward_serve_judge.training.problems import read_problems
from reward_serve_judge.training.responses import Example, Material, make, make_bare, make_first
from reward_serve_judge.training.texts import KINDS
from reward_serve_lab.evaluation.bulk import read_rows

PROBLEM = Problem.from_row(
    {
        "question": "Nadia packs 7 boxes of 24 pears and eats 6 pears. How many are left?",
        "answer": "Nadia packs 7 * 24 = <<7*24=168>>168 pears.\n"
        "She has 168 - 6 = <<168-6=162>>162 pears left.\n#### 162",
    }
)
ROPE = Problem.from_row(
    {
        "question": "Oskar has a rope of 90 feet. He cuts off 3 pieces of 12 feet. How long is it?",
        "answer": "He cuts off 3 * 12 = <<3*12=36>>36 feet.\n"
        "The rope is now 90 - 36 = <<90-36=54>>54 feet long.\n#### 54",
    }
)
MATERIAL = Material([PROBLEM, ROPE])


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return [example for seed in range(1_500) for example in make(MATERIAL, Random(seed))]


def test_a_committed_response_meets_one_reference_and_misses_another() -> None:
    groups = [make(MATERIAL, Random(seed)) for seed in range(300)]
    committed = [group for group in groups if any(example.correct for example in group)]
    assert 100 < len(committed) < 250
    for group in committed:
        assert len({example.response for example in group}) == 1
        met = {example.reference for example in group if example.correct}
        missed = {example.reference for example in group if not example.correct}
        assert missed and not met & missed


def test_what_commits_to_nothing_is_never_right(examples: list[Example]) -> None:
    never = {"hedge", "bound", "cut_off", "no_answer", "obscured", "unfinished"}
    count = Counter((example.family, example.correct) for example in examples)
    assert all(count[family, False] > 5 for family in never)
    assert not any(count[family, True] for family in never)


def test_no_missed_reference_is_also_met(examples: list[Example]) -> None:
    labelled: dict[str, dict[str, bool]] = {}
    for example in examples:
        labels = labelled.setdefault(example.response, {})
        reference = re.sub(r"\s", "", canonical(example.reference))
        assert labels.setdefault(reference, example.correct) is example.correct, example


def test_every_kind_is_met_and_missed(examples: list[Example]) -> None:
    kinds = {"number", "formula", "tuple", "set", "interval", "yes_no", "choice", "words", "symbol"}
    count = Counter((example.kind, example.correct) for example in examples)
    for kind in kinds | {"unit", "date", "time", "duration", "base"}:
        assert count[kind, True] > 3 < count[kind, False], kind


def test_two_different_values_are_no_answer_and_two_notations_are(examples: list[Example]) -> None:
    double = [example for example in examples if example.family == "double"]
    restated = [example for example in examples if example.family == "restated"]
    assert len(double) > 100 < len(restated)
    assert not any(example.correct or example.answered for example in double)
    assert sum(example.correct for example in restated) >= len(restated) / 3


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


def test_an_amount_in_two_units_misses_no_reference_it_may_meet(examples: list[Example]) -> None:
    converted = [example for example in examples if example.family == "converted"]
    assert sum(example.correct for example in converted) > 10
    for example in converted:
        if not example.correct and (second := re.search(r"\(([\d.]+) km\)", example.response)):
            assert canonical(example.reference) != canonical(second[1])


def draft(seed: int, stated: int = 31) -> Draft[Number]:
    stated_value, gold = Number(Fraction(stated)), Number(Fraction(162))
    return Draft(PROBLEM, stated_value, gold, [], Random(seed), elsewhere=PROBLEM)


def test_working_is_made_to_fit_the_stated_value_and_nothing_else() -> None:
    text = "She has 168 - 6 = 162 pears left, not 1162 or 162.5."
    assert draft(0).restated(text) == "She has 168 - 6 = 31 pears left, not 1162 or 162.5."
    row = {"question": "?", "answer": "They earn $1,620.00 in all.\n#### 1620"}
    made = replace(draft(0), problem=Problem.from_row(row))
    assert made.restated("They earn $1,620.00 in all.") == "They earn $31 in all."


def rows(count: int) -> list[str]:
    made = ({"question": f"{n}?", "answer": f"It is {n}.\n#### {n}"} for n in range(count))
    return [json.dumps(row) for row in made]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_every_twentieth_problem_is_held_out_of_training(tmp_path: Path) -> None:
    train, held_out = read_problems(write(tmp_path / "train.jsonl", rows(100)))
    assert [problem.question for problem in held_out] == ["0?", "20?", "40?", "60?", "80?"]
    assert len(train) == 95
    assert not set(train) & set(held_out)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([json.dumps({"question": "?"})], "row 1: KeyError: 'answer'"),
        ([*rows(2), json.dumps({"question": "?", "answer": "#### x"})], "row 3"),
    ],
)
def test_a_bad_file_is_reported_by_its_row(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        read_problems(write(tmp_path / "train.jsonl", lines))
    assert message in str(caught.value)


def test_unseen_kinds_have_labelled_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = Task("fake", "up left", ("UP LEFT",), ("left up", "up", "down"))
    monkeypatch.setattr(unseen, "read_tasks", lambda names, count, seed: [task])
    monkeypatch.setattr(unseen, "read_mmath", lambda: {"formulas": [task]})
    monkeypatch.setattr(unseen, "read_problems", lambda data: ([], [PROBLEM, ROPE]))
    unseen.main(data="train.jsonl", out=tmp_path / "rows.jsonl", count=20, seed=0)

    read = read_rows(tmp_path / "rows.jsonl")
    assert not any(row.fault for row in read)
    labels: dict[str | None, set[bool | None]] = {}
    for row in read:
        labels.setdefault(row.format, set()).add(row.correct)
    notations = ("durations, times", "other bases", "intervals, tuples", "plain words")
    for kind in (*notations, "task: lists", "mmath: formulas", "restated", "run-on", "middle"):
        assert labels[kind] == {True, False}
    assert labels["double"] == labels["denied"] == {False}


def test_wordings_and_tasks_for_evaluation_are_not_used_for_training() -> None:
    assert not set(TRAINED) & {name for names in HELD_OUT.values() for name in names}
    for name in [name for name in KINDS if name.endswith("_unseen")]:
        assert not set(KINDS[name]) & set(KINDS[name.removesuffix("_unseen")])
