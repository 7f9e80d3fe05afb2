"""The format suite: labelled answers in every shape a policy writes, none of them disputable."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from reward_serve_answers import verify

ROOT = Path(__file__).parents[2]
FORMATS = ROOT / "examples" / "gsm8k" / "formats.jsonl"
DEV = ROOT / "judge" / "reward_serve_judge" / "training" / "dev_formats.jsonl"
KEYS = {"id", "question", "reference", "response", "correct", "format"}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return read(FORMATS)


def test_every_row_is_whole_and_its_own(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row.keys() == KEYS
        assert type(row["correct"]) is bool
        assert all(isinstance(row[key], str) and row[key].strip() for key in KEYS - {"correct"})
        assert row["id"].startswith(f"{row['format']}/")
    assert len({row["id"] for row in rows}) == len(rows) >= 400
    assert len({(row["reference"], row["response"]) for row in rows}) == len(rows)
    references = {row["question"]: row["reference"] for row in rows}
    assert len(references) >= 90
    assert all(references[row["question"]] == row["reference"] for row in rows)


def test_every_family_has_both_labels(rows: list[dict[str, Any]]) -> None:
    labels = defaultdict(list)
    for row in rows:
        labels[row["format"]].append(row["correct"])
    for family in labels.values():
        assert len(family) >= 14 and min(sum(family), family.count(False)) >= 6


@pytest.mark.parametrize("path", [FORMATS, DEV], ids=["suite", "tuning"])
def test_the_rules_contradict_no_label(path: Path) -> None:
    opposite = {True: "wrong", False: "right"}
    assert not [
        row["id"]
        for row in read(path)
        if verify(row["response"], row["reference"]).outcome == opposite[row["correct"]]
    ]


def test_tuning_rows_are_disjoint_from_the_suite(rows: list[dict[str, Any]]) -> None:
    tuned = read(DEV)
    assert len({row["id"] for row in tuned}) == len(tuned) == 420
    assert sum(row["correct"] for row in tuned) == 210
    shown = {row["response"] for row in rows if len(row["response"]) > 20}
    assert not {row["response"] for row in tuned} & shown
