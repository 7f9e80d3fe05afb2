"""Short versions of two scenarios, in another process with its own Ray cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from loadtests.chaos.report import ALWAYS_ZERO

ROOT = Path(__file__).parents[3]

_SHORT = """
import asyncio, json
from loadtests.chaos import processes
from loadtests.chaos.cluster import first_model, stand_in_service
from loadtests.chaos.questions import Questions, prose
from loadtests.chaos.scenarios.stand_in import RATE, injected
from loadtests.chaos.fault_under_load import fault_under_load

with stand_in_service(64, 0.005, RATE) as target:
    reports = {"faults": asyncio.run(injected(target, 400))}
    load = fault_under_load(
        target,
        Questions(prose, "killed", 30.0),
        lambda: processes.kill(first_model(target)["pid"]),
        min_requests=200,
        callers=4,
        before_s=0.5,
        after_s=0.2,
    )
    reports["killed"] = asyncio.run(load)
print("figures: " + json.dumps(reports))
"""


def test_no_answer_is_wrong_lost_or_hung_under_faults_and_a_kill() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SHORT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("figures: ")]
    assert lines, done.stderr[-2000:]
    reports = json.loads(lines[0].removeprefix("figures: "))
    for figures in reports.values():
        assert {figures[name] for name in ALWAYS_ZERO} == {0}
        assert figures["right"] + sum(figures["absent"].values()) == figures["asked"]
    assert reports["faults"]["asked"] == 400
    assert reports["faults"]["right"] > 320
    assert reports["faults"]["missed"] == []
    assert reports["killed"]["recovered_s"] is not None
