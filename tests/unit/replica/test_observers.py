from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from reward_serve.replica.observers import FailureLog, Times
from reward_serve.schema import ScoreResult, Status, failure


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(logging.getLogger("ray.serve"), "propagate", True)
    caplog.set_level(logging.WARNING, "ray.serve")
    return lambda: [record.getMessage() for record in caplog.records]


def took(seconds: float) -> Times:
    return Times(0.0, ended=seconds)


def failed(status: Status = Status.TIMEOUT, reason: str = "late") -> dict[str, Any]:
    return failure(status, reason, id="a").model_dump(mode="json")


def test_a_failure_is_a_line_with_its_context(lines: Any) -> None:
    log = FailureLog("judge")
    log.observe({"response": "18"}, failed(), Times(0.0, 0.25, 1.5))
    log.observe({}, ScoreResult(status=Status.OK, score=0.0).model_dump(mode="json"), took(1.0))

    (line,) = lines()
    logged = json.loads(line.removeprefix("no verdict: "))
    assert logged["request"]
    del logged["request"]
    assert logged == {
        "model": "judge",
        "id": "a",
        "status": "timeout",
        "reason": "late",
        "template": None,
        "latency_s": 1.5,
        "queue_s": 0.25,
    }


def test_what_a_caller_wrote_cannot_forge_a_line(lines: Any) -> None:
    FailureLog("judge").observe({}, failed(reason="x\n\x1b[31mno verdict: {}\u2028"), took(1.0))

    (line,) = lines()
    assert line.isascii()
    assert line.isprintable()


def test_a_flood_is_counted_and_logged_once_a_second(lines: Any) -> None:
    log = FailureLog("judge")
    for _ in range(500):
        log.observe({}, failed(Status.OVERLOADED), took(0.001))
    assert len(lines()) == 20
    log.flush()
    logged = json.loads(lines()[-1].partition(": ")[2])
    assert logged == {"model": "judge", "overloaded": 480}
    log.flush()
    log.observe({}, failed(), took(0.001))
    assert len(lines()) == 22
