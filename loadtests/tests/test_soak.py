from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from loadtests import soak
from loadtests.soak import Memory, growth_mib, plot, resident_mib, watched


def test_growth_is_measured_after_start_up() -> None:
    start_up = [{"replica": 100.0 * n} for n in range(10)]
    flat = [{"replica": 1000.0}] * 90
    assert growth_mib(start_up + flat) == {"replica": 0.0}
    leaking = [{"replica": 1000.0 + n} for n in range(100)]
    assert growth_mib(leaking) == {"replica": pytest.approx(80.0)}


def test_a_short_run_has_no_growth() -> None:
    assert growth_mib([{"a": 1.0}]) == {"a": 0.0}
    assert growth_mib([{"a": 1.0}, {"a": 3.0}]) == {"a": 0.0}


def test_memory_is_sampled_while_watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(soak, "_PERIOD_S", 0.01)
    with watched(lambda: {"a": 1.0}) as memory:
        time.sleep(0.1)
    assert 2 <= len(memory.samples) == len(memory.times_s)
    assert memory.times_s == sorted(memory.times_s)
    assert memory.until(0.05) == memory.samples[: len(memory.until(0.05))] != memory.samples
    assert memory.until(-1.0) == memory.samples[:1]
    plot(memory, 0.001, tmp_path / "soak.png")
    assert (tmp_path / "soak.png").stat().st_size > 5_000


def test_a_replica_that_has_exited_is_absent() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        replica = psutil.Process(child.pid)
        alive = resident_mib(replica)
        child.communicate(b"\n")

    assert set(alive) == {"replica", "ingress and Ray"}
    assert set(resident_mib(replica)) == {"ingress and Ray"}


def test_growth_is_of_the_samples_that_have_the_process() -> None:
    samples = [{"a": 1.0}, {"a": 2.0, "b": 5.0}, {"b": 6.0}]

    assert growth_mib(samples) == {"b": 1.0}


def test_peaks_cover_processes_that_were_not_always_there() -> None:
    assert Memory([0, 1, 2], [{"a": 1.0}, {"a": 3.0, "b": 9.0}, {"a": 2.0}]).peaks == {
        "a": 3.0,
        "b": 9.0,
    }


def test_memory_is_sampled_at_the_given_period() -> None:
    with watched(lambda: {"a": 1.0}, period_s=0.01) as memory:
        time.sleep(0.2)
    assert len(memory.samples) > 3
