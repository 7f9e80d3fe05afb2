from __future__ import annotations

import pytest

from examples.grpo.advantages import group_advantages


def test_advantages_are_relative_to_the_group() -> None:
    advantages = group_advantages([1.0, 0.0, 1.0, 0.0])

    assert advantages == pytest.approx([0.866, -0.866, 0.866, -0.866], abs=1e-3)


def test_an_undecided_sample_moves_neither_mean_nor_deviation() -> None:
    rewards = [1.0, 0.0, 0.0]

    assert group_advantages([*rewards, None]) == [*group_advantages(rewards), None]


def test_a_zero_in_its_place_moves_both() -> None:
    rewards = [1.0, 0.0, 0.0]

    assert group_advantages([*rewards, 0.0])[:3] != group_advantages(rewards)


@pytest.mark.parametrize("rewards", [[1.0, 1.0, None], [0.0, 0.0], [None, 1.0], [None, None]])
def test_equal_or_lonely_rewards_teach_nothing(rewards: list[float | None]) -> None:
    assert not any(group_advantages(rewards))
