"""Score a file of rows and summarise the results.

Rows are JSON lines with ``response``, ``reference``, ``question``, ``rubric`` and, if the row is
labelled, ``correct`` or ``criteria``; or with ``messages`` that contain the response, ``tools`` and
``turns``. An invalid row is reported with its line number and does not stop the others.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol, Self, TextIO

from pydantic import BaseModel, Field, StrictBool, ValidationError, model_validator
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.schema import ScoreRequest, ScoreResult, Status
from reward_serve_lab.evaluation.json_lines import json_lines

FORMATS = Path(__file__).with_name("formats.jsonl")
"""Labelled rows of answers in every shape, both right and wrong; none are of GSM8K."""

RIGHT = 0.5
"""A score of at least this counts as right."""

_SENT = {"response", "reference", "question", "messages", "tools", "turns", "rubric"}


Scored = Callable[[Sequence["Row"], Sequence[ScoreResult]], object]
"""Called with the rows of a call and their results."""


class Transport(Protocol):
    """What scores a batch: a transport, which asks once, or a client, which retries."""

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        """A result for each request, in order."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the file.

    Attributes:
        line: line number, starting at 1.
        request: the score request; None when the line is invalid.
        correct: the label, if the row has one.
        fault: why the line is invalid.
        id: the row's ``id``, if it has one.
        format: the row's ``format`` (how the answer is written), if it has one.
        criteria: criterion to the score that it should get; empty if the row has no such labels.
    """

    line: int
    request: dict[str, Any] | None = None
    correct: bool | None = None
    fault: str | None = None
    id: str | None = None
    format: str | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name shown in tables: the id, or else the line number."""
        return self.id or f"line {self.line}"

    @property
    def response(self) -> str:
        """The response, or the last assistant turn's text; empty if the row has neither."""
        return judged_text(self.request or {})


class _Line(BaseModel):
    """A line's labels, and its request, which the service validates."""

    response: Any = None
    reference: Any = None
    question: Any = None
    messages: Any = None
    tools: Any = None
    turns: Any = None
    rubric: Any = None
    correct: StrictBool | None = None
    criteria: dict[str, Annotated[float, Field(ge=-1e9, le=1e9)]] | None = None
    id: Any = None
    format: Any = None

    @model_validator(mode="after")
    def _has_a_response(self) -> Self:
        if not {"response", "messages"} & self.model_fields_set:
            raise ValueError("response: is missing; write it, or messages that contain it")
        return self

    def row(self, number: int) -> Row:
        sent = _SENT & self.model_fields_set
        return Row(
            number,
            {name: getattr(self, name) for name in sent},
            self.correct,
            id=_name(self.id),
            format=_name(self.format),
            criteria=self.criteria or {},
        )


def _name(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) else None


def judged_text(request: Mapping[str, Any]) -> str:
    """The response, or the text of the last assistant turn; empty if there is neither."""
    if isinstance(response := request.get("response"), str):
        return response
    try:
        return ScoreRequest(messages=request.get("messages")).judged
    except ValidationError:
        return ""


@dataclass(slots=True)
class Run:
    """Rows with their results, in file order, and the wall time in seconds."""

    rows: list[Row]
    results: list[ScoreResult] = field(default_factory=list)
    wall_s: float = 0.0

    def summary(self) -> dict[str, Any]:
        """Counts, agreement with the labels, throughput and latency, as JSON data.

        A row without a score counts as a disagreement, except in ``agreement_of_scored``. Latency
        is measured in the replica and includes queueing.
        """
        labelled = [
            (r, s) for r, s in zip(self.rows, self.results, strict=True) if r.correct is not None
        ]
        agreed = sum(s.score is not None and (s.score >= RIGHT) is r.correct for r, s in labelled)
        of = sum(result.score is not None for _, result in labelled)
        scored = [result for result in self.results if result.status is Status.OK]
        latencies = [result.latency_ms for result in scored]
        return {
            "n": len(self.rows),
            "agreement": agreed / len(labelled) if labelled else None,
            "agreement_of_scored": agreed / of if of else None,
            "statuses": dict(Counter(result.status.value for result in self.results)),
            "sources": dict(Counter(result.source for result in self.results if result.source)),
            "verdicts_per_s": len(scored) / self.wall_s if self.wall_s else None,
            "latency_ms": {"p50": percentile(latencies, 50), "p95": percentile(latencies, 95)},
        }


def read_rows(path: Path) -> list[Row]:
    """Read the file's rows, skipping blank lines.

    Raises:
        OSError: the file cannot be read.
    """
    return [
        Row(number, fault=line) if isinstance(line, str) else line.row(number)
        for number, line in json_lines(path, _Line)
    ]


async def score_rows(
    client: Transport,
    rows: Sequence[Row],
    *,
    settings: dict[str, Any],
    batch_size: int = 16,
    batches_in_flight: int = 8,
    scored: Scored = lambda rows, results: None,
) -> Run:
    """Score every valid row, in batches.

    Args:
        client: the service's client.
        rows: the rows to score.
        settings: fields added to every request, such as ``template``.
        batch_size: rows per call.
        batches_in_flight: concurrent calls.
        scored: called after each call with its rows and results.

    Raises:
        ServiceUnavailableError: the service cannot be reached.
        OSError: ``scored`` raised it.
    """
    results: dict[int, ScoreResult] = {}
    for row in rows:
        if row.request is None:
            reason = f"line {row.line}: {row.fault}"
            results[row.line] = ScoreResult(status=Status.INVALID, reason=reason)
    good = [row for row in rows if row.request is not None]
    slots = asyncio.Semaphore(batches_in_flight)

    async def ask(batch: Sequence[Row]) -> None:
        async with slots:
            requests = [{**(r.request or {}), **settings, "id": f"line {r.line}"} for r in batch]
            answers = await client.ascore_batch(requests)
        results.update(zip((row.line for row in batch), answers, strict=True))
        scored(batch, answers)

    began = time.monotonic()
    try:
        async with asyncio.TaskGroup() as tasks:
            for start in range(0, len(good), batch_size):
                tasks.create_task(ask(good[start : start + batch_size]))
    except ExceptionGroup as group:
        outage, _ = group.split((ServiceUnavailableError, OSError))
        if outage is None:
            raise
        raise outage.exceptions[0] from None
    return Run(list(rows), [results[row.line] for row in rows], time.monotonic() - began)


def score_with_progress(
    out: Console,
    client: Transport,
    rows: Sequence[Any],
    settings: dict[str, Any],
    *,
    title: str = "scoring",
    scored: Scored = lambda rows, results: None,
    **batching: int,
) -> Run:
    """Score rows as ``score_rows`` does, behind a progress bar.

    Raises:
        ServiceUnavailableError: the service cannot be reached.
    """
    with Progress(console=out) as progress:
        invalid = sum(row.request is None for row in rows)
        task = progress.add_task(escape(title), total=len(rows), completed=invalid)

        def ended(some: Sequence[Row], results: Sequence[ScoreResult]) -> None:
            scored(some, results)
            progress.advance(task, len(some))

        return asyncio.run(score_rows(client, rows, settings=settings, scored=ended, **batching))


def write_results(run: Run, file: TextIO) -> None:
    """Write one JSON line per row: line number, label and result, with the row's own ``id``."""
    for row, result in zip(run.rows, run.results, strict=True):
        line = {"line": row.line, "correct": row.correct, **result.model_dump(mode="json")}
        line["id"] = row.id
        file.write(json.dumps(line) + "\n")


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The value below which ``percent`` of the values lie; None without values."""
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
