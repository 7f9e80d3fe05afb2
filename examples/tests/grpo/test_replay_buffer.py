from __future__ import annotations

from examples.grpo.advantages import group_advantages
from examples.grpo.replay_buffer import ReplayBuffer
from examples.grpo.samples import Group, Sample


def group(problem: int, rewards: list[float | None], version: int = 0) -> Group:
    samples = [
        Sample([1], [0.0], "", place, reward, reward) for place, reward in enumerate(rewards)
    ]
    return Group(problem, "", 1, [1], version, samples, group_advantages(rewards))


def taken(buffer: ReplayBuffer, count: int, version: int = 0) -> list[int]:
    return [one.problem for one in buffer.take(count, version)]


def test_groups_come_by_the_size_of_their_advantages() -> None:
    buffer = ReplayBuffer("advantage", 0)
    buffer.add([group(0, [1.0, 0.0, 0.0, 0.0]), group(1, [1.0, 1.0, 0.0, 0.0])])

    assert taken(buffer, 2) == [1, 0]


def test_groups_come_by_their_rewards() -> None:
    buffer = ReplayBuffer("reward", 0)
    buffer.add([group(0, [1.0, 0.0, 0.0, None]), group(1, [1.0, 1.0, 0.0, None])])

    assert taken(buffer, 1) == [1]


def test_a_group_of_equal_rewards_is_not_kept() -> None:
    buffer = ReplayBuffer("advantage", 0)
    buffer.add([group(0, [1.0, 1.0]), group(1, [0.0, None, 0.0])])

    assert taken(buffer, 2) == []


def test_a_group_is_kept_until_it_is_too_old() -> None:
    buffer = ReplayBuffer("advantage", 1)
    buffer.add([group(0, [1.0, 0.0]), group(1, [1.0, 0.0]), group(2, [1.0, 0.0])])

    assert len(taken(buffer, 1, version=0)) == 1
    assert len(taken(buffer, 1, version=1)) == 1
    assert taken(buffer, 1, version=2) == []
