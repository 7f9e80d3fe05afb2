"""Compare verdicts on the same rows: between runs, batch sizes, restarts and replica counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reward_serve.schema import ScoreResult, probability_right
from reward_serve_lab.evaluation.bulk import RIGHT, Row, Run
from reward_serve_lab.evaluation.json_lines import all_valid, json_lines
from reward_serve_lab.evaluation.metrics import says_right


class EarlierResult(ScoreResult):
    """A line of ``write_results``: the result of a row, with the row's line, id and label."""

    line: int
    id: str | None = None
    correct: bool | None = None


MARGIN = 0.02
"""Margin of probability within which the contract allows another verdict."""

Earlier = dict[int, EarlierResult]
"""Results by line number."""


def flips(rows: Sequence[Row], runs: Sequence[Sequence[ScoreResult]]) -> dict[str, Any]:
    """Compare the verdicts on the same rows between runs, as JSON data.

    A row whose predicted probability is within ``MARGIN`` of 0.5 in any run is listed under
    ``within_margin`` and never among the ``flips``. A row with a score in some runs but not in all
    is counted as ``lost``; a row with fewer than two scores is not compared.
    """
    flipped, near, differences, lost = [], [], [0.0], 0
    compared = 0
    for row, results in zip(rows, zip(*runs, strict=True), strict=True):
        probabilities = [p for result in results if (p := probability_right(result)) is not None]
        lost += 0 < len(probabilities) < len(results)
        if len(probabilities) < 2:
            continue
        compared += 1
        differences.append(max(probabilities) - min(probabilities))
        entry = {
            "row": row.name,
            "flipped": {True, False} <= {says_right(result) for result in results},
            "probabilities": probabilities,
        }
        if any(RIGHT - MARGIN <= p <= RIGHT + MARGIN for p in probabilities):
            near.append(entry)
        elif entry["flipped"]:
            flipped.append(entry)
    return {
        "rows": compared,
        "lost": lost,
        "margin": MARGIN,
        "flips": len(flipped),
        "flips_within_margin": sum(bool(entry["flipped"]) for entry in near),
        "largest_difference": max(differences),
        "flipped": flipped,
        "within_margin": near,
    }


def read_results(path: Path) -> Earlier:
    """Read results written by ``write_results``.

    Raises:
        OSError: the file cannot be read.
        LinesError: a line is not a result.
    """
    return {result.line: result for result in all_valid(json_lines(path, EarlierResult))}


def earlier_result(row: Row, earlier: Earlier) -> ScoreResult | None:
    """The earlier result of a row: same line number and, if both rows have one, same id."""
    result = earlier.get(row.line)
    if result is None or None in (result.id, row.id) or result.id == row.id:
        return result
    return None


def compared(run: Run, earlier: Earlier) -> dict[str, Any]:
    """Compare a run with earlier results of the same rows, as JSON data."""
    matched = [
        (row, before, now)
        for row, now in zip(run.rows, run.results, strict=True)
        if (before := earlier_result(row, earlier)) is not None
    ]
    befores, nows = [before for _, before, _ in matched], [now for _, _, now in matched]
    return {
        **flips([row for row, _, _ in matched], [befores, nows]),
        "unmatched": len(run.rows) - len(matched),
        "earlier_fingerprints": fingerprints(befores),
        "same_fingerprints": fingerprints(befores) == fingerprints(nows),
    }


def fingerprints(results: Sequence[ScoreResult]) -> list[str]:
    """The distinct fingerprints of the results, sorted."""
    return sorted({result.fingerprint for result in results if result.fingerprint})


BATCH_SIZES = (1, 8, 64)
"""Batch sizes of ``--stability``, besides the first run's; batches of 1 are sent one at a time."""


_SPEED = ("agreement", "statuses", "verdicts_per_s")


def score_again(
    score: Callable[..., Run], first: Run, title: str, **batching: int
) -> dict[str, Any]:
    """Score the rows of a run again, with the same and with other batch sizes, and compare.

    Args:
        score: ``score_with_progress`` with the arguments of the first run.
        first: the first run.
        title: the first run's title.
        batching: the first run's ``batch_size`` and ``batches_in_flight``.
    """
    batchings = [batching]
    batchings += [
        {"batch_size": n, "batches_in_flight": 1 if n == 1 else batching["batches_in_flight"]}
        for n in BATCH_SIZES
    ]
    runs = [score(title=f"{title}: batches of {of['batch_size']}", **of) for of in batchings]
    return {
        **flips(first.rows, [first.results, *(run.results for run in runs)]),
        "settings": [
            {**of, **{name: run.summary()[name] for name in _SPEED}}
            for of, run in zip([batching, *batchings], [first, *runs], strict=True)
        ],
    }
