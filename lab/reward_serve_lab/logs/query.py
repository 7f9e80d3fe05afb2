"""Queries of the verdict table: a page of rows, and the charts' data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from reward_serve_lab.logs.table import VerdictTable

PAGE_ROWS = 50
BINS = 20
COLUMNS = 48
MAX_POINTS = 1500
MAX_CHARTED = 200_000
"""Maximum number of verdicts in the charts, newest first."""

MAX_CHOICES = 100
"""Maximum number of values that a filter lists."""

FILTERED = ("status", "source", "rule", "template", "run", "model")


@dataclass(frozen=True)
class Filters:
    """Which verdicts to list; empty values match all, including those without a score.

    Attributes:
        lowest: minimum score.
        highest: maximum score.
        since: earliest time, in seconds since the epoch.
        step: the trainer's step.
        text: text in the response's tail or the reference, ignoring case.
        ids: only these verdicts.
    """

    status: str = ""
    source: str = ""
    rule: str = ""
    template: str = ""
    run: str = ""
    model: str = ""
    step: float | None = None
    lowest: float | None = None
    highest: float | None = None
    since: float | None = None
    text: str = ""
    ids: tuple[int, ...] = ()


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
    run: str | None
    step: float | None
    characters: int
    response: str
    reference: str


_LISTED = ", ".join(column.name for column in fields(Verdict))


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


def ask(table: VerdictTable, filters: Filters, page: int) -> Answer:
    """Query a page of verdicts and the charts' data.

    Args:
        table: the verdicts.
        filters: which verdicts.
        page: 0-based number of a page of ``PAGE_ROWS`` rows.

    Raises:
        duckdb.Error: the table cannot be read.
    """
    where, values = _where(filters)
    answer = Answer()
    ((answer.total,),) = table.rows(f"SELECT count(*) FROM verdicts{where}", values)
    newest = f"FROM verdicts{where} ORDER BY time DESC, id DESC LIMIT"
    rows = table.rows(f"SELECT {_LISTED} {newest} {PAGE_ROWS} OFFSET {page * PAGE_ROWS}", values)
    answer.rows = [Verdict(*row) for row in rows]
    _add_counts(table, f"(SELECT time, status, score {newest} {MAX_CHARTED})", values, answer)
    points = f"(SELECT source, characters, score {newest} {MAX_POINTS})"
    for source, characters, score in table.rows(
        f"SELECT * FROM {points} WHERE score IS NOT NULL", values
    ):
        answer.points.setdefault(source or "judge", []).append((characters, score))
    return answer


def choices(table: VerdictTable) -> dict[str, list[str]]:
    """The values of each filter, up to ``MAX_CHOICES``, in order."""
    wanted = ", ".join(f"list(DISTINCT {name}) FILTER ({name} <> '')" for name in FILTERED)
    (columns,) = table.rows(f"SELECT {wanted} FROM verdicts")
    return {
        name: sorted(values or [])[:MAX_CHOICES]
        for name, values in zip(FILTERED, columns, strict=True)
    }


def rest_of(table: VerdictTable, verdict: int) -> dict[str, Any]:
    """All fields of a verdict but its response."""
    rows = table.rows("SELECT line FROM verdicts WHERE id = ?", [verdict])
    rest: dict[str, Any] = json.loads(rows[0][0]) if rows else {}
    rest.pop("response_tail", None)
    return rest


def _where(filters: Filters) -> tuple[str, list[Any]]:
    conditions = {
        **{f"{name} = ?": getattr(filters, name) or None for name in FILTERED},
        "step = ?": filters.step,
        "score >= ?": filters.lowest,
        "score <= ?": filters.highest,
        "time >= ?": filters.since,
        "list_contains(?, id)": list(filters.ids) or None,
    }
    known = {term: value for term, value in conditions.items() if value is not None}
    terms, values = [*known], [*known.values()]
    if filters.text:
        terms.append("(contains(lower(response), ?) OR contains(lower(reference), ?))")
        values += [filters.text.lower()] * 2
    return (" WHERE " + " AND ".join(terms) if terms else ""), values


def _add_counts(table: VerdictTable, newest: str, values: list[Any], answer: Answer) -> None:
    """Count scores and statuses of the newest verdicts."""
    ((low, high, answer.began, answer.ended),) = table.rows(
        "SELECT coalesce(min(score), 0), coalesce(max(score), 1), coalesce(min(time), 0), "
        f"coalesce(max(time), 0) FROM {newest}",
        values,
    )
    answer.low, answer.high = min(0.0, low), max(1.0, high)
    answer.statuses = [{} for _ in range(COLUMNS)]
    scores, times = answer.high - answer.low, (answer.ended - answer.began) or 1.0
    for column, status, score_bin, count in table.rows(
        f"SELECT least({COLUMNS - 1}, CAST(floor((time - ?) * {COLUMNS} / ?) AS INTEGER)), status, "
        f"if(score IS NULL, NULL, least({BINS - 1}, CAST(floor((score - ?) * {BINS} / ?) AS "
        "INTEGER))), count(*) "
        f"FROM {newest} GROUP BY ALL",
        [answer.began, times, answer.low, scores, *values],
    ):
        counts = answer.statuses[column]
        counts[status] = counts.get(status, 0) + count
        if score_bin is not None:
            answer.scores[score_bin] += count
