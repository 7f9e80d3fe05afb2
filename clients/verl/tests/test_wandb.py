"""Samples as a table of a real wandb run, offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import wandb

from reward_serve.client.samples import COLUMNS, SampleReader, SampleWriter, log_table
from reward_serve.schema import ScoreResult, Status


def test_samples_with_and_without_a_score_become_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    file = str(tmp_path / "samples.jsonl")
    reader, writer = SampleReader(file), SampleWriter(file, every=1)
    asked = {"question": "How many?", "response": "#### 18", "reference": "18"}
    writer.note(asked, ScoreResult(status=Status.TIMEOUT, reason="no answer came by the deadline"))
    writer.note(asked, ScoreResult(status=Status.OK, score=1.0, source="rule"))
    rows = reader.rows()

    settings = wandb.Settings(console="off")
    run = wandb.init(mode="offline", dir=tmp_path, project="grpo", settings=settings)
    log_table(rows)
    run.log({"step": 1})
    run.finish()

    (table,) = tmp_path.rglob("judge/samples_*.table.json")
    logged = json.loads(table.read_text(encoding="utf-8"))
    assert logged["columns"] == list(COLUMNS)
    assert logged["data"] == [list(row) for row in rows]
    assert [row[COLUMNS.index("score")] for row in logged["data"]] == [None, 1.0]
