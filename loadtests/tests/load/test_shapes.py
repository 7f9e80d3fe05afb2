from __future__ import annotations

from random import Random
from typing import Any

import pytest

from loadtests.load.shapes import SHAPES, Bursts, Load


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_has_callers_and_an_end(shape: str) -> None:
    load = Load.of(shape)

    assert (load.users_at(0.0) or 0) >= 1
    assert load.users_at(load.duration_s - 0.001) is not None
    assert load.users_at(load.duration_s) is None


def test_steady_and_soak_are_constant() -> None:
    for shape in ("steady", "soak"):
        assert {Load.of(shape, 5, 10).users_at(s) for s in range(10)} == {5}


def test_a_ramp_grows_evenly_to_its_peak() -> None:
    counts = [Load.of("ramp", 5, 10).users_at(s) for s in range(10)]

    assert counts == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_spike_has_its_peak_in_the_middle_fifth() -> None:
    counts = [Load.of("spike", 16, 10).users_at(s) for s in range(10)]

    assert counts == [2, 2, 2, 2, 16, 16, 2, 2, 2, 2]


def test_bursts_are_an_open_loop_of_one_trainer() -> None:
    for shape in ("grpo_burst", "long_rollouts"):
        load = Load.of(shape, 7)
        assert (load.users, load.open_loop) == (1, True)
    assert not Load.of("spike").open_loop


@pytest.mark.parametrize("given", [("nova",), ("steady", -1), ("steady", 1, -1.0)])
def test_an_unknown_shape_or_negative_size_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"shape|negative"):
        Load.of(*given)


def test_most_rollouts_of_a_batch_end_early() -> None:
    ends = sorted(Bursts(8, 64, 10, 8.0, 0.5).ends(Random(0)))

    assert len(ends) == 512
    assert ends[-1] == 8.0
    assert ends[0] > 0
    assert ends[len(ends) // 2] < 4.0
    assert ends[-1] - ends[-26] > ends[281] - ends[230]  # the last twentieth is the most spread out


def test_without_spread_all_rollouts_end_together() -> None:
    assert set(Bursts(2, 3, 10, 8.0, 0.0).ends(Random(0))) == {8.0}


def test_batches_start_every_period_and_end_within_the_run() -> None:
    assert Bursts(1, 1, 10, 8, 0.5).starts(60) == [0, 10, 20, 30, 40, 50]
    assert Bursts(1, 1, 10, 12, 0.5).starts(60) == [0, 10, 20, 30, 40]
    with pytest.raises(ValueError, match="duration"):
        Bursts(1, 1, 10, 12, 0.5).starts(11)


@pytest.mark.parametrize("given", [(0, 1, 1, 1, 1), (1, 1, 0, 1, 1), (1, 1, 1, 1, -1)])
def test_invalid_bursts_are_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="must"):
        Bursts(*given)
