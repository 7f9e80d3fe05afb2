"""Rows, results, files of lines, and a judge with given answers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from reward_serve.cli.main import cli
from reward_serve.schema import ScoreResult, Status, failure
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


def ruled(right: bool, rule: str = "marker_matches") -> ScoreResult:
    return ScoreResult(
        status=Status.OK, score=float(right), source="rule", details={"rule": rule}, latency_ms=1
    )


def failed() -> ScoreResult:
    return failure(Status.TIMEOUT, "timeout_s passed")


def row(line: int, correct: bool | None = True, response: str = "18", **fields: Any) -> Row:
    return Row(line, {"response": response, "reference": "18"}, correct, **fields)


def run_of(*pairs: tuple[bool | None, ScoreResult]) -> Run:
    """Rows with such labels and results."""
    rows = [row(line, correct) for line, (correct, _) in enumerate(pairs, 1)]
    return Run(rows, [result for _, result in pairs], 2.0)


class FakeClient:
    """Answers each request as ``answer`` says, given the request and how many came with it."""

    def __init__(self, answer: Callable[[dict[str, Any], int], ScoreResult]) -> None:
        self.answer = answer
        self.asked: list[list[dict[str, Any]]] = []

    async def ascore_batch(self, requests: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        self.asked.append(list(requests))
        return [self.answer(request, len(requests)) for request in requests]


def written(folder: Path, *lines: str | bytes | dict[str, Any]) -> Path:
    """A file of these lines; an object is one of JSON."""
    texts = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
    path = folder / "lines.jsonl"
    path.write_bytes(
        b"".join(t + b"\n" if isinstance(t, bytes) else f"{t}\n".encode() for t in texts)
    )
    return path


def invoke(*arguments: object) -> Result:
    """``reward-serve`` with these arguments, in a wide console without colors."""
    runner = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"})
    return runner.invoke(cli, [*map(str, arguments)])


def reported(command: str, *arguments: object, folder: Path, code: int = 0) -> dict[str, Any]:
    """What a command writes to its ``--out``."""
    result = invoke(command, *arguments, "--out", folder / "report.json")
    assert result.exit_code == code, result.output
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report
