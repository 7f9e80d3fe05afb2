from __future__ import annotations

import math

import pytest

from examples.grpo.plots import smoothed


def test_a_curve_is_smoothed_over_its_neighbours() -> None:
    assert smoothed([0.0] * 5 + [1.0] * 5)[0] == 0.0
    assert smoothed([0.0] * 5 + [1.0] * 5)[4] == pytest.approx(4 / 9)


def test_a_step_without_a_reward_has_no_part_in_the_mean() -> None:
    assert smoothed([1.0, math.nan, 1.0]) == [1.0, 1.0, 1.0]
    assert math.isnan(smoothed([math.nan])[0])
