"""Measure how well verdicts agree with labels.

>>> expected_calibration_error([True, False], [1.0, 0.0])
0.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reward_serve.config.judge import MIN_LABEL_MASS
from reward_serve.schema import ScoreResult, probability_right
from reward_serve_lab.evaluation.bulk import RIGHT, Row

BINS = 15
"""Number of equal-width bins over the predicted probability that a response is right."""
THRESHOLDS = (*(n / 100 for n in range(100)), 0.995, 0.999)
"""Values of ``judge.min_probability`` on the curve of errors against coverage."""

Judged = Sequence[tuple[Row, ScoreResult]]


@dataclass(frozen=True, slots=True)
class Bin:
    """The rows whose predicted probability of being right falls in one bin.

    Attributes:
        n: number of rows.
        predicted: mean predicted probability.
        right: fraction of the rows that are right.
    """

    n: int
    predicted: float
    right: float


def says_right(result: ScoreResult) -> bool | None:
    """The verdict; None without a score."""
    return None if result.score is None else result.score >= RIGHT


def measure(judged: Judged) -> dict[str, Any]:
    """Agreement, confusion, AUC, kappa and ECE over the labelled rows, as JSON data.

    A row without a score counts as a disagreement and as ``unscored``; all other metrics leave it
    out.
    """
    labelled = [(row.correct, result) for row, result in judged if row.correct is not None]
    scored = [(truth, result) for truth, result in labelled if result.score is not None]
    truths = [truth for truth, _ in scored]
    verdicts = [bool(says_right(result)) for _, result in scored]
    predicted = [probability_right(result) or 0.0 for _, result in scored]
    confusion = confusion_counts(truths, verdicts)
    agreed = confusion["true_accept"] + confusion["true_reject"]
    accepted, rejected = confusion["false_accept"], confusion["false_reject"]
    return {
        "n": len(labelled),
        "unscored": len(labelled) - len(scored),
        **_rate("agreement", "agreement_interval", agreed, len(labelled)),
        "auc": auc(truths, predicted),
        "kappa": kappa(truths, verdicts),
        "ece": expected_calibration_error(truths, predicted),
        "confusion": confusion,
        **_rate("false_accept_rate", "false_accept_interval", accepted, len(truths) - sum(truths)),
        **_rate("false_reject_rate", "false_reject_interval", rejected, sum(truths)),
    }


def confusion_counts(truths: Sequence[bool], verdicts: Sequence[bool]) -> dict[str, int]:
    """Count the right and wrong responses that were accepted and rejected."""
    from sklearn.metrics import confusion_matrix  # type: ignore[import-untyped]

    keys = ("true_reject", "false_accept", "false_reject", "true_accept")
    if not truths:
        return dict.fromkeys(keys, 0)
    counts = confusion_matrix(truths, verdicts, labels=[False, True]).ravel()
    return {key: int(count) for key, count in zip(keys, counts, strict=True)}


def auc(truths: Sequence[bool], predicted: Sequence[float]) -> float | None:
    """Area under the ROC curve; None when all labels are the same."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truths, predicted)) if len(set(truths)) == 2 else None


def kappa(truths: Sequence[bool], verdicts: Sequence[bool]) -> float | None:
    """Cohen's kappa; None when all labels and verdicts are the same."""
    from sklearn.metrics import cohen_kappa_score

    if len({*truths, *verdicts}) < 2:
        return None
    return float(cohen_kappa_score(truths, verdicts))


def expected_calibration_error(truths: Sequence[bool], predicted: Sequence[float]) -> float | None:
    """The mean gap between predicted and observed accuracy over ``BINS`` bins, weighted by rows.

    None without rows, or when a score is not a probability.
    """
    bins = reliability(truths, predicted)
    return sum(b.n * abs(b.predicted - b.right) for b in bins) / len(truths) if bins else None


def reliability(truths: Sequence[bool], predicted: Sequence[float]) -> list[Bin]:
    """The non-empty bins, from 0 to 1; an empty list when a score is not a probability."""
    if not all(0 <= p <= 1 for p in predicted):
        return []
    members: dict[int, list[tuple[bool, float]]] = {}
    for truth, p in zip(truths, predicted, strict=True):
        members.setdefault(min(int(p * BINS), BINS - 1), []).append((truth, p))
    return [
        Bin(
            n=len(rows),
            predicted=sum(p for _, p in rows) / len(rows),
            right=sum(truth for truth, _ in rows) / len(rows),
        )
        for _, rows in sorted(members.items())
    ]


def reliability_of(judged: Judged) -> list[Bin]:
    """``reliability`` over the rows that have both a label and a score."""
    pairs = [
        (row.correct, p)
        for row, result in judged
        if row.correct is not None and (p := probability_right(result)) is not None
    ]
    return reliability([truth for truth, _ in pairs], [p for _, p in pairs])


def coverage(judged: Judged) -> list[dict[str, Any]]:
    """What each ``judge.min_probability`` would leave, of those that leave out further rows.

    The curve of selective classification (El-Yaniv and Wiener, 2010): coverage is the share of the
    labelled rows with a score. Results without labels, such as a rule's, always keep theirs. Rows
    that the deployed threshold left undecided count, by what their label says of others.
    """
    labelled = [(row.correct, result) for row, result in judged if row.correct is not None]
    right = {r.label: says_right(r) for _, r in labelled if r.probabilities and r.score in (0, 1)}
    verdicts = [right.get(r.label) if r.score is None else says_right(r) for _, r in labelled]
    scored = [
        (truth, verdict, _sureness(result))
        for (truth, result), verdict in zip(labelled, verdicts, strict=True)
        if verdict is not None
    ]
    points: list[dict[str, Any]] = []
    for least in THRESHOLDS:
        kept = [(truth, verdict) for truth, verdict, sure in scored if sure >= least]
        if kept and (not points or len(kept) < points[-1]["scored"]):
            point = {"min_probability": least, "scored": len(kept)}
            point |= {"coverage": len(kept) / len(labelled)}
            wrong = sum(truth is not verdict for truth, verdict in kept)
            point |= _rate("error_rate", "error_interval", wrong, len(kept))
            points.append(point | {"false_accepts": kept.count((False, True))})
    return points


def _sureness(result: ScoreResult) -> float:
    mass: Any = (result.details or {}).get("label_mass", 1.0)
    sure = max((result.probabilities or {"": 1.0}).values())
    return sure if mass >= MIN_LABEL_MASS else 0.0


def wilson(count: int, of: int) -> list[float] | None:
    """The 95% Wilson interval of a proportion; None when ``of`` is 0."""
    from scipy.stats import binomtest  # type: ignore[import-untyped]

    if not of:
        return None
    interval = binomtest(count, of).proportion_ci(confidence_level=0.95, method="wilson")
    return [float(interval.low), float(interval.high)]


def _rate(name: str, interval: str, count: int, of: int) -> dict[str, Any]:
    return {name: count / of if of else None, interval: wilson(count, of)}
