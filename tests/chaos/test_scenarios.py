"""Two scenarios in short, on a Ray cluster of their own: theirs is another process's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.chaos.report import NEVER

ROOT = Path(__file__).parents[2]

_SHORT = """
import asyncio, json
from loadtests.chaos import faults
from loadtests.chaos.cluster import described, standing_in
from loadtests.chaos.questions import Questions, prose
from loadtests.chaos.scenarios.injected import RATE, injected
from loadtests.chaos.strike import Siege, besieged

with standing_in(64, 0.005, RATE) as target:
    told = {"faults": asyncio.run(injected(target, 400))}
    siege = Siege(callers=4, calm_s=0.5, at_least=200, after_s=0.2, patience_s=30.0)
    strike = lambda: faults.kill(described(target)["pid"]) or {}
    questions = Questions(prose, "killed", 30.0)
    told["killed"] = asyncio.run(besieged(target, questions, siege, strike))
print("figures: " + json.dumps(told))
"""


@pytest.mark.integration
def test_under_faults_and_a_kill_no_answer_is_wrong_lost_or_hung() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SHORT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("figures: ")]
    assert lines, done.stderr[-2000:]
    told = json.loads(lines[0].removeprefix("figures: "))
    for figures in told.values():
        assert {figures[name] for name in NEVER} == {0}
        assert figures["right"] + sum(figures["absent"].values()) == figures["asked"]
    assert told["faults"]["asked"] == 400
    assert told["faults"]["right"] > 320
    assert told["faults"]["missed"] == []
    assert told["killed"]["recovered_s"] is not None
