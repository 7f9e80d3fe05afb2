from examples.grpo.replay_buffer import ReplayBuffer
from examples.grpo.samples import Group, Sample, group_advantages
from examples.grpo.settings import Settings


def group(problem: int, rewards: list[float | None]) -> Group:
    samples = [
        Sample([1], [0.0], "", place, reward, reward) for place, reward in enumerate(rewards)
    ]
    return Group(problem, "", 1, [1], 0, samples, group_advantages(rewards))


def taken(buffer: ReplayBuffer, count: int, version: int = 0) -> list[int]:
    return [group.problem for group in buffer.take(count, version)]


def test_groups_with_a_gradient_come_by_priority() -> None:
    by_advantage, by_reward = ReplayBuffer(Settings()), ReplayBuffer(Settings(priority="reward"))
    for buffer in (by_advantage, by_reward):
        buffer.add([group(0, [1.0, 1.0]), group(1, [0.0, None, 0.0])])  # equal: no gradient
        buffer.add([group(2, [1.0, 0.0, 0.0, 0.0]), group(3, [1.0, 1.0, 0.0, 0.0])])
        buffer.add([group(4, [1.0, 1.0, 1.0, 0.0])])

    assert taken(by_advantage, 5)[0] == 3
    assert taken(by_reward, 5) == [4, 3, 2]


def test_a_group_is_kept_until_it_is_too_old() -> None:
    buffer = ReplayBuffer(Settings(ahead=True))
    buffer.add([group(0, [1.0, 0.0]), group(1, [1.0, 0.0]), group(2, [1.0, 0.0])])

    assert len(taken(buffer, 1, version=0)) == 1
    assert len(taken(buffer, 1, version=1)) == 1
    assert taken(buffer, 1, version=2) == []
    assert buffer.replay(1, 1, 0) == []  # without replay updates nothing is kept


def test_a_retried_call_replays_the_same_groups() -> None:
    buffer = ReplayBuffer(Settings(replay_updates=1))
    buffer.add([group(problem, [1.0, 0.0]) for problem in range(3)])
    taken(buffer, 3)
    once, again = ([group.problem for group in buffer.replay(2, 1, 0)] for _ in range(2))
    assert once == again
    assert len(set(once)) == 2
