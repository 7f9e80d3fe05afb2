import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reward_serve.config.models import VerdictLogConfig
from reward_serve.replica.observers import CANCELLED, FailureLog, Times, VerdictLog
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure

LogLines = Callable[[], list[str]]

ASKED = {"response": "x" * 500 + " 18", "reference": "18 secrets", "group": "g"}
RIGHT = ScoreResult(
    status=Status.OK, score=1.0, source="judge", probabilities={"0": 0.1, "1": 0.9}
).model_dump(mode="json")
FAILED = failure(Status.TIMEOUT, "late", id="a").model_dump(mode="json")


@pytest.fixture
def log_lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> LogLines:
    monkeypatch.setattr(logging.getLogger("ray.serve"), "propagate", True)
    caplog.set_level(logging.WARNING, "ray.serve")
    return lambda: [record.getMessage() for record in caplog.records]


def request(**fields: Any) -> ScoreRequest:
    return ScoreRequest.model_validate({"response": "18", **fields})


def test_a_failure_is_a_line_with_its_context(log_lines: LogLines) -> None:
    log = FailureLog("judge")
    log.observe(request(), FAILED, Times(0.0, 0.25, 1.5))
    log.observe(request(), RIGHT, Times(0.0))
    log.observe(request(), {**FAILED, "status": CANCELLED}, Times(0.0))

    (line,) = log_lines()
    logged = json.loads(line.removeprefix("no verdict: "))
    assert len(logged.pop("request")) == 16
    assert logged == {
        "model": "judge",
        "id": "a",
        "status": "timeout",
        "reason": "late",
        "template": None,
        "latency_s": 1.5,
        "queue_s": 0.25,
    }


def test_what_a_caller_wrote_cannot_forge_a_line(log_lines: LogLines) -> None:
    forged = {**FAILED, "reason": "x\n\x1b[31mno verdict: {}\u2028"}
    FailureLog("judge").observe(None, forged, Times(0.0))

    (line,) = log_lines()
    assert line.isascii()
    assert line.isprintable()


def test_a_flood_is_counted_and_logged_once_a_second(log_lines: LogLines) -> None:
    log = FailureLog("judge")
    for _ in range(500):
        log.observe(None, FAILED, Times(0.0))
    assert len(log_lines()) == 20
    log.flush()
    assert json.loads(log_lines()[-1].partition(": ")[2]) == {"model": "judge", "timeout": 480}
    log.flush()
    log.observe(None, FAILED, Times(0.0))
    assert len(log_lines()) == 22


def written(folder: Path, *asked: Any, **settings: Any) -> list[dict[str, Any]]:
    """The lines of a log of these requests and results."""
    config = VerdictLogConfig.model_validate({"folder": str(folder), "rate": 1.0, **settings})
    log = VerdictLog("judge", config)
    for body, result in asked:
        log.observe(body, result, Times(0.0, ended=0.5))
    log.close()
    files = sorted(folder.iterdir(), reverse=True)  # the older one first
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def test_a_line_holds_what_was_rewarded_and_why(tmp_path: Path) -> None:
    keys = {"run": "a", "step": 12, "sample": "7-3"}
    step = request(**ASKED, question="How many?", metadata={**keys, "other": "x"})
    cancelled = {**FAILED, "status": CANCELLED}
    asked = [(step, RIGHT), (request(metadata={"step": [1]}), FAILED), (None, FAILED)]
    right, late, left = written(tmp_path / "new", *asked, (request(), cancelled), tail_characters=4)

    assert (right["response_tail"], right["response_characters"]) == ("x 18", 503)
    assert (right["reference"], right["group"]) == ("18 secrets", "g")
    assert {name: right[name] for name in keys} == keys
    assert right["question"] is None  # longer than the four characters to show
    assert (right["model"], right["score"], right["probabilities"]["1"]) == ("judge", 1.0, 0.9)
    assert right["latency_s"] == 0.5 and "other" not in right
    assert (late["status"], late["score"], late["reason"]) == ("timeout", None, "late")
    assert (left["status"], left["score"], left["id"]) == ("cancelled", None, "a")
    assert late["step"] is None and late["run"] is None
    assert right.keys() == late.keys() == left.keys()


def test_an_audit_is_a_line_with_both_scores_and_no_text(tmp_path: Path) -> None:
    log = VerdictLog("judge", VerdictLogConfig(folder=str(tmp_path), rate=1.0))
    asked = request(**ASKED, question="How many?", metadata={"step": 12})
    log.observe(asked, RIGHT, Times(0.0, ended=0.5))
    log.audited(asked, "rule", 1.0, 0.25)
    log.close()
    (path,) = tmp_path.iterdir()
    verdict, audit = map(json.loads, path.read_text("utf-8").splitlines())
    assert (verdict["question"], verdict["request"]) == ("How many?", audit["request"])
    assert (audit["status"], audit["by_rules"], audit["by_model"]) == ("audit", 1.0, 0.25)
    assert (audit["step"], audit["group"], audit["source"]) == (12, "g", "rule")
    assert not {"response_tail", "reference", "question"} & audit.keys()


WROTE = {**RIGHT, "reason": "secret", "text": "a secret", "critique": "secrets"}


def test_the_judges_text_is_in_lines_with_texts_alone(log_lines: LogLines, tmp_path: Path) -> None:
    asked = [(request(), WROTE), (request(), RIGHT)]
    wrote, right = written(tmp_path / "texts", *asked)
    texts = ("reason", "text", "critique")
    assert [wrote[name] for name in texts] == ["secret", "a secret", "secrets"]
    assert [right[name] for name in texts] == [None] * 3
    lines = written(tmp_path / "none", *asked, redact=True)
    assert "secret" not in json.dumps(lines)
    failed = {**FAILED, "status": Status.UNPARSEABLE, "text": "a secret", "critique": "secrets"}
    FailureLog("judge").observe(request(), failed, Times(0.0))
    assert "secret" not in "".join(log_lines())


def test_redacted_lines_hold_no_text(tmp_path: Path) -> None:
    quoting = failure(Status.INVALID, "reference: 'secrets' holds no answer").model_dump(
        mode="json"
    )
    quoted = {**RIGHT, "details": {"rule": "final_answer", "answer": "18 secrets"}}
    asked = [(request(**ASKED), result) for result in (quoting, quoted)]
    lines = written(tmp_path, *asked, redact=True)
    assert [line["details"]["rule"] for line in lines] == [None, "final_answer"]
    assert "secret" not in json.dumps(lines) and "xx" not in json.dumps(lines)


def test_files_do_not_grow_beyond_their_bound_and_only_the_owner_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    asked = [(request(response="y" * 300 + str(n)), RIGHT) for n in range(500)]
    assert len(written(tmp_path / "sampled", *asked, rate=0.1)) < 100
    lines = written(folder, *asked, max_mib=0.1)

    assert sum(path.stat().st_size for path in folder.iterdir()) <= 0.1 * 2**20
    assert 50 < len(lines) < 500
    assert lines[-1]["response_tail"].endswith("y499")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600, 0o600]
