import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fake_service import Call, FakeService
from tests.unit.lab.cli.test_rescore import lines_of, logged
from tests.unit.lab.fakes import invoke

ROWS = 96


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("place", ["before the first batch", "amid", "before the report"])
def test_a_killed_run_is_resumed_with_no_verdict_twice_and_none_lost(
    service: FakeService, tmp_path: Path, place: str
) -> None:
    log = tmp_path / "verdicts-judge-1.jsonl"
    log.write_text("".join(f"{json.dumps(logged(n))}\n" for n in range(ROWS)), encoding="utf-8")
    out, pipe = tmp_path / "rescored-verdicts-judge-1.jsonl", tmp_path / "report.json"
    os.mkfifo(pipe)  # who writes the report to it waits for a reader
    command = [sys.executable, "-m", "reward_serve", "rescore", str(log), "--with", service.url]
    command += ["--report", str(pipe), "--batch-size", "4", "--batches-in-flight", "3"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    batches = 0

    def kill(call: Call) -> None:
        nonlocal batches
        batches += call.path == "/v1/score/batch"
        if batches == {"before the first batch": 1, "amid": 12}.get(place):
            process.kill()
            process.wait()

    service.before_reply = kill
    if place == "before the report":
        wait_for(lambda: out.exists() and out.read_bytes().count(b"\n") == ROWS)
        process.kill()
    assert process.wait(60) == -9
    kept = lines_of(out)
    least, most = {"before the first batch": (0, 0), "amid": (1, ROWS - 1)}.get(place, (ROWS, ROWS))
    assert least <= len(kept) <= most
    if kept:  # a kill within a write leaves a part of a line
        out.write_bytes(out.read_bytes() + out.read_bytes()[:100])
    service.before_reply = lambda call: None
    pipe.unlink()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = lines_of(out)
    assert lines[: len(kept)] == kept
    assert len({line["key"] for line in lines}) == len(lines) == ROWS
    assert {line["sample"]: line["score"] for line in lines} == {
        f"s{n}": float(n % 2 == 0) for n in range(ROWS)
    }
    assert json.loads(pipe.read_bytes())["n"] == ROWS


def test_a_deployments_file_that_serves_no_single_url_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "verdicts-judge-1.jsonl"
    log.write_text(json.dumps(logged(0)), encoding="utf-8")
    result = invoke("rescore", log, "--with", "none.yaml")
    assert (result.exit_code, "none.yaml: there is no such file" in result.stderr) == (2, True)
