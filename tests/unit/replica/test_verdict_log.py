from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reward_serve.config.models import VerdictLogConfig
from reward_serve.lines import LineFile
from reward_serve.replica import observers as verdict_log
from reward_serve.replica.observers import VerdictLog
from reward_serve.schema import ScoreResult, Status, failure
from tests.unit.replica.test_observers import took

RIGHT = ScoreResult(
    status=Status.OK,
    score=1.0,
    source="judge",
    label="1",
    probabilities={"0": 0.1, "1": 0.9},
    fingerprint="weights=w",
).model_dump(mode="json")


def written(folder: Path, asked: list[dict[str, Any]], **settings: Any) -> list[dict[str, Any]]:
    log = VerdictLog("judge", VerdictLogConfig(folder=str(folder), **settings))
    for request in asked:
        log.observe(request, RIGHT, took(0.5))
    log.close()
    lines = [line for path in folder.iterdir() for line in path.read_text("utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def test_a_line_holds_what_was_rewarded_and_why(tmp_path: Path) -> None:
    asked = {"response": "x" * 500 + " 18", "reference": "18", "group": "g"}
    (line,) = written(tmp_path / "new", [asked], rate=1.0, tail_characters=4)

    assert (line["response_tail"], line["response_characters"]) == ("x 18", 503)
    assert (line["reference"], line["group"]) == ("18", "g")
    assert (line["score"], line["source"], line["probabilities"]["1"]) == (1.0, "judge", 0.9)
    assert (line["fingerprint"], line["latency_s"]) == ("weights=w", 0.5)


def test_redacted_lines_hold_no_text(tmp_path: Path) -> None:
    asked = {"response": "secret 18", "reference": "18 secrets"}
    (line,) = written(tmp_path, [asked], rate=1.0, redact=True)

    assert "secret" not in json.dumps(line)
    assert len(line["request"]) == 16


def test_a_sample_is_the_same_wherever_it_is_drawn(tmp_path: Path) -> None:
    asked = [{"response": str(n)} for n in range(1000)]
    first = written(tmp_path / "a", asked, rate=0.1)
    second = written(tmp_path / "b", asked, rate=0.1)

    assert 60 < len(first) < 140
    assert [line["request"] for line in first] == [line["request"] for line in second]


def test_files_do_not_grow_beyond_their_bound(tmp_path: Path) -> None:
    asked = [{"response": "y" * 300 + str(n)} for n in range(2000)]
    lines = written(tmp_path, asked, rate=1.0, max_mib=0.1)

    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 0.1 * 2**20
    assert lines[-1]["response_tail"] or lines
    assert 50 < len(lines) < 2000


def logged(folder: Path, request: object, result: ScoreResult, **settings: Any) -> dict[str, Any]:
    log = VerdictLog("judge", VerdictLogConfig(folder=str(folder), rate=1.0, **settings))
    log.observe(request, result.model_dump(mode="json"), took(0.1))
    log.close()
    (path,) = folder.iterdir()
    line: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return line


def test_a_line_names_the_model_and_the_trainers_step(tmp_path: Path) -> None:
    right = ScoreResult.model_validate({**RIGHT, "metadata": {"step": 12, "other": "x"}})
    line = logged(tmp_path, {"response": "18"}, right)

    assert (line["model"], line["step"]) == ("judge", 12)
    assert "other" not in line


@pytest.mark.parametrize("step", [None, [1], {"of": 2}])
def test_a_step_that_is_no_step_is_left_out(tmp_path: Path, step: Any) -> None:
    right = ScoreResult.model_validate({**RIGHT, "metadata": {"step": step}})
    assert logged(tmp_path, {"response": "18"}, right)["step"] is None


def test_a_request_without_a_verdict_has_its_status_and_why(tmp_path: Path) -> None:
    line = logged(tmp_path, {"response": "18"}, failure(Status.TIMEOUT, "late"))
    assert (line["status"], line["score"], line["reason"]) == ("timeout", None, "late")


def test_a_request_whose_caller_left_is_cancelled(tmp_path: Path) -> None:
    log = VerdictLog("judge", VerdictLogConfig(folder=str(tmp_path), rate=1.0))
    log.observe({"response": "18"}, RIGHT, took(0.1))
    log.cancelled({"response": "18", "id": "a", "metadata": {"step": 3}}, took(0.1))
    log.close()
    (path,) = tmp_path.iterdir()
    ended, left = map(json.loads, path.read_text("utf-8").splitlines())

    assert (left["status"], left["score"], left["id"], left["step"]) == ("cancelled", None, "a", 3)
    assert list(left) == list(ended)


@pytest.mark.parametrize(
    "request_",
    [
        None,
        {"response": 5, "reference": {1: {2}}, "group": [1], "metadata": {"step": float("nan")}},
        {"response": "\ud800", "reference": ["18", None], "metadata": 10**5000},
    ],
)
def test_a_request_at_fault_is_logged_without_what_cannot_be_written(
    tmp_path: Path, request_: object
) -> None:
    invalid = failure(Status.INVALID, "response: missing")
    line = logged(tmp_path, request_, invalid)

    assert line["status"] == "invalid"
    assert (line["reference"], line["group"], line["step"]) == (None, None, None)


def test_a_redacted_line_quotes_no_reason(tmp_path: Path) -> None:
    invalid = failure(Status.INVALID, "reference: 'secret' holds no answer")
    assert "secret" not in json.dumps(logged(tmp_path, {"response": "x"}, invalid, redact=True))


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    serve = logging.getLogger("ray.serve")  # which does not propagate once Ray is imported
    serve.addHandler(caplog.handler)
    yield caplog
    serve.removeHandler(caplog.handler)


def test_only_the_owner_can_read_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    written(folder, [{"response": str(n)} for n in range(2000)], rate=1.0, max_mib=0.5)

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert len(list(folder.iterdir())) == 2


def test_a_full_disk_is_one_warning(
    tmp_path: Path, said: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"verdicts-judge-{os.getpid()}.jsonl").symlink_to("/dev/full")
    log = VerdictLog("judge", VerdictLogConfig(folder=str(tmp_path), rate=1.0))
    for _ in range(100):
        log.observe({"response": "18"}, RIGHT, took(0.1))
    log.close()

    (warning,) = {record.getMessage() for record in said.records}
    assert "No space left on device" in warning
    assert "Traceback" not in capfd.readouterr().err


def test_lines_that_a_slow_disk_drops_are_counted_once_a_second(
    tmp_path: Path, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(LineFile, "append", lambda *_: go_on.wait())
    monkeypatch.setattr(verdict_log, "_QUEUED_LINES", 1)
    log = VerdictLog("judge", VerdictLogConfig(folder=str(tmp_path), rate=1.0))
    for _ in range(9):
        log.observe({"response": "18"}, RIGHT, took(0.1))
    log.flush()
    log.flush()
    go_on.set()
    log.close()

    (text,) = {record.getMessage() for record in said.records}
    assert text in {f"verdict log: {n} lines dropped, the disk is too slow" for n in (7, 8)}
