"""Compare verdicts on the same rows: between runs, batch sizes, restarts and replica counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reward_serve.schema import ScoreResult, describe_errors, probability_right
from reward_serve_lab.evaluation.bulk import RIGHT, Row, Run
from reward_serve_lab.evaluation.metrics import says_right

Earlier = dict[int, tuple[str | None, ScoreResult]]
"""Line number to the row's id and its result."""


class ResultsError(ValueError):
    """A file of earlier results cannot be used; the message says why."""


def flips(
    rows: Sequence[Row], runs: Sequence[Sequence[ScoreResult]], margin: float
) -> dict[str, Any]:
    """Compare the verdicts on the same rows between runs, as JSON data.

    A row whose predicted probability is within ``margin`` of 0.5 in any run is listed under
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
        if any(RIGHT - margin <= p <= RIGHT + margin for p in probabilities):
            near.append(entry)
        elif entry["flipped"]:
            flipped.append(entry)
    return {
        "rows": compared,
        "lost": lost,
        "margin": margin,
        "flips": len(flipped),
        "flips_within_margin": sum(bool(entry["flipped"]) for entry in near),
        "largest_difference": max(differences),
        "flipped": flipped,
        "within_margin": near,
    }


def read_results(path: Path) -> Earlier:
    """Read results written by ``write_results``.

    Raises:
        ResultsError: the file cannot be read, or a line is not a result.
    """
    found: Earlier = {}
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            place, name = data.pop("line"), data.pop("id", None)
            data.pop("correct", None)
            found[int(place)] = (name, ScoreResult.model_validate(data))
        except ValidationError as error:
            raise ResultsError(f"{path}: line {number}: {describe_errors(error)}") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ResultsError(
                f"{path}: line {number}: is not a result as written by --results"
            ) from None
    return found


def earlier_result(row: Row, earlier: Earlier) -> ScoreResult | None:
    """The earlier result of a row: same line number and, if both rows have one, same id."""
    name, result = earlier.get(row.line, (None, None))
    return result if name is None or row.id is None or name == row.id else None


def compared(run: Run, earlier: Earlier, margin: float) -> dict[str, Any]:
    """Compare a run with earlier results of the same rows, as JSON data."""
    matched = [
        (row, before, now)
        for row, now in zip(run.rows, run.results, strict=True)
        if (before := earlier_result(row, earlier)) is not None
    ]
    befores, nows = [before for _, before, _ in matched], [now for _, _, now in matched]
    return {
        **flips([row for row, _, _ in matched], [befores, nows], margin),
        "unmatched": len(run.rows) - len(matched),
        "earlier_fingerprints": fingerprints(befores),
        "same_fingerprints": fingerprints(befores) == fingerprints(nows),
    }


def fingerprints(results: Sequence[ScoreResult]) -> list[str]:
    """The distinct fingerprints of the results, sorted."""
    return sorted({result.fingerprint for result in results if result.fingerprint})
