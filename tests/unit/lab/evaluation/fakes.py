"""Rows, results and a judge with given answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reward_serve.schema import ScoreResult, Source, Status, Usage, failure
from reward_serve_lab.evaluation.bulk import Row, Run


def judged(p: float, **fields: Any) -> ScoreResult:
    """A label-mode verdict of a binary template whose label "1" has probability ``p``."""
    right = p > 0.5
    return ScoreResult(
        status=Status.OK,
        score=float(right),
        source="judge",
        label=str(int(right)),
        probabilities={"0": 1 - p, "1": p},
        **fields,
    )


def ruled(right: bool, rule: str = "marker_matches", source: Source = "rule") -> ScoreResult:
    return ScoreResult(
        status=Status.OK, score=float(right), source=source, details={"rule": rule}, latency_ms=1
    )


def failed() -> ScoreResult:
    return failure(Status.TIMEOUT, "timeout_s passed")


def row(line: int, correct: bool | None = True, response: str = "18", **fields: Any) -> Row:
    return Row(line, {"response": response, "reference": "18"}, correct, **fields)


def run_of(*pairs: tuple[bool | None, ScoreResult]) -> Run:
    """Rows with such labels and results."""
    rows = [row(line, correct) for line, (correct, _) in enumerate(pairs, 1)]
    return Run(rows, [result for _, result in pairs], 2.0)


def pairs_of(run: Run) -> list[tuple[Row, ScoreResult]]:
    return list(zip(run.rows, run.results, strict=True))


def tokens(count: int) -> Usage:
    return Usage(prompt_tokens=count)


class FakeClient:
    """Answers each request as ``answer`` says, given the request and how many came with it."""

    def __init__(self, answer: Callable[[dict[str, Any], int], ScoreResult]) -> None:
        self.answer = answer
        self.asked: list[list[dict[str, Any]]] = []

    async def ascore_batch(self, requests: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        self.asked.append(list(requests))
        return [self.answer(request, len(requests)) for request in requests]
