from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType

from reward_serve_lab.evaluation.bulk import Run
from reward_serve_lab.evaluation.report import report_of
from reward_serve_lab.evaluation.stability import flips
from reward_serve_lab.evaluation.tables import (
    difference,
    disagreement_table,
    metrics_table,
)
from tests.unit.lab.evaluation.fakes import failed, judged, row, ruled, run_of

GOOD = run_of((True, judged(0.9)), (False, judged(0.1)), (False, ruled(False)))
BAD = run_of((True, judged(0.1)), (False, judged(0.9)), (False, failed()))


def shown(*things: RenderableType, width: int = 300) -> str:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True).print(*things)
    return out.getvalue()


def lines_with(text: str, *words: str) -> list[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


def report(run: Run, **fields: Any) -> dict[str, Any]:
    return {**report_of(run, None, None), **fields}


def test_runs_stand_side_by_side() -> None:
    text = shown(metrics_table({"solution, label": report(GOOD), "other": report(BAD)}))
    assert lines_with(text, "solution, label", "other")
    assert lines_with(text, "agreement", "100.0%", "0.0%")
    assert lines_with(text, "AUC", "1.000", "0.000")
    assert lines_with(text, "unscored", " 0 ", " 1 ")
    assert lines_with(text, "statuses", "ok 3", "ok 2, timeout 1")
    assert "15 equal-width bins" in text


def test_a_response_cannot_write_to_the_terminal() -> None:
    response = "x" * 100 + "[red]a[/red]\x1b[2J\n\u202ecba\ud800\x9b"
    run = Run([row(1, False, response, id="[bold]\x1b")], [judged(0.9)])
    text = shown(disagreement_table(run, 1))
    assert r"[red]a[/red]\x1b[2J\n\u202ecba\ud800\x9b" in text
    assert r"[bold]\x1b" in text
    assert "x" * 57 + "[" in text
    assert "x" * 58 not in text


def test_flips_are_listed_apart_from_rows_within_the_margin() -> None:
    rows = [row(1), row(2), row(3)]
    found = flips(
        rows,
        [[judged(0.9), judged(0.51), judged(0.8)], [judged(0.3), judged(0.49), judged(0.8)]],
        0.02,
    )
    text = shown(difference("stability", found))
    assert "stability: 1 flips in 3 rows" in text
    assert "1 rows within 0.02 of 0.5 (1 flip)" in text
    assert "0.6000" in text
    assert lines_with(text, "line 1", "flips ", "0.9000 0.3000")
    assert lines_with(text, "line 2", "flips within the margin", "0.5100 0.4900")
    assert not lines_with(text, "line 3")
