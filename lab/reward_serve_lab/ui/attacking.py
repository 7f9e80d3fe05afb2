"""Send the attack suite's variants of a request and show which ones the service accepts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui.element import Element

from reward_serve.schema import ScoreResult
from reward_serve_lab.attacks.family import Attack
from reward_serve_lab.attacks.suite import variants
from reward_serve_lab.evaluation.bulk import RIGHT
from reward_serve_lab.ui import charts
from reward_serve_lab.ui.elements import Tone, heading, message, tag
from reward_serve_lab.ui.service import Service, TroubleError
from reward_serve_lab.ui.table import Cell, Column, Rows, TableRow, status_cell
from reward_serve_lab.ui.text import Piece, one_line

_PER_FAMILY = 3
_REASONS = 5
_COLUMNS = [
    Column("score", "number"),
    Column("status"),
    Column("family", "nowrap"),
    Column("decided by", "nowrap"),
    Column("attack", "text grow"),
]


async def attack_section(
    service: Service, base: Mapping[str, Any], container: Element, on_open: Callable[[Attack], None]
) -> None:
    """Send the attack variants of a request and show their results.

    Args:
        service: the service to attack.
        base: the request without its response.
        container: the element that shows the results.
        on_open: called with an attack when its row is opened.
    """
    attacks = await asyncio.to_thread(
        variants, base.get("question"), base["reference"], per_family=_PER_FAMILY
    )
    try:
        results = await service.score([_request(base, attack) for attack in attacks])
    except TroubleError as trouble:
        results = None
        failure = trouble
    if container.is_deleted:
        return
    container.clear()
    with container:
        if results is None:
            message(failure.what, "bad", failure.remedy)
        else:
            _show(attacks, results, on_open)


def _request(base: Mapping[str, Any], attack: Attack) -> dict[str, Any]:
    if attack.messages:
        return {**base, "response": None, "question": None, **attack.request}
    return {**base, "response": attack.response}


def outcome(results: Sequence[ScoreResult]) -> tuple[str, Tone]:
    """A summary in one sentence, and its tone: ``ok`` only if every attack was scored."""
    scores = [result.score for result in results if result.score is not None]
    accepted = sum(score >= RIGHT for score in scores)
    attacks = f"{len(results)} wrong responses"
    if not scores:
        return f"{attacks}: none was scored.", "warn"
    if len(scores) < len(results):
        text = f"{attacks}, {len(scores)} scored: {accepted} earned a reward."
        return text, "bad" if accepted else "warn"
    return f"{attacks}: {accepted} earned a reward.", "bad" if accepted else "ok"


def unscored(results: Sequence[ScoreResult]) -> list[str]:
    """The number of attacks without a score by status and reason, most frequent first."""
    why = Counter((r.status.value, r.reason) for r in results if r.score is None)
    return [
        f"{count} {status}: {reason or 'no reason given'}"
        for (status, reason), count in why.most_common(_REASONS)
    ]


def _show(
    attacks: Sequence[Attack], results: Sequence[ScoreResult], on_open: Callable[[Attack], None]
) -> None:
    rows = sorted(
        zip(attacks, results, strict=True),
        key=lambda row: -1.0 if row[1].score is None else row[1].score,
        reverse=True,
    )
    with tag("section", "card"):
        heading("Attacks on this reference", 2, "flush")
        message(*outcome(results))
        for text in unscored(results):
            message(text, "warn")
    with tag("div", "table-box"):
        Rows(
            _COLUMNS,
            [_row(attack, result) for attack, result in rows],
            lambda index: on_open(rows[index][0]),
            "Attacks, highest score first",
        )


def _row(attack: Attack, result: ScoreResult) -> TableRow:
    # Inverted: an attack with a high score is bad.
    tone = charts.score_tone(result.score)
    tone = {"high": "low", "low": "high"}.get(tone, tone)
    text = "none" if result.score is None else f"{result.score:g}"
    rule = (result.details or {}).get("rule")
    decided = " · ".join(str(part) for part in (result.source or "none", rule) if part)
    return TableRow(
        [
            Cell([Piece(text, f"score {tone}")]),
            status_cell(result.status.value, result.reason),
            Cell([Piece(attack.family.replace("_", " "))]),
            Cell(one_line(decided, 40)),
            Cell(one_line(attack.text, 140) or [Piece("(empty)", "muted")]),
        ],
        label=f"{attack.family}, score {text}; opens in Ask",
    )
