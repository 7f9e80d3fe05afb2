"""Each program starts, measures something small and ends with exit code 0.

`loadtests.load` has tests of its own, and `loadtests.rollout_overlap` needs SkyRL.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployments.local import ROOT
from loadtests.rollout_overlap import PHASE_S, figures_of

pytestmark = pytest.mark.timeout(1800)
PROMETHEUS = shutil.which(os.environ.get("PROMETHEUS", "prometheus"))


def run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"loadtests.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def report(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_strategies() -> None:
    assert "| 8 | swiss |" in run("strategies", "--groups", "1")


def test_logs() -> None:
    assert "| of a step |" in run("logs", "--lines", "2000")


def test_bench(tmp_path: Path) -> None:
    run("bench", "--only", "P3", "--rounds", "1", "--out", str(tmp_path))
    figures = report(tmp_path / "bench.json")["P3"]
    assert figures["failed"] == 0
    assert figures["256"]["handle"]["per_s"]["median"] > 0


def test_endpoints(tmp_path: Path) -> None:
    run("endpoints", "--verdicts", "64", "--rounds", "1", "--out", str(tmp_path))
    rates = report(tmp_path / "endpoints.json")["rates"]
    assert rates["16"]["judge"]["calls"][0] >= 64


@pytest.mark.parametrize("name", ["faults", "replica_killed"])
def test_chaos(name: str, tmp_path: Path) -> None:
    run("chaos", "--only", name, "--out", str(tmp_path))
    figures = report(tmp_path / "chaos.json")[name]
    assert figures["right"] + sum(figures["absent"].values()) == figures["asked"]


def test_soak(tmp_path: Path) -> None:
    run("soak", "--minutes", "0.5", "--max-growth-mib", "4096", "--out", str(tmp_path))
    figures = report(tmp_path / "soak.json")
    assert figures["right"] + figures["too_close"] == figures["asked"] > 0
    assert figures["memory_mib"]["judge"]["last"] > 0


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus in PATH, nor named by PROMETHEUS=")
def test_monitoring() -> None:
    run("monitoring")


def test_gpu_check_on_the_cpu(tmp_path: Path) -> None:
    known = str(tmp_path / "reference.json")
    few = ("--rows", "4", "--attacks", "4")
    run("gpu.check", "reference", *few, "--out", known)
    options = ("--device", "cpu", "--known", known, "--out", str(tmp_path))
    run("gpu.check", "run", *few, *options)

    figures = report(tmp_path / "gpu.json")
    assert figures["float32"]["flips"] == []
    accepted = {"rows": 4, "accepted": 0, "unscored": 0}
    assert figures["float32"]["attacks"] == {"cpu": accepted, "here": accepted}
    assert figures["judge.yaml"]["statuses"] == {"ok": 8}


@pytest.mark.parametrize("part", ["speed-1.5b", "together"])
def test_gpu_bench_on_the_cpu(part: str, tmp_path: Path) -> None:
    options = ("--device", "cpu", "--rounds", "1", "--out", str(tmp_path))
    run("gpu.bench", "--only", part, *options)
    assert part in report(tmp_path / "gpu.json")


def test_judging_that_lengthens_the_rollouts_does_not_overlap() -> None:
    waits = [{"judge_wall_ms": 500.0, "judge_ok": 1.0}] * 2
    hidden, half, serial = (figures_of(waits, PHASE_S + late) for late in (0.0, 0.5, 1.0))
    overlaps = [figures["overlap"] for figures in (hidden, half, serial)]
    assert overlaps == pytest.approx([1.0, 0.5, 0.0])
