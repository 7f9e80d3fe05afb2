"""The report on one run, as JSON data: in all, and by format, length, stage and criterion."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from reward_serve.schema import Component, ScoreResult, Status, probability_right
from reward_serve_lab.evaluation.bulk import Row, Run
from reward_serve_lab.evaluation.metrics import BINS, Judged, coverage, measure, says_right, wilson
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
        "coverage": coverage(judged),
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
    """The first reason of each failed status."""
    reasons: dict[str, str] = {}
    for result in run.results:
        if result.reason and result.status is not Status.OK:
            reasons.setdefault(result.status.value, result.reason)
    return reasons


LENGTHS = (100, 400, 1600)
"""Upper bounds of the length groups, in characters; the last group has none."""

_FORMATS = (
    ("hash", re.compile(r"(?<!#)####(?!#)")),
    ("boxed", re.compile(r"\\boxed\b")),
    ("A: n", re.compile(r"^[ \t]*A:", re.MULTILINE)),
    ("the answer is", re.compile(r"\banswer\b\W{0,3}(?:is\b|[:=])", re.IGNORECASE)),
    ("bare number", re.compile(r"\A[\s$*+-]*\d[\d.,/%\s$*]*\Z")),
    ("empty", re.compile(r"\A\s*\Z")),
)


def format_of(row: Row) -> str:
    """The row's ``format``, or else the first known format found in its response."""
    if row.format is not None:
        return row.format
    return next((name for name, pattern in _FORMATS if pattern.search(row.response)), "prose")


def length_of(row: Row) -> str:
    """The response's length group, in characters."""
    length = len(row.response)
    for low, high in zip((0, *(bound + 1 for bound in LENGTHS)), LENGTHS, strict=False):
        if length <= high:
            return f"{low} to {high}"
    return f"over {LENGTHS[-1]}"


def stage_of(result: ScoreResult) -> str:
    """The deciding stage: ``judge``, or the name of a rule; ``unscored`` without a score."""
    if result.score is None:
        return "unscored"
    if result.source == "rule":
        return f"rule: {(result.details or {}).get('rule', 'unnamed')}"
    return result.source or "unnamed"


def by_format(judged: Judged) -> dict[str, Any]:
    """Metrics of each format, most frequent first."""
    groups = _groups(judged, lambda row, _: format_of(row))
    return {name: measure(group) for name, group in groups.items()}


def by_length(judged: Judged) -> dict[str, Any]:
    """Metrics of each length group, shortest first."""
    groups = _groups(judged, lambda row, _: length_of(row))
    ordered = sorted(groups.items(), key=lambda item: len(item[1][0][0].response))
    return {name: measure(group) for name, group in ordered}


def stages(judged: Judged) -> dict[str, Any]:
    """Metrics of each stage, with its share of the labelled rows and its mean cost per row."""
    groups = _groups(judged, lambda _, result: stage_of(result))
    total = sum(map(len, groups.values()))
    return {
        name: {
            "share": len(group) / total,
            **measure(group),
            "mean_latency_ms": fmean(result.latency_ms for _, result in group),
            "mean_prompt_tokens": fmean(result.usage.prompt_tokens for _, result in group),
        }
        for name, group in groups.items()
    }


def by_criterion(judged: Judged) -> dict[str, Any]:
    """Metrics of each criterion that rows have labels for, by the scores of its component.

    With labels other than 0 and 1, a score agrees if no other label of the criterion is nearer, and
    there are no false accepts and rejects.
    """
    parts: dict[str, list[tuple[float, ScoreResult]]] = {}
    for row, result in judged:
        for name, label in row.criteria.items():
            part = (result.components or {}).get(name, Component(status=Status.ERROR))
            alone = ScoreResult.model_validate(part.model_dump())
            parts.setdefault(name, []).append((label, alone))
    return {name: _of_criterion(labelled) for name, labelled in parts.items()}


def _of_criterion(labelled: Sequence[tuple[float, ScoreResult]]) -> dict[str, Any]:
    labels = {label for label, _ in labelled}
    if labels <= {0.0, 1.0}:
        return measure([(Row(0, correct=label == 1), result) for label, result in labelled])
    scored = [(label, result.score) for label, result in labelled if result.score is not None]
    agreed = sum(abs(s - label) <= min(abs(s - other) for other in labels) for label, s in scored)
    return {
        **measure([]),
        "n": len(labelled),
        "unscored": len(labelled) - len(scored),
        "agreement": agreed / len(labelled),
        "agreement_interval": wilson(agreed, len(labelled)),
    }


def _groups(
    judged: Judged, key: Callable[[Row, ScoreResult], str]
) -> dict[str, list[tuple[Row, ScoreResult]]]:
    """The labelled rows by key, largest group first."""
    groups: dict[str, list[tuple[Row, ScoreResult]]] = {}
    for row, result in judged:
        if row.correct is not None:
            groups.setdefault(key(row, result), []).append((row, result))
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))
