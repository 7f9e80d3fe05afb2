"""The report on one run, as JSON data."""

from __future__ import annotations

from typing import Any

from reward_serve.schema import ScoreResult, probability_right
from reward_serve_lab.evaluation.bulk import Row, Run
from reward_serve_lab.evaluation.metrics import BINS, measure, says_right
from reward_serve_lab.evaluation.splits import by_criterion, by_format, by_length, stages
from reward_serve_lab.evaluation.stability import fingerprints


def report_of(run: Run, template: str | None, mode: str | None) -> dict[str, Any]:
    """Metrics over all rows and by group.

    ``n`` is the number of rows of a run or, within a group, of labelled rows. ``template`` and
    ``mode`` are as requested; null means the deployment's default.
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
        "reasons": first_reasons(run),
        "by_format": by_format(judged),
        "by_length": by_length(judged),
        "stages": stages(judged),
        "by_criterion": by_criterion(judged),
    }


def disagreements(run: Run) -> list[tuple[Row, ScoreResult]]:
    """The labelled rows whose verdict differs: most confident first, unscored rows last."""
    differing = [
        (row, result)
        for row, result in zip(run.rows, run.results, strict=True)
        if row.correct is not None and says_right(result) is not row.correct
    ]

    def uncertainty(judged: tuple[Row, ScoreResult]) -> float:
        p = probability_right(judged[1])
        return 2.0 if p is None else 1 - abs(p - bool(judged[0].correct))

    return sorted(differing, key=uncertainty)


def first_reasons(run: Run) -> dict[str, str]:
    """The first reason of each status."""
    reasons: dict[str, str] = {}
    for result in run.results:
        if result.reason:
            reasons.setdefault(result.status.value, result.reason)
    return reasons
