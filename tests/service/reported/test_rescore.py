"""Rescore lost rows without a word: group 0, scores as text, columns that no row has, .gz."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from reward_serve_lab.evaluation.rescored import RescoreError, read_rollouts
from tests.fake_service import FakeService
from tests.rows import rows
from tests.unit.lab.fakes import invoke, written

ROW = {"question": "9 + 9?", "response": "#### 18", "reference": "18", "score": 1.0}
UNREADABLE = {**ROW, "score": "good"}


def packed(path: Path, *rows: Any) -> Path:
    path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
    return path


def test_group_0_is_a_group(tmp_path: Path) -> None:
    rows = [{**ROW, "question": f"{n}?", "group": n // 2} for n in range(4)]
    first, second, third, fourth = (
        rollout.group for rollout in read_rollouts(written(tmp_path, *rows))[0]
    )
    assert first == second and third == fourth and None not in (first, third) and first != third


@pytest.mark.parametrize(("column", "value", "score"), rows(__file__, "scores"))
def test_a_score_may_be_text(tmp_path: Path, column: str, value: str, score: float | None) -> None:
    row = {name: ROW[name] for name in ("response", "reference")} | {column: value}
    ((rollout,), faults) = read_rollouts(written(tmp_path, row))
    assert (rollout.score, faults) == (score, [])


@pytest.mark.parametrize("value", ["good", "1/2", {"value": 1}, ["1"]])
def test_a_score_that_is_no_number_names_row_column_and_value(tmp_path: Path, value: Any) -> None:
    rollouts, (fault,) = read_rollouts(written(tmp_path, ROW, {**ROW, "score": value}))
    assert len(rollouts) == 1
    assert f"lines.jsonl:2: score: {str(value)!r} is no number" in fault


def test_an_absent_column_is_refused_with_the_others(service: FakeService, tmp_path: Path) -> None:
    rows = written(tmp_path, ROW, {**ROW, "judge": None})
    with pytest.raises(RescoreError, match=r"--score jugde: no row has it; choose from .*'judge'"):
        read_rollouts(rows, "jugde")
    assert [rollout.score for rollout in read_rollouts(rows, "judge")[0]] == [None, None]
    result = invoke("rescore", rows, "--with", service.url, "--score", "jugde")
    assert (result.exit_code, service.calls) == (2, [])


def test_a_compressed_file_or_log_is_read_and_scored(service: FakeService, tmp_path: Path) -> None:
    file = packed(tmp_path / "rows.jsonl.gz", ROW)
    assert invoke("rescore", file, "--with", service.url).exit_code == 0
    assert (tmp_path / "rescored-rows.jsonl").read_text(encoding="utf-8").count("\n") == 1
    packed(tmp_path / "more.jsonl.gz", ROW, ROW)
    assert len(read_rollouts(tmp_path)[0]) == 3
    packed(tmp_path / "verdicts-judge-1.jsonl.1.gz", ROW)
    ((rollout,), faults) = read_rollouts(tmp_path)
    assert (rollout.score, faults) == (1.0, [])


def test_what_is_compressed_otherwise_is_named_as_left_out(tmp_path: Path) -> None:
    written(tmp_path, ROW)
    packed(tmp_path / "old.parquet.gz", ROW)
    (_, (fault,)) = read_rollouts(tmp_path)
    assert "old.parquet.gz: is left out; unpack it" in fault


@pytest.mark.parametrize("damage", ["cut", "flip", "plain"])
def test_a_damaged_file_is_named(service: FakeService, tmp_path: Path, damage: str) -> None:
    file = packed(tmp_path / "rows.jsonl.gz", *[{**ROW, "sample": n} for n in range(500)])
    whole = file.read_bytes()
    damaged = {"cut": whole[:-40], "flip": whole[:90] + b"\xff" * 60 + whole[150:], "plain": b"{}"}
    file.write_bytes(damaged[damage])
    with pytest.raises(RescoreError, match=r"rows\.jsonl\.gz: .*; compress it again"):
        read_rollouts(file)
    result = invoke("rescore", file, "--with", service.url)
    assert (result.exit_code, service.calls) == (2, [])


def test_rows_left_over_are_reported_and_fail_the_run(service: FakeService, tmp_path: Path) -> None:
    unscored = {**ROW, "reference": None}  # which the rule refuses
    rows, report = written(tmp_path, ROW, UNREADABLE, unscored, unscored), tmp_path / "report.json"
    page = tmp_path / "page.html"
    result = invoke("rescore", rows, "--with", service.url, "--report", report, "--html", page)
    content = json.loads(report.read_text(encoding="utf-8"))
    assert (result.exit_code, content["n"], content["left_over"]) == (1, 1, 3)
    assert "; 3 left over\n" in result.stdout
    assert "1 rows, 3 more left over" in page.read_text(encoding="utf-8")
    assert "lines that are left out: 1" in result.stderr
    assert "2 have no result: invalid: reference: is missing" in result.stderr


def test_a_run_without_scores_is_reported_too(service: FakeService, tmp_path: Path) -> None:
    rows, report = written(tmp_path, {**ROW, "reference": None}), tmp_path / "report.json"
    assert invoke("rescore", rows, "--with", service.url, "--report", report).exit_code == 1
    content = json.loads(report.read_text(encoding="utf-8"))
    assert (content["n"], content["left_over"]) == (0, 1)
