"""Queries of the verdict log's index: a page of rows, and the charts' data."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE_ROWS = 50
BINS = 20
COLUMNS = 48
MAX_POINTS = 1500
MAX_CHARTED = 200_000
"""Maximum number of verdicts in the charts, newest first."""

_LISTED = "v.id, v.time, v.status, v.source, v.rule, v.score, v.template, v.model, v.step, "
FILTERED = ("status", "source", "rule", "template")


@dataclass(frozen=True)
class Filters:
    """Which verdicts to list; empty values match all, including those without a score.

    Attributes:
        lowest: minimum score.
        highest: maximum score.
        since: earliest time, in seconds since the epoch.
        text: text in the response's tail or the reference, ignoring case.
    """

    status: str = ""
    source: str = ""
    rule: str = ""
    template: str = ""
    lowest: float | None = None
    highest: float | None = None
    since: float | None = None
    text: str = ""


@dataclass(frozen=True)
class Verdict:
    """A row of the log."""

    id: int
    time: float
    status: str
    source: str
    rule: str
    score: float | None
    template: str
    model: str
    step: float | None
    characters: int
    response: str
    reference: str


@dataclass
class Answer:
    """The result of a query.

    Attributes:
        total: number of verdicts that match the filters.
        rows: the page's verdicts, newest first.
        scores: counts in ``BINS`` equal bins from ``low`` to ``high``.
        points: response characters and score of the newest verdicts, by source.
        statuses: counts by status in ``COLUMNS`` equal spans from ``began`` to ``ended``.
    """

    total: int = 0
    rows: list[Verdict] = field(default_factory=list)
    scores: list[int] = field(default_factory=lambda: [0] * BINS)
    low: float = 0.0
    high: float = 1.0
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    statuses: list[dict[str, int]] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0


def ask(path: Path, filters: Filters, page: int) -> Answer:
    """Query a page of verdicts and the charts' data.

    Args:
        path: the index.
        filters: which verdicts.
        page: 0-based number of a page of ``PAGE_ROWS`` rows.
    """
    where, values = _where(filters)
    with closing(_connect(path)) as database:
        answer = Answer()
        (answer.total,) = database.execute(f"SELECT count(*) FROM {where}", values).fetchone()
        answer.rows = _rows(database, where, values, page)
        newest = (
            f"(SELECT v.time, v.status, v.score FROM {where} "
            f"ORDER BY v.time DESC, v.id DESC LIMIT {MAX_CHARTED})"
        )
        _add_counts(database, newest, values, answer)
        _add_points(database, where, values, answer)
    return answer


def rest_of(path: Path, verdict: int) -> dict[str, Any]:
    """All other fields of a verdict."""
    with closing(_connect(path)) as database:
        found = database.execute("SELECT rest FROM texts WHERE id = ?", (verdict,)).fetchone()
    rest: dict[str, Any] = json.loads(found[0]) if found else {}
    return rest


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


def _where(filters: Filters) -> tuple[str, list[Any]]:
    terms, values = [], []
    for name in FILTERED:
        if wanted := getattr(filters, name):
            terms.append(f"v.{name} = ?")
            values.append(wanted)
    for term, value in (
        ("v.score >= ?", filters.lowest),
        ("v.score <= ?", filters.highest),
        ("v.time >= ?", filters.since),
    ):
        if value is not None:
            terms.append(term)
            values.append(value)
    tables = "verdicts v"
    if filters.text:
        tables += " JOIN texts t ON t.id = v.id"
        terms.append("(t.response LIKE ? ESCAPE '\\' OR t.reference LIKE ? ESCAPE '\\')")
        escaped = filters.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        values += [f"%{escaped}%"] * 2
    return tables + (" WHERE " + " AND ".join(terms) if terms else ""), values


def _rows(database: sqlite3.Connection, where: str, values: list[Any], page: int) -> list[Verdict]:
    found = database.execute(
        f"SELECT {_LISTED} v.characters, x.response, x.reference FROM (SELECT v.id AS wanted "
        f"FROM {where} ORDER BY v.time DESC, v.id DESC LIMIT ? OFFSET ?) "
        "JOIN verdicts v ON v.id = wanted JOIN texts x ON x.id = wanted "
        "ORDER BY v.time DESC, v.id DESC",
        [*values, PAGE_ROWS, page * PAGE_ROWS],
    )
    return [Verdict(*row) for row in found]


def _add_counts(
    database: sqlite3.Connection, newest: str, values: list[Any], answer: Answer
) -> None:
    """Count scores and statuses of the newest verdicts."""
    low, high, answer.began, answer.ended = database.execute(
        "SELECT coalesce(min(score), 0), coalesce(max(score), 1), coalesce(min(time), 0), "
        f"coalesce(max(time), 0) FROM {newest}",
        values,
    ).fetchone()
    answer.low, answer.high = min(0.0, low), max(1.0, high)
    answer.statuses = [{} for _ in range(COLUMNS)]
    scores, times = answer.high - answer.low, (answer.ended - answer.began) or 1.0
    for column, status, score_bin, count in database.execute(
        f"SELECT min({COLUMNS - 1}, CAST((time - ?) * {COLUMNS} / ? AS INTEGER)), status, "
        f"min({BINS - 1}, CAST((score - ?) * {BINS} / ? AS INTEGER)), count(*) "
        f"FROM {newest} GROUP BY 1, 2, 3",
        [answer.began, times, answer.low, scores, *values],
    ):
        counts = answer.statuses[column]
        counts[status] = counts.get(status, 0) + count
        if score_bin is not None:
            answer.scores[score_bin] += count


def _add_points(
    database: sqlite3.Connection, where: str, values: list[Any], answer: Answer
) -> None:
    for source, characters, score in database.execute(
        f"SELECT source, characters, score FROM (SELECT v.source, v.characters, v.score FROM "
        f"{where} ORDER BY v.time DESC, v.id DESC LIMIT {MAX_POINTS}) WHERE score IS NOT NULL",
        values,
    ):
        answer.points.setdefault(source or "judge", []).append((characters, score))
