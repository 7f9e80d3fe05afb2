import pytest

from examples.grpo.learner import inject
from examples.grpo.samples import (
    Answer,
    Group,
    Sample,
    group_advantages,
    right_by_format,
    right_by_value,
)
from examples.grpo.settings import Settings


@pytest.mark.parametrize(
    ("text", "answer", "by_value", "by_format"),
    [
        ("8 * 3 = 24. That is 24 apples.", 24, True, False),
        ("8 * 3 = 24\n#### 24", 24, True, True),
        ("#### 24\nor 25", 24, False, True),
        ("24 apples and 3 pears", 24, False, False),
        ("1,024 - 1,000 = 24", 24, True, False),
        ("24.5", 24, False, False),
        ("It is 25.", ["24", "25"], True, False),
        ("It is\n#### Paris", "paris", True, False),
        ("It is Paris, I think.", "Paris", False, False),
        ("#### -5", "-5", True, True),
        ("It is 5", "-5", False, False),
    ],
)
def test_the_last_number_is_the_value_and_the_first_mark_is_the_format(
    text: str, answer: Answer, by_value: bool, by_format: bool
) -> None:
    assert right_by_value(text, answer) is by_value
    assert right_by_format(text, answer) is by_format


def test_advantages_are_relative_to_the_decided_samples_of_the_group() -> None:
    advantages = group_advantages([1.0, 0.0, 1.0, 0.0])
    assert advantages == pytest.approx([0.866, -0.866, 0.866, -0.866], abs=1e-3)

    rewards = [1.0, 0.0, 0.0]
    assert group_advantages([*rewards, None]) == [*group_advantages(rewards), None]
    assert group_advantages([*rewards, 0.0])[:3] != group_advantages(rewards)


@pytest.mark.parametrize("rewards", [[1.0, 1.0, None], [0.0, 0.0], [None, 1.0], [None, None]])
def test_equal_or_lonely_rewards_teach_nothing(rewards: list[float | None]) -> None:
    assert not any(group_advantages(rewards))


@pytest.mark.parametrize(
    ("settings", "reward"),
    [(Settings(failing=0.2), None), (Settings(failing=0.2, failed_as="zero"), 0.0)],
)
def test_one_verdict_in_five_fails_and_the_verdict_is_kept(
    settings: Settings, reward: float | None
) -> None:
    made = [
        Group(problem, "", 1, [], 0, [Sample([], [], "", n, 1.0, 1.0) for n in range(8)])
        for problem in range(200)
    ]
    assert 250 < inject(made, settings, 3) < 390
    samples = [sample for group in made for sample in group.samples]
    assert {sample.reward for sample in samples} == {1.0, reward}
    assert {sample.verdict for sample in samples} == {1.0}
