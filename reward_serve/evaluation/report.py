"""What one run came to, as JSON data."""

from __future__ import annotations

from typing import Any

from reward_serve.evaluation.bulk import Row, Run
from reward_serve.evaluation.metrics import BINS, measure, probability_right, says_right
from reward_serve.evaluation.splits import by_format, by_length, stages
from reward_serve.evaluation.stability import fingerprints
from reward_serve.schema import ScoreResult


def report_of(run: Run, template: str | None, mode: str | None) -> dict[str, Any]:
    """Metrics over all rows and by group; template and mode as asked, null for the deployment's.

    ``n`` counts all rows of a run and, within a group, its labelled ones.
    """
    judged = list(zip(run.rows, run.results, strict=True))
    metrics = measure(judged)
    return {
        **metrics,
        **run.summary(),
        "labelled": metrics["n"],
        "ece_bins": BINS,
        "template": template,
        "mode": mode,
        "fingerprints": fingerprints(run.results),
        "reasons": _reasons(run),
        "by_format": by_format(judged),
        "by_length": by_length(judged),
        "stages": stages(judged),
    }


def disagreements(run: Run) -> list[tuple[Row, ScoreResult]]:
    """The labelled rows whose verdict differs: the surest first, those without a score last."""
    differing = [
        (row, result)
        for row, result in zip(run.rows, run.results, strict=True)
        if row.correct is not None and says_right(result) is not row.correct
    ]

    def unsureness(judged: tuple[Row, ScoreResult]) -> float:
        chance = probability_right(judged[1])
        return 2.0 if chance is None else 1 - abs(chance - bool(judged[0].correct))

    return sorted(differing, key=unsureness)


def _reasons(run: Run) -> dict[str, str]:
    """The first reason given for each status."""
    reasons: dict[str, str] = {}
    for result in run.results:
        if result.reason:
            reasons.setdefault(result.status.value, result.reason)
    return reasons
