"""The format suite: labelled answers in every shape a policy writes, none of them disputable."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from reward_serve_answers import verify

FORMATS = Path(__file__).parents[2] / "examples" / "gsm8k" / "formats.jsonl"
KEYS = {"id", "question", "reference", "response", "correct", "format"}


DEV = Path(__file__).parents[2] / "judge" / "reward_serve_judge" / "training" / "dev_formats.jsonl"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FORMATS.read_text(encoding="utf-8").splitlines()]


def test_every_row_has_its_keys_and_a_text_in_each(rows: list[dict[str, Any]]) -> None:
    assert len(rows) >= 400
    for row in rows:
        assert row.keys() == KEYS
        assert type(row["correct"]) is bool
        assert all(isinstance(row[key], str) and row[key].strip() for key in KEYS - {"correct"})


def test_cases_and_ids_are_unique(rows: list[dict[str, Any]]) -> None:
    assert len({row["id"] for row in rows}) == len(rows)
    assert len({(row["reference"], row["response"]) for row in rows}) == len(rows)
    assert all(row["id"].startswith(f"{row['format']}/") for row in rows)


def test_a_question_has_one_reference(rows: list[dict[str, Any]]) -> None:
    references = {row["question"]: row["reference"] for row in rows}
    assert len(references) >= 90
    assert all(references[row["question"]] == row["reference"] for row in rows)


def test_every_family_has_both_labels(rows: list[dict[str, Any]]) -> None:
    labels = defaultdict(list)
    for row in rows:
        labels[row["format"]].append(row["correct"])
    assert all(
        len(family) >= 14 and min(sum(family), family.count(False)) >= 6
        for family in labels.values()
    )


def test_the_rules_contradict_no_label(rows: list[dict[str, Any]]) -> None:
    proven = {"right": True, "wrong": False}
    contradicted = [
        row["id"]
        for row in rows
        if proven.get(verify(row["response"], row["reference"]).outcome, row["correct"])
        != row["correct"]
    ]
    assert contradicted == []


def test_tuning_rows_are_valid_and_disjoint_from_the_suite(rows: list[dict[str, Any]]) -> None:
    tuned = [json.loads(line) for line in DEV.read_text(encoding="utf-8").splitlines()]
    assert len({row["id"] for row in tuned}) == len(tuned) == 420
    assert sum(row["correct"] for row in tuned) == 210
    assert not {row["response"] for row in tuned} & {
        row["response"] for row in rows if len(row["response"]) > 20
    }
    opposite = {True: "wrong", False: "right"}
    assert not [
        row["id"]
        for row in tuned
        if verify(row["response"], row["reference"]).outcome == opposite[row["correct"]]
    ]
