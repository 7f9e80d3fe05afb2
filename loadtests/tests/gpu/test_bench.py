from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployments.local import ROOT, Service
from loadtests.gpu import bench, together
from loadtests.gpu.bench import command, parts, record
from loadtests.gpu.place import Place
from loadtests.gpu.speed import requests
from loadtests.gpu.together import _busy
from tests.fake_service import FakeService

REHEARSED = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


@pytest.fixture(autouse=True)
def _no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "machine", lambda: {"cpu": "a processor"})


def test_a_part_is_written_beside_those_that_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({"earlier": {"ratio": 1}}))

    assert record("now", lambda: {"ratio": 2}, path)

    figures = json.loads(path.read_text())
    assert figures["earlier"] == {"ratio": 1}
    assert figures["now"]["ratio"] == 2
    assert {"command", "took_s", "machine"} <= figures["now"].keys()


def test_a_part_that_fails_leaves_its_reason_and_lets_the_next_run(tmp_path: Path) -> None:
    def fails() -> dict[str, Any]:
        raise SystemExit("no card")

    assert not record("broken", fails, tmp_path / "gpu.json")
    assert record("next", dict, tmp_path / "gpu.json")

    figures = json.loads((tmp_path / "gpu.json").read_text())
    assert figures["broken"]["failed"] == "SystemExit: no card"


def test_a_command_names_no_folder_of_the_machine() -> None:
    arguments = ["/venv/bin/python", "-m", "loadtests.gpu.bench", "--only", "a", "--out", "/x"]

    assert command(arguments) == "python -m loadtests.gpu.bench --only a"


def test_every_part_of_the_issue_is_there(tmp_path: Path) -> None:
    assert set(parts(Place("cuda", tmp_path), 3)) == {
        "speed-1.5b",
        "speed-8b",
        "classifier",
        "written",
        "settings",
        "together",
        "memory",
    }


def test_requests_share_nothing_between_seeds() -> None:
    first, second = requests(0, 4, 64), requests(1, 4, 64)

    assert requests(0, 4, 64) == first
    assert not {one["response"] for one in first} & {one["response"] for one in second}


def test_a_busy_process_says_what_it_did() -> None:
    with _busy() as rates:
        assert rates == []

    assert rates[0] > 0


@pytest.fixture
def deployed(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge's deployment, answered by a rule."""

    @contextmanager
    def stand_in(**_: Any) -> Iterator[Service]:
        yield Service(service.url, ray_s=0.0, ready_s=0.0)

    monkeypatch.setattr(together, "deployed", stand_in)


@pytest.mark.usefixtures("deployed")
def test_both_rates_are_measured_with_and_without_the_other(tmp_path: Path) -> None:
    asked = [{"response": "#### 18", "reference": "18"}]

    figures = together.together(Place("cpu", tmp_path), asked, 1)

    assert figures["judge_alone_per_s"]["median"] > 0
    assert figures["judge_beside_per_s"]["median"] > 0
    assert figures["ratio"]["other"] > 0


@pytest.mark.usefixtures("deployed")
def test_what_callers_see_while_the_card_is_full_is_counted(tmp_path: Path) -> None:
    figures = together.memory(Place("cpu", tmp_path))

    assert figures["under"] == {"unparseable": 8}  # the rule abstains
    assert figures["scored_without_ok"] == 0
    assert figures["after"] == "unparseable"


def rehearse(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=REHEARSED, capture_output=True, text=True)


@pytest.mark.timeout(1800)
def test_gpu_check_is_rehearsed_on_the_cpu(tmp_path: Path) -> None:
    known = str(tmp_path / "reference.json")
    few = ("--rows", "4")
    made = rehearse("loadtests.gpu.check", "reference", *few, "--attacks", "4", "--out", known)
    assert made.returncode == 0, made.stderr[-2000:]

    options = (*few, "--device", "cpu", "--attacks", "4", "--known", known, "--out", str(tmp_path))
    done = rehearse("loadtests.gpu.check", "run", *options)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    figures = json.loads((tmp_path / "gpu.json").read_text())
    assert figures["right float32"]["flips"] == []
    accepted = {"rows": 4, "accepted": 0, "unscored": 0}
    assert figures["right float32"]["attacks"] == {"cpu": accepted, "here": accepted}
    assert figures["right judge.yaml"]["statuses"] == {"ok": 8}
    assert figures["right judge-gpu.yaml"]["statuses"] == {"ok": 8}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", ["speed-1.5b", "classifier", "written", "settings", "together"])
def test_bench_gpu_is_rehearsed_on_the_cpu(part: str, tmp_path: Path) -> None:
    options = ("--only", part, "--device", "cpu", "--rounds", "1", "--out", str(tmp_path))
    done = rehearse("loadtests.gpu.bench", *options)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    figures = json.loads((tmp_path / "gpu.json").read_text())[part]
    assert "failed" not in figures
    assert figures["command"].startswith("python -m loadtests.gpu.bench --only")
