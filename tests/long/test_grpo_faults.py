"""What becomes of a GRPO run when one of its processes dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.long.grpo_runs import (
    HalfRight,
    Run,
    cache_with_a_fake_engine,
    started,
    until,
)
from tests.service.engines.test_process_guard import runs


@pytest.fixture
def judge() -> Iterator[str]:
    with HalfRight() as service:
        yield service.url


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return cache_with_a_fake_engine(tmp_path / "cache")


def engine(cache: Path) -> int:
    return int((cache / "grpo" / "checkpoints" / "pid").read_text())


def worker(run: Run) -> psutil.Process:
    (found,) = [p for p in run.descendants() if p.name().startswith("ray::RolloutWo")]
    return found


def finished(run: Run, cache: Path, steps: int) -> None:
    run.process.wait(timeout=240)
    assert run.process.returncode == 0, run.log.read_text()
    assert [line["step"] for line in run.steps()] == list(range(steps))
    assert any(line["trained_groups"] for line in run.steps())
    assert until(lambda: not runs(engine(cache)))
    checkpoints = cache / "grpo" / "checkpoints"
    assert not list(checkpoints.rglob("sampler_weights"))
    names = sorted(file.name for file in checkpoints.rglob("*.tar.gz"))
    assert names == [f"step-{steps}.tar.gz", "warm-up.tar.gz"]


@pytest.mark.timeout(900)
def test_a_run_survives_its_engine_and_its_rollout_worker(
    judge: str, cache: Path, tmp_path: Path
) -> None:
    run = started(judge, cache, tmp_path / "out", 8)
    run.await_steps(1)
    first = engine(cache)
    os.kill(first, signal.SIGKILL)
    run.await_steps(3)
    worker(run).kill()

    finished(run, cache, 8)
    assert "the policy's engine ended; resuming after step" in run.log.read_text()
    assert engine(cache) != first


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    ["SIGINT", "SIGTERM", "SIGKILL"],
)
def test_a_run_that_is_ended_leaves_no_process_and_goes_on_from_its_last_step(
    name: str, judge: str, cache: Path, tmp_path: Path
) -> None:
    run = started(judge, cache, tmp_path / "out", 4)
    run.await_steps(1)
    processes = run.descendants()
    assert len(processes) > 3

    os.kill(run.process.pid, signal.Signals[name])
    run.process.wait(timeout=240)

    assert until(lambda: not any(runs(process.pid) for process in processes))
    assert until(lambda: not runs(engine(cache)))
    if name != "SIGKILL":
        assert "the same command goes on from there" in run.log.read_text()
    taken = run.steps()

    again = started(judge, cache, tmp_path / "out", 4)
    finished(again, cache, 4)
    assert again.steps()[: len(taken)] == taken
