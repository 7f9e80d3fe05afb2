"""Locust itself, in a process of its own: it patches the sockets of whoever imports it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.fake_service import Call, FakeService, Reply

ROOT = Path(__file__).parents[2]
BURSTS = ("--prompts", "2", "--samples", "4", "--period", "1", "--rollout-seconds", "1")


class LyingOnce(FakeService):
    """Gives one answer of many the other score."""

    def __init__(self) -> None:
        super().__init__()
        self.once = threading.Lock()

    def answer(self, call: Call) -> Reply:
        reply = super().answer(call)
        if call.path == "/v1/score" and self.once.acquire(blocking=False):
            reply.content["score"] = 1.0 - reply.content["score"]
        return reply


class DroppingOnce(FakeService):
    """Hangs up on one request of many."""

    def __init__(self) -> None:
        super().__init__()
        self.once = threading.Lock()

    def answer(self, call: Call) -> Reply:
        if call.path == "/v1/score" and self.once.acquire(blocking=False):
            raise ConnectionAbortedError("dropped, as this test wants it")
        return super().answer(call)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    told = [{"response": f"#### {n}", "reference": "18", "correct": n == 18} for n in (17, 18)]
    path.write_text("".join(json.dumps(row) + "\n" for row in told), encoding="utf-8")
    return path


def load(url: str, rows: Path, out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """``make loadtest``'s exit code and figures."""
    command = [sys.executable, "-m", "loadtests.load", "--url", url, "--out", str(out)]
    command += ["--data", str(rows), "--duration", "2", "--timeout-s", "5", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (out / "summary.json").is_file(), done.stderr
    return done.returncode, json.loads((out / "summary.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("transport", ["http-single", "http-batch"])
def test_right_answers_to_bursts_pass_and_are_reported(
    transport: str, rows: Path, tmp_path: Path
) -> None:
    arguments = ("--shape", "grpo_burst", "--transport", transport, *BURSTS)
    with FakeService() as service:
        code, told = load(service.url, rows, tmp_path, *arguments)

    assert (code, told["failed"]) == (0, [])
    assert (told["asked"], told["right"], told["agreement_with_labels"]) == (16, 16, 1.0)
    assert (told["shape"], told["prompts"], told["samples"]) == ("grpo_burst", 2, 4)
    assert 0 < told["p50_ms"] <= told["p99_ms"]
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert "/v1/score" in (tmp_path / "locust_stats.csv").read_text(encoding="utf-8")


def test_long_rollouts_are_written_and_a_rule_decides_each(rows: Path, tmp_path: Path) -> None:
    with FakeService() as service:
        code, told = load(service.url, rows, tmp_path, "--shape", "long_rollouts", *BURSTS)
        asked = [len(c.body["response"]) for c in service.calls if c.path == "/v1/score"]

    assert (code, told["failed"]) == (0, [])
    assert (told["right"], told["agreement_with_labels"], told["sources"]) == (
        16,
        1.0,
        {"rule": 16},
    )
    assert (told["shape"], told["data"]) == ("long_rollouts", "long_rows")
    assert sorted(asked)[8] > 16_000


def test_one_lie_of_many_answers_fails_the_run(rows: Path, tmp_path: Path) -> None:
    with LyingOnce() as service:
        code, told = load(service.url, rows, tmp_path, "--peak-users", "4")

    assert (code, told["wrong"], told["lost"]) == (1, 1, 0)
    assert told["right"] == told["asked"] - 1 > 4
    assert "under load" in (tmp_path / "locust_failures.csv").read_text(encoding="utf-8")


def test_one_dropped_reply_of_many_fails_the_run(rows: Path, tmp_path: Path) -> None:
    with DroppingOnce() as service:
        code, told = load(service.url, rows, tmp_path, "--peak-users", "4")

    assert (code, told["wrong"], told["lost"]) == (1, 0, 1)
    assert told["right"] == told["asked"] - 1 > 4


def test_locusts_own_command_line_refuses_what_does_not_fit(rows: Path) -> None:
    command = [sys.executable, "-m", "locust", "-f", "loadtests/locustfile.py", "--headless"]
    done = subprocess.run(
        [*command, "--data", str(rows), "--shape", "ramp"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 2
    assert "host: is missing" in done.stderr
