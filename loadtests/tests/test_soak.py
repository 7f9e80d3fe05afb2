from __future__ import annotations

import threading

import pytest

from loadtests.soak import Memory, Sizes, growth_mib, watched


def test_growth_is_measured_after_start_up() -> None:
    start_up = [{"replica": 100.0 * n} for n in range(10)]
    flat = [{"replica": 1000.0}] * 90
    assert growth_mib(start_up + flat) == {"replica": 0.0}
    leaking = [{"replica": 1000.0 + n} for n in range(100)]
    assert growth_mib(leaking) == {"replica": pytest.approx(80.0)}
    assert growth_mib([{"a": 1.0}]) == {"a": 0.0}


def test_growth_is_of_the_samples_that_have_the_deployment() -> None:
    samples: list[Sizes] = [{"a": 1.0}, {"a": 2.0, "b": 5.0}, {"b": 6.0}]

    assert growth_mib(samples) == {"b": 1.0}
    assert Memory([0, 1, 2], samples).peaks == {"a": 2.0, "b": 6.0}


def test_memory_is_sampled_while_watched() -> None:
    enough, taken = threading.Event(), 0

    def sizes() -> dict[str, float]:
        nonlocal taken
        taken += 1
        if taken == 3:
            enough.set()
        return {"a": 1.0}

    with watched(sizes, 0.001) as memory:
        assert enough.wait(60)
    assert len(memory.samples) == len(memory.times_s) >= 3
    assert memory.until(-1.0) == memory.samples[:1]
