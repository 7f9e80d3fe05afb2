"""Tables of scored samples, one per group: scores, advantages, rule and judge outcomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

from nicegui.element import Element

from reward_serve.explanation import Explanation
from reward_serve.schema import ScoreResult
from reward_serve_lab.evaluation.bulk import judged_text
from reward_serve_lab.ui.charts import STATUS_TONES, score_tone
from reward_serve_lab.ui.elements import heading, pill, tag, untrusted
from reward_serve_lab.ui.explained import disagrees
from reward_serve_lab.ui.samples import advantages, groups_of
from reward_serve_lab.ui.table import Cell, Column, Rows, TableRow, score_cell, status_cell
from reward_serve_lab.ui.text import Piece, legible, one_line

_COLUMNS = [
    Column("#", "number"),
    Column("score", "number"),
    Column("advantage", "nowrap"),
    Column("status"),
    Column("decided by", "nowrap"),
    Column("rule", "nowrap"),
    Column("judge", "nowrap"),
    Column("end of the response", "text grow"),
]


@dataclass
class Scored:
    """Samples and their results so far.

    Attributes:
        requests: the samples.
        results: one per sample.
        explained: explanations by index of the sample.
        pending: indices of samples whose explanations are running.
    """

    requests: Sequence[Mapping[str, Any]]
    results: Sequence[ScoreResult]
    explained: dict[int, Explanation] = field(default_factory=dict)
    pending: Sequence[int] = ()

    def differing(self, indices: Collection[int]) -> int:
        """The number of these samples on which rules and model disagree."""
        return sum(i in self.explained and disagrees(self.explained[i]) for i in indices)


class GroupTables:
    """One table per group, below a summary of all.

    Args:
        scored: the samples.
        trainer: the trainer whose advantages are shown, a key of ``TRAINERS``.
        on_open: called with a sample's index when its row is opened.
    """

    def __init__(self, scored: Scored, trainer: str, on_open: Callable[[int], object]) -> None:
        self._scored = scored
        self._groups = list(groups_of(scored.requests).values())
        self._overview = tag("div", "pills group-summary")
        self._tables = [
            self._group(number, indices, on_open) for number, indices in enumerate(self._groups, 1)
        ]
        self.update(trainer)

    def update(self, trainer: str, changed: Collection[int] | None = None) -> None:
        """Update the tables, or only those with a changed sample."""
        if len(self._groups) > 1:
            self._overview.clear()
            with self._overview:
                self._show_overview()
        for indices, (summary, rows) in zip(self._groups, self._tables, strict=True):
            if changed is not None and not set(indices) & set(changed):
                continue
            scores = [self._scored.results[index].score for index in indices]
            summary.clear()
            with summary:
                _summary(scores, self._scored.differing(indices))
            computed = advantages(scores, trainer)
            rows.show([self._row(*row) for row in zip(indices, computed, strict=True)])

    def _show_overview(self) -> None:
        results = self._scored.results
        pill(f"{len(results):,} samples in {len(self._groups):,} groups")
        absent = sum(result.score is None for result in results)
        if absent:
            pill(f"{absent:,} without a score", "warn")
        flat = sum(_is_flat([results[i].score for i in indices]) for indices in self._groups)
        if flat:
            pill(f"no gradient from {flat:,} groups", "warn")
        differing = self._scored.differing(range(len(results)))
        if differing:
            pill(f"rule and judge disagree on {differing:,}", "bad")

    def _group(
        self, number: int, indices: list[int], on_open: Callable[[int], object]
    ) -> tuple[Element, Rows]:
        with tag("section", "group"):
            with tag("div", "card-head"):
                heading(f"Group {number}", 2)
                reference = self._scored.requests[indices[0]].get("reference")
                if isinstance(reference, str):
                    with tag("span", "muted small"):
                        tag("span", text="reference ")
                        untrusted(reference.rpartition("####")[2].strip()[:80], "mono")
            summary = tag("div", "pills group-summary")
            with tag("div", "table-box"):
                rows = Rows(_COLUMNS, (), lambda at: on_open(indices[at]), f"Group {number}")
        return summary, rows

    def _row(self, index: int, advantage: float | None) -> TableRow:
        result, explanation = self._scored.results[index], self._scored.explained.get(index)
        cell = "left out" if advantage is None else f"{advantage:+.3f}"
        score = "none" if result.score is None else f"{result.score:g}"
        placeholder = Piece("…", "muted") if index in self._scored.pending else Piece("–", "muted")
        return TableRow(
            [
                Cell([Piece(str(index + 1))]),
                score_cell(result.score),
                Cell([Piece(cell)], bar=None if advantage is None else advantage / 2),
                status_cell(result.status.value, result.reason),
                Cell(one_line(result.source or "none", 30)),
                Cell([placeholder if explanation is None else _rule_piece(explanation)]),
                Cell([placeholder if explanation is None else _judge_piece(explanation)]),
                Cell(one_line(judged_text(self._scored.requests[index]), 120)),
            ],
            "differs" if explanation is not None and disagrees(explanation) else "",
            f"sample {index + 1}, score {score}; opens in Ask",
        )


def _summary(scores: Sequence[float | None], differing: int) -> None:
    known = [score for score in scores if score is not None]
    pill(f"{len(scores):,} samples")
    if known:
        pill(f"mean {fmean(known):.3f}")
        pill(f"std {pstdev(known):.3f}")
    if len(known) < len(scores):
        pill(f"{len(scores) - len(known):,} without a score", "warn")
    if differing:
        pill(f"rule and judge disagree on {differing:,}", "bad")
    if _is_flat(scores):
        why = "all scores equal" if len(known) > 1 else "fewer than two scores"
        pill(f"{why}: no gradient from this group", "warn")


def _is_flat(scores: Sequence[float | None]) -> bool:
    return len({score for score in scores if score is not None}) < 2


def _rule_piece(explanation: Explanation) -> Piece:
    if explanation.rule is None:
        return Piece("–", "muted", "no rules")
    tone = {"right": "ok", "wrong": "bad"}.get(explanation.rule.outcome, "")
    return Piece(explanation.rule.outcome, f"pill {tone}", legible(explanation.rule.rule))


def _judge_piece(explanation: Explanation) -> Piece:
    """The model's score; without one, its status and reason."""
    model = explanation.model
    if model is None and explanation.result.score is not None:
        return Piece("–", "muted", "no model")
    verdict = model or explanation.result
    if verdict.score is None:
        tone = STATUS_TONES.get(verdict.status.value, "")
        return Piece(verdict.status.value, f"pill {tone}", legible(verdict.reason or ""))
    probability = (verdict.probabilities or {}).get(verdict.label or "")
    text = f"{verdict.score:g}" + ("" if probability is None else f" ({probability:.3f})")
    return Piece(text, f"score {score_tone(verdict.score)}")
