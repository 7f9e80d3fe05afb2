"""Runs locust in its own process, since it patches sockets on import."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from loadtests.load.__main__ import command_line
from tests.fake_service import Call, FakeService, Reply

ROOT = Path(__file__).parents[2]
BURSTS = ("--prompts", "2", "--samples", "4", "--period", "1", "--rollout-seconds", "1")


class FaultOnce(FakeService):
    """Returns the other score once, or closes the connection of one request."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.once = fault, threading.Lock()

    def answer(self, call: Call) -> Reply:
        reply = super().answer(call)
        if call.path == "/v1/score" and self.once.acquire(blocking=False):
            if self.fault == "lost":
                raise ConnectionAbortedError("dropped on purpose")
            reply.content["score"] = 1.0 - reply.content["score"]
        return reply


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    figures = [{"response": f"#### {n}", "reference": "18", "correct": n == 18} for n in (17, 18)]
    path.write_text("".join(json.dumps(row) + "\n" for row in figures), encoding="utf-8")
    return path


def load(url: str, rows: Path, out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """``loadtests.load``'s exit code and figures."""
    command = [sys.executable, "-m", "loadtests.load", "--url", url, "--out", str(out)]
    command += ["--data", str(rows), "--duration", "2", "--timeout-s", "5", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (out / "summary.json").is_file(), done.stderr
    return done.returncode, json.loads((out / "summary.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("batch", ["1", "8"])
def test_a_run_of_right_answers_passes_and_is_reported(
    batch: str, rows: Path, tmp_path: Path
) -> None:
    arguments = ("--shape", "grpo_burst", "--batch", batch, *BURSTS)
    with FakeService() as service:
        code, figures = load(service.url, rows, tmp_path, *arguments)

    assert (code, figures["failed"]) == (0, [])
    assert (figures["asked"], figures["right"], figures["agreement_with_labels"]) == (16, 16, 1.0)
    assert (figures["shape"], figures["prompts"], figures["samples"]) == ("grpo_burst", 2, 4)
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]
    assert {"report.html", "locust_stats.csv"} <= {path.name for path in tmp_path.iterdir()}


def test_long_rollouts_are_generated_and_decided_by_rules(rows: Path, tmp_path: Path) -> None:
    with FakeService() as service:
        code, figures = load(service.url, rows, tmp_path, "--shape", "long_rollouts", *BURSTS)
        asked = [len(c.body["response"]) for c in service.calls if c.path == "/v1/score"]

    assert (code, figures["failed"], figures["right"]) == (0, [], 16)
    assert (figures["sources"], figures["data"]) == ({"rule": 16}, "long_rows")
    assert sorted(asked)[8] > 16_000


@pytest.mark.parametrize("fault", ["wrong", "lost"])
def test_one_wrong_answer_or_dropped_connection_fails_the_run(
    fault: str, rows: Path, tmp_path: Path
) -> None:
    with FaultOnce(fault) as service:
        code, figures = load(service.url, rows, tmp_path, "--peak-users", "4")

    counts = {"wrong": 0, "lost": 0, fault: 1}
    assert (code, figures["wrong"], figures["lost"]) == (1, counts["wrong"], counts["lost"])
    assert figures["right"] == figures["asked"] - 1 > 4
    assert fault in (tmp_path / "locust_failures.csv").read_text(encoding="utf-8")


def test_the_web_page_binds_loopback() -> None:
    line = command_line(Path("out"), True)
    assert line[line.index("--web-host") + 1] == "127.0.0.1"
    assert "--headless" not in line
