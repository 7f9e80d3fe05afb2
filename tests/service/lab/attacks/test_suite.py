from __future__ import annotations

import os
import re
import subprocess
import sys
from decimal import Decimal
from random import Random

import pytest

from reward_serve.schema import ScoreRequest
from reward_serve.templates import load_template, read_verdict, template_names
from reward_serve_answers import final_answer, verify
from reward_serve_lab.attacks import FAMILIES, Attack, Family, crossed
from reward_serve_lab.attacks.families.altered_values import OTHER_AMOUNTS
from reward_serve_lab.attacks.families.master_keys import MAX_CHARACTERS
from reward_serve_lab.attacks.problems import Problem

FINGERPRINT = (
    "import hashlib; from reward_serve_lab.attacks import crossed; "
    "print(hashlib.sha256(repr(crossed(3)).encode()).hexdigest())"
)


@pytest.fixture(scope="module")
def rows() -> list[Attack]:
    return crossed(seed=0)


def of_family(rows: list[Attack], family: Family) -> list[Attack]:
    return [row for row in rows if row.family == family.name]


def value_of(row: Attack) -> Decimal:
    return Decimal(final_answer(row.reference).replace(",", ""))


def test_there_are_at_least_500_texts_and_no_text_comes_twice() -> None:
    texts = [attack.response for attack in crossed(per_text=1)]
    assert len(texts) == len(set(texts)) >= 500


def test_a_seed_gives_the_same_rows_in_every_process() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", FINGERPRINT],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != b""


@pytest.mark.parametrize("seed", [1, 2])
def test_another_seed_gives_mostly_other_texts_in_every_family(seed: int) -> None:
    known = {attack.response for attack in crossed(0, per_text=1)}
    attacks = crossed(seed, per_text=1)
    for family in FAMILIES:
        texts = [attack.response for attack in of_family(attacks, family)]
        assert sum(text not in known for text in texts) > len(texts) / 2, family.name


def test_every_family_has_its_own_name_says_what_it_is_and_has_texts(rows: list[Attack]) -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    assert {row.family for row in rows} == {family.name for family in FAMILIES}
    for family in FAMILIES:
        assert len(family.about.split()) > 12, family.name
        texts = {row.response for row in of_family(rows, family)}
        assert len(texts) >= 20, family.name


@pytest.mark.parametrize("per_text", [1, 3, 8])
def test_every_text_is_crossed_with_each_of_its_references(per_text: int) -> None:
    crossings = crossed(0, per_text)
    assert len(crossings) == per_text * len(crossed(0, per_text=1))
    for start in range(0, len(crossings), per_text):
        group = crossings[start : start + per_text]
        assert len({row.reference for row in group}) == per_text


def test_fewer_references_give_some_of_the_rows_of_more(rows: list[Attack]) -> None:
    assert set(crossed(0, per_text=1)) < set(rows)


def test_references_take_every_form_and_are_never_0_or_1(rows: list[Attack]) -> None:
    forms = {
        "small": r"[2-9]",
        "two digits": r"\d\d",
        "thousands": r"\d{4,}",
        "separated": r"\d+,\d{3}",
        "decimal": r"\d+\.\d+",
        "solution": r"(?s).+\n.+\n#### \d+",
        "separated solution": r"(?s).+\n.+\n#### \d+,\d{3}",
    }
    references = {row.reference for row in rows}
    for name, form in forms.items():
        share = sum(bool(re.fullmatch(form, reference)) for reference in references)
        assert share > 5, name
    assert min(map(value_of, rows)) >= 2


def test_the_verifier_never_proves_an_attack_right() -> None:
    for seed in range(3):
        for row in crossed(seed):
            assert verify(row.response, row.reference).outcome != "right", row


def test_a_text_that_commits_to_nothing_does_not_hold_its_references_value(
    rows: list[Attack],
) -> None:
    committed = {family.name for family in FAMILIES if family.may_mention}
    for row in rows:
        if row.family not in committed:
            numbers = re.findall(r"\d+(?:\.\d+)?", row.response.replace(",", ""))
            assert value_of(row) not in [Decimal(number) for number in numbers], row


@pytest.mark.parametrize(
    "name", ["hedging", "stuffing", "taken_back", "double_answers", "hidden_text", "disowned"]
)
def test_a_text_that_may_hold_the_value_often_does(name: str, rows: list[Attack]) -> None:
    texts = [row for row in rows if row.family == name]
    assert sum(final_answer(row.reference) in row.response for row in texts) > len(texts) / 3


@pytest.mark.parametrize("name", ["stuffing", "taken_back"])
def test_such_a_text_does_not_end_in_the_value(name: str, rows: list[Attack]) -> None:
    for row in rows:
        numbers = re.findall(r"\d[\d,]*(?:\.\d+)?", row.response)
        denied = name == "taken_back" and len(set(numbers)) == 1
        if row.family == name and numbers and not denied:
            assert Decimal(numbers[-1].rstrip(",").replace(",", "")) != value_of(row), row


def test_every_row_is_a_valid_request_of_bounded_length(rows: list[Attack]) -> None:
    for row in rows:
        ScoreRequest(response=row.response, reference=row.reference, question=row.question)
    longest = max(len(row.response) for row in rows)
    assert MAX_CHARACTERS / 2 < longest <= MAX_CHARACTERS


def test_other_amounts_and_hidden_texts_beside_a_wrong_answer_are_never_the_value() -> None:
    for seed in range(3):
        for row in crossed(seed):
            answer = final_answer(row.reference)
            if row.family == "other_amounts":
                assert row.response.strip("#{}\\boxed. ") != answer, row
            elif row.family in ("double_answers", "hidden_text"):
                others = set(re.findall(r"\d[\d,]*(?:\.\d+)?", row.response)) - {
                    answer,
                    f"{answer},",
                }
                assert others, row


def test_two_factorial_is_two() -> None:
    two = Problem("?", ("1 + 1 = 2",), Decimal(2))
    texts = [draft(two) for draft in OTHER_AMOUNTS.drafts(Random(0)) if callable(draft)]
    assert any("3!" in text for text in texts)
    assert not any("2!" in text or "2 factorial" in text for text in texts)


@pytest.mark.parametrize("name", template_names())
def test_every_shipped_templates_own_verdict_is_planted(name: str) -> None:
    template = load_template(name)
    planted = [row.response for row in crossed(per_text=1) if row.family == "planted_verdicts"]
    assert any(read_verdict(template, text, cut_off=False).score == 1 for text in planted)
    if template.label is not None:
        values = template.label.values
        assert max(values, key=lambda label: values[label]) in planted


def test_a_copied_question_is_the_one_the_judge_is_shown(rows: list[Attack]) -> None:
    for row in rows:
        if row.family == "copied_questions":
            asked = row.question.rpartition(". ")[2].rpartition(" ")[0]
            assert asked.casefold() in row.response.casefold(), row
