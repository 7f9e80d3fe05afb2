from pathlib import Path
from typing import Any

import pytest

from reward_serve.schema import ScoreResult
from reward_serve_lab.evaluation.bulk import Run, write_results
from reward_serve_lab.evaluation.stability import compared, flips, read_results
from tests.unit.lab.fakes import failed, judged, row


def differences(*runs: list[ScoreResult]) -> dict[str, Any]:
    return flips([row(n, id=f"r{n}") for n in range(1, len(runs[0]) + 1)], runs)


@pytest.mark.parametrize(
    ("before", "now", "flip", "near"),
    [(0.49, 0.9, 0, 1), (0.9, 0.49, 0, 1), (0.48, 0.9, 0, 1), (0.53, 0.47, 1, 0)],
)
def test_a_row_within_the_margin_in_any_run_is_listed_and_never_counted_as_a_flip(
    before: float, now: float, flip: int, near: int
) -> None:
    comparison = differences([judged(before)], [judged(now)])
    assert (comparison["flips"], comparison["flips_within_margin"]) == (flip, near)
    assert (len(comparison["flipped"]), len(comparison["within_margin"])) == (flip, near)


def test_a_row_without_a_score_in_some_run_is_lost_and_compared_between_the_others() -> None:
    comparison = differences(
        [judged(0.9), judged(0.9), failed()],
        [failed(), failed(), failed()],
        [judged(0.1), failed(), failed()],
    )
    assert (comparison["rows"], comparison["lost"], comparison["flips"]) == (1, 2, 1)


def written(folder: Path, run: Run) -> Path:
    path = folder / "results.jsonl"
    with path.open("w", encoding="utf-8") as file:
        write_results(run, file)
    return path


@pytest.mark.parametrize(
    ("earlier", "now", "unmatched"),
    [((1, "a"), (1, "b"), 1), ((1, None), (1, "b"), 0), ((1, None), (2, None), 1)],
)
def test_a_row_is_matched_by_its_line_and_where_both_have_one_its_id(
    tmp_path: Path, earlier: tuple[int, str], now: tuple[int, str], unmatched: int
) -> None:
    before = Run([row(earlier[0], id=earlier[1])], [judged(0.9)])
    after = Run([row(now[0], id=now[1])], [judged(0.9)])
    comparison = compared(after, read_results(written(tmp_path, before)))
    assert (comparison["unmatched"], comparison["rows"]) == (unmatched, 1 - unmatched)
