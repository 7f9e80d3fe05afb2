from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reward_serve.schema import ScoreResult
from reward_serve_lab.evaluation.bulk import Run, write_results
from reward_serve_lab.evaluation.json_lines import LinesError
from reward_serve_lab.evaluation.stability import (
    compared,
    fingerprints,
    flips,
    read_results,
)
from tests.unit.lab.evaluation.fakes import failed, judged, row, ruled, run_of


def differences(*runs: list[ScoreResult], margin: float = 0.02) -> dict[str, Any]:
    return flips([row(n) for n in range(1, len(runs[0]) + 1)], runs, margin)


def test_the_same_verdicts_do_not_flip() -> None:
    found = differences(*[[judged(0.9), ruled(False)]] * 3)
    assert (found["rows"], found["lost"], found["flips"]) == (2, 0, 0)
    assert (found["largest_difference"], found["flipped"], found["within_margin"]) == (0, [], [])


def test_a_label_that_changes_in_any_run_flips() -> None:
    found = differences([judged(0.9)], [judged(0.9)], [judged(0.4)])
    assert (found["flips"], found["flips_within_margin"]) == (1, 0)
    assert found["flipped"] == [
        {"row": "line 1", "flipped": True, "probabilities": [0.9, 0.9, 0.4]}
    ]
    assert found["largest_difference"] == pytest.approx(0.5)


def test_a_probability_may_move_without_a_flip() -> None:
    found = differences([judged(0.9)], [judged(0.7)])
    assert found["flips"] == 0
    assert found["largest_difference"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("before", "now", "counted"),
    [
        pytest.param(0.49, 0.9, False, id="near at first"),
        pytest.param(0.9, 0.49, False, id="near later"),
        pytest.param(0.52, 0.1, False, id="on the margin above"),
        pytest.param(0.48, 0.9, False, id="on the margin below"),
        pytest.param(0.53, 0.47, True, id="outside"),
    ],
)
def test_a_row_within_the_margin_in_any_run_is_listed_and_never_counted_as_a_flip(
    before: float, now: float, counted: bool
) -> None:
    found = differences([judged(before)], [judged(now)])
    assert (found["flips"], len(found["flipped"])) == (counted, counted)
    assert (found["flips_within_margin"], len(found["within_margin"])) == (not counted,) * 2


def test_a_row_within_the_margin_that_stays_is_listed_too() -> None:
    found = differences([judged(0.51)], [judged(0.515)])
    assert (found["flips"], found["flips_within_margin"]) == (0, 0)
    (listed,) = found["within_margin"]
    assert listed == {"row": "line 1", "flipped": False, "probabilities": [0.51, 0.515]}


def test_without_a_margin_every_flip_counts() -> None:
    assert differences([judged(0.501)], [judged(0.499)], margin=0)["flips"] == 1


def test_a_row_without_a_score_in_some_run_only_is_lost() -> None:
    found = differences([judged(0.9), failed()], [failed(), failed()])
    assert (found["rows"], found["lost"], found["flips"]) == (0, 1, 0)


def test_a_lost_row_is_still_compared_between_the_runs_that_scored_it() -> None:
    found = differences([judged(0.9)], [failed()], [judged(0.1)])
    assert (found["rows"], found["lost"], found["flips"]) == (1, 1, 1)


def test_a_row_is_listed_by_its_id() -> None:
    found = flips([row(1, id="a")], [[judged(0.9)], [judged(0.1)]], 0)
    assert found["flipped"][0]["row"] == "a"


def written(folder: Path, run: Run) -> Path:
    path = folder / "results.jsonl"
    with path.open("w", encoding="utf-8") as file:
        write_results(run, file)
    return path


def test_written_results_are_read_back_and_compared(tmp_path: Path) -> None:
    before = run_of((True, judged(0.9, fingerprint="a")), (True, judged(0.2, fingerprint="a")))
    now = run_of((True, judged(0.9, fingerprint="a")), (True, judged(0.8, fingerprint="a")))
    found = compared(now, read_results(written(tmp_path, before)), 0.02)
    assert (found["rows"], found["flips"], found["unmatched"]) == (2, 1, 0)
    assert found["flipped"][0]["row"] == "line 2"
    assert (found["earlier_fingerprints"], found["same_fingerprints"]) == (["a"], True)


def test_another_fingerprint_is_reported(tmp_path: Path) -> None:
    before = run_of((True, judged(0.9, fingerprint="a")))
    now = run_of((True, judged(0.9, fingerprint="b")))
    assert compared(now, read_results(written(tmp_path, before)), 0)["same_fingerprints"] is False


@pytest.mark.parametrize(
    ("earlier_id", "now_id", "unmatched"),
    [("a", "a", 0), ("a", "b", 1), (None, "b", 0), ("a", None, 0)],
)
def test_a_row_is_matched_by_its_line_and_where_both_have_one_its_id(
    tmp_path: Path, earlier_id: str | None, now_id: str | None, unmatched: int
) -> None:
    before = Run([row(1, id=earlier_id)], [judged(0.9)])
    now = Run([row(1, id=now_id)], [judged(0.9)])
    found = compared(now, read_results(written(tmp_path, before)), 0)
    assert (found["unmatched"], found["rows"]) == (unmatched, 1 - unmatched)


def test_rows_of_another_sample_are_unmatched(tmp_path: Path) -> None:
    before = Run([row(1), row(3)], [judged(0.9)] * 2)
    now = Run([row(2), row(3)], [judged(0.9)] * 2)
    found = compared(now, read_results(written(tmp_path, before)), 0)
    assert (found["rows"], found["unmatched"]) == (1, 1)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("{", id="no json"),
        pytest.param("[]", id="no object"),
        pytest.param('{"status": "ok", "score": 1}', id="no line"),
        pytest.param('{"line": "x", "status": "ok", "score": 1}', id="no number"),
        pytest.param('{"line": 1, "status": "ok"}', id="no score"),
        pytest.param('{"line": 1, "response": "18"}', id="a row, not a result"),
        pytest.param("\xff", id="no unicode"),
    ],
)
def test_a_file_without_results_is_reported_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "results.jsonl"
    good = json.dumps({"line": 1, "correct": True, **judged(0.9).model_dump(mode="json")})
    path.write_bytes(f"{good}\n{line}\n".encode("latin-1"))
    with pytest.raises(LinesError, match=r"^line 2: "):
        read_results(path)


def test_fingerprints_are_reported_once_each() -> None:
    results = [judged(0.9, fingerprint=name) for name in ("b", "a", "b", None)]
    assert fingerprints(results) == ["a", "b"]
