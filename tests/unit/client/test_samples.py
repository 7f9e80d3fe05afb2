from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reward_serve.client import connect, samples
from reward_serve.client.samples import COLUMNS, SampleReader, SampleWriter, sample_of
from reward_serve.schema import ScoreResult, Status
from tests.fake_service import FakeService

ASKED = {"question": "9 + 9?", "response": "So it is\n#### 18", "reference": "18"}


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_what_was_judged_can_be_read(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run" / "samples.jsonl"
    monkeypatch.setenv("REWARD_SERVE_SAMPLES", str(file))
    client = connect(url=service.url, on_failure="none", samples_every=1)
    client.score({**ASKED, "metadata": {"step": 7}})
    client.score({"response": 3, "metadata": 7})

    right, refused = lines(file)
    assert tuple(right) == COLUMNS
    assert (right["step"], right["question"], right["score"]) == (7, "9 + 9?", 1.0)
    assert (right["response_end"], right["source"]) == ("So it is\n#### 18", "rule")
    assert (refused["step"], refused["score"], refused["status"]) == (None, None, "invalid")
    assert "response" in refused["reason"]


def test_the_end_of_a_long_response_and_the_labels_probability_are_kept() -> None:
    result = ScoreResult(
        status=Status.OK, score=1.0, label="yes", probabilities={"yes": 0.9, "no": 0.1}
    )
    sample = sample_of({"response": "x" * 9000 + "#### 18"}, result)
    turns = [{"role": "assistant", "content": "#### 18"}, {"role": "tool", "content": "?"}]
    assert sample_of({"messages": turns}, result)["response_end"] == "#### 18"
    assert sample_of({"messages": 18}, result)["response_end"] == ""  # an invalid request

    assert sample["probability"] == 0.9
    assert sample["response_end"].endswith("x#### 18")
    assert len(sample["response_end"]) == 500


def test_a_reader_takes_each_sample_once(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    writer = SampleWriter(str(file), every=1)
    writer.note(ASKED, ScoreResult(status=Status.OK, score=0.0))  # of an earlier run
    reader = SampleReader(str(file))
    assert reader.rows() == []
    for score in (1.0, 0.0):
        writer.note(ASKED, ScoreResult(status=Status.OK, score=score))
    with file.open("a", encoding="utf-8") as half_written:
        half_written.write('{"step"')

    assert [row[COLUMNS.index("score")] for row in reader.rows()] == [1.0, 0.0]
    assert reader.rows() == []


def test_a_full_disk_costs_no_reward(
    service: FakeService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(url=service.url, samples=str(tmp_path))  # a folder

    assert client.score(ASKED).score == 1.0
    assert client.score(ASKED).score == 1.0
    assert [r.getMessage() for r in caplog.records if r.name == samples.__name__] == [
        f"{tmp_path}: Is a directory; its lines are lost until it can be written again"
    ]
