"""Step-wise trajectories of SkyRL 0.4.0's real generator, in its trainer and in ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from clients.skyrl.tests.cpu_training import on_cpu, trainer_of
from clients.skyrl.tests.test_agents import Worth, agent, call
from clients.skyrl.tests.test_decided import OURS, SKYRLS
from clients.skyrl.tests.test_generator import extras, rollout
from reward_serve_skyrl.config import check_settings
from reward_serve_skyrl.decided import TooManyUndecidedError
from reward_serve_skyrl.main import SyncTrainer
from tests.fake_service import FakeService

RIGHT, WRONG = [f"worth 0.5 {call(4, 2)}", "worth 1 #### 18"], ["worth 0 #### 17"]
SLOW = [f"worth 0.25 {call(4, 2)}", f"worth 0.5 {call(4, 2)}", "worth 0 #### 17"]
ABSENT = [f"worth 0.5 {call(4, 2)}", "no verdict"]
ENDLESS = [f"worth 0.25 {call(36, 2)}"] * 4
GROUPS = [[RIGHT, ABSENT, SLOW, WRONG], [WRONG, RIGHT, ENDLESS, SLOW]]
"""Of the second sample of the first group and the third of the second, a step has no verdict."""


def generated(
    tokenizer: Any, groups: Sequence[Sequence[list[str]]], *overrides: str
) -> tuple[Any, Any, list[str]]:
    """The configuration, the generator's output, and each of its rows' group."""
    episodes = [episode for group in groups for episode in group]
    names = [f"prompt {number}" for number, group in enumerate(groups) for _ in group]
    with FakeService(Worth()) as service:
        config = agent(
            service.url, "generator.step_wise_trajectories=true", "max_undecided=1",
            f"trainer.train_batch_size={len(groups)}", "generator.max_input_length=140",
            f"trainer.policy_mini_batch_size={len(groups)}", "generator.n_samples_per_prompt=4",
            "trainer.algorithm.max_seq_len=2000", "trainer.micro_train_batch_size_per_gpu=3",
            *overrides,
        )  # fmt: skip
        check_settings(config)
        columns = [extras(number) for number in range(len(episodes))]
        _, output = rollout(config, tokenizer, episodes, columns)
    rows = [int(key.instance_id.split(":")[0].split()[1]) for key in output["trajectory_ids"]]
    return config, output, [names[row] for row in rows]


def stepped(kind: type, config: Any, output: Any, uids: list[str]) -> tuple[Any, list[float]]:
    """The trainer after a step, and the advantage of each row that it trained on."""
    trainer = trainer_of(kind, config)
    with on_cpu():
        output, uids = trainer.postprocess_generator_output(output, uids)
        data = trainer.fwd_logprobs_values_reward(trainer.convert_to_training_input(output, uids))
        data = trainer.compute_advantages_and_returns(data)
        largest = data["advantages"].abs().argmax(-1, keepdim=True)
        values = data["advantages"].gather(-1, largest).squeeze(-1)
        for name in ("uids", "is_last_step"):
            data.metadata.pop(name)
        data.pop("rewards")
        trainer.train_critic_and_policy(data)
    return trainer, values.tolist()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gradients_are_those_without_the_samples_that_have_an_absent_step(
    mode: str, tokenizer: Any
) -> None:
    trainer, _ = stepped(OURS[mode], *generated(tokenizer, GROUPS))
    decided = [[e for e in group if e not in (ABSENT, ENDLESS)] for group in GROUPS]
    skyrls, _ = stepped(SKYRLS[mode], *generated(tokenizer, decided))

    assert trainer.all_metrics["reward/undecided_share"] == 2 / 8
    (got,), (expected,) = trainer.dispatch.gradients, skyrls.dispatch.gradients
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("reward", "steps"),
    [
        ("turns", [[1, 1], [0, 1, 0], [0]]),
        ("differences", [[0.5, 0.5], [0.25, 0.25, -0.5], [0]]),
    ],
)
def test_each_step_has_its_reward_and_is_trained_on_it_and_the_later_ones(
    reward: str, steps: list[list[float]], tokenizer: Any
) -> None:
    config, output, uids = generated(tokenizer, GROUPS[:1], f"reward={reward}")
    mask = [np.flatnonzero(row)[-1] for row in output["loss_masks"]]
    at_ends = [row[end] for row, end in zip(output["rewards"], mask, strict=True)]
    _, got = stepped(SyncTrainer, config, output, uids)

    flat = np.array([value for sample in steps for value in sample])
    first = len(steps[0])
    np.testing.assert_allclose(at_ends[:first], steps[0])
    np.testing.assert_allclose([sum(row) for row in output["rewards"]], at_ends)
    normal = (flat - flat.mean()) / (flat.std(ddof=1) + 1e-6)
    ends = np.cumsum([len(sample) for sample in steps])
    expected = [normal[at : ends[ends > at][0]].sum() for at in range(len(flat))]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_cut_off_sample_is_named_and_a_lone_one_trains_nothing(tokenizer: Any) -> None:
    config, output, uids = generated(tokenizer, [[ABSENT, ENDLESS, RIGHT, ABSENT]], "reward=turns")
    trainer, got = stepped(SyncTrainer, config, output, uids)
    assert (trainer.dispatch.gradients, set(got)) == ([], {0})

    config.environment.skyrl_gym.gsm8k_judge.max_undecided = 0.5
    with pytest.raises(TooManyUndecidedError, match=r"3 of 4 .* \(unparseable 2, cut_off 1\)"):
        stepped(SyncTrainer, config, output, uids)


def test_merging_steps_is_refused() -> None:
    merged = ("generator.step_wise_trajectories=true", "generator.merge_stepwise_output=true")
    with pytest.raises(ValueError, match="SkyRL drops their metrics when it merges steps"):
        check_settings(agent("http://x", *merged))
