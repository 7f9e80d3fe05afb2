"""Samples and results for the load tests' own tests."""

from __future__ import annotations

from typing import Any

from loadtests.load.corpus import Sample
from reward_serve.schema import ScoreResult
from reward_serve_lab.evaluation.bulk import Row


def row(line: int, response: str = "#### 18", question: str = "?", correct: bool = True) -> Row:
    return Row(line, {"response": response, "reference": "18", "question": question}, correct)


def sample(number: int = 1, correct: bool | None = True) -> Sample:
    body = {"response": f"{number}: 18", "id": f"id-{number}", "metadata": {"sample": number}}
    return Sample(number, body, correct)


def reply(asked: Sample, **changed: Any) -> dict[str, Any]:
    fields = {"status": "ok", "score": 1.0, "source": "judge", "model": "judge", **changed}
    echoed = {"id": asked.body["id"], "metadata": asked.body["metadata"]}
    blank = ScoreResult.model_validate({"status": "error"}).model_dump(mode="json")
    return blank | echoed | fields
