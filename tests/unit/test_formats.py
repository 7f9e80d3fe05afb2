"""The format suite: labelled answers in every shape a policy writes, none of them disputable."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from reward_serve_answers import verify

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "lab" / "reward_serve_lab" / "evaluation" / "formats.jsonl"
TUNING = ROOT / "judge" / "reward_serve_judge" / "training" / "dev_formats.jsonl"
FIELDS = {"id", "question", "reference", "response", "correct", "format"}


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_every_row_of_the_suite_is_whole_and_a_case_of_its_own() -> None:
    rows = read(SUITE)
    for row in rows:
        assert row.keys() == FIELDS
        assert type(row["correct"]) is bool
        assert all(
            isinstance(row[name], str) and row[name].strip() for name in FIELDS - {"correct"}
        )
        assert row["id"].startswith(f"{row['format']}/")
    assert len(rows) >= 400
    assert len({row["id"] for row in rows}) == len(rows)
    assert len({(row["reference"], row["response"]) for row in rows}) == len(rows)
    references = {row["question"]: row["reference"] for row in rows}
    assert len(references) >= 90
    assert all(references[row["question"]] == row["reference"] for row in rows)


def test_every_family_has_both_labels() -> None:
    labels = defaultdict(list)
    for row in read(SUITE):
        labels[row["format"]].append(row["correct"])
    for family in labels.values():
        assert len(family) >= 14
        assert min(sum(family), family.count(False)) >= 6


@pytest.mark.parametrize("file", [SUITE, TUNING], ids=lambda file: file.stem)
def test_the_rules_contradict_no_label(file: Path) -> None:
    opposite = {True: "wrong", False: "right"}
    assert not [
        row["id"]
        for row in read(file)
        if verify(row["response"], row["reference"]).outcome == opposite[row["correct"]]
    ]


def test_tuning_rows_are_disjoint_from_the_suite() -> None:
    tuned = read(TUNING)
    assert len({row["id"] for row in tuned}) == len(tuned) == 420
    assert sum(row["correct"] for row in tuned) == 210
    long = {row["response"] for row in read(SUITE) if len(row["response"]) > 20}
    assert not {row["response"] for row in tuned} & long
