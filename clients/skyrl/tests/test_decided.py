"""SkyRL 0.4.0's own gradients of a step with undecided samples are those of a step without them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from skyrl.train import trainer as skyrl_trainer
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
from skyrl.train.generators.utils import prepare_generator_input
from skyrl.train.trainer import RayPPOTrainer

from clients.skyrl.tests.cpu_training import (
    Sample,
    config,
    group_of,
    output_of,
    samples_of,
    step,
    trainer_of,
)
from reward_serve_skyrl.decided import TooManyUndecidedError
from reward_serve_skyrl.main import FullyAsyncTrainer, SyncTrainer

REDUCTIONS = ["token_mean", "sequence_mean", "seq_mean_token_sum_norm", "prompt_mean"]
OURS = {"sync": SyncTrainer, "async": FullyAsyncTrainer}
SKYRLS = {"sync": RayPPOTrainer, "async": FullyAsyncRayPPOTrainer}
LOSS = {"sync": "regular", "async": "rollout_is"}
ANY = "environment.skyrl_gym.gsm8k_judge.max_undecided=1"
FOURS = [
    [None, 0.0, 1.0, 1.0],
    [1.0, 0.25, 0.5, 0.0],
    [0.0, 0.0, 1.0, None],
    [0.5, None, None, 1.0],
]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[torch.Tensor]]:
    """SkyRL's own gradients of a step in which only these samples were ever sampled.

    Its check that each prompt has the same number of samples is the one thing put aside.
    """
    boundaries = skyrl_trainer.compute_prompt_mini_batch_boundaries

    def gradients(mode: str, samples: Sequence[Sample], *overrides: str, ranks: int = 1) -> Any:
        groups = len({s.group for s in samples})
        cfg = config(samples, f"trainer.algorithm.policy_loss_type={LOSS[mode]}", *overrides)
        size = min(cfg.trainer.policy_mini_batch_size, groups)
        monkeypatch.setattr(
            skyrl_trainer,
            "compute_prompt_mini_batch_boundaries",
            lambda uids, *_: boundaries(uids, size, groups, True, 0),
        )
        got = step(trainer_of(SKYRLS[mode], cfg, ranks), samples)
        monkeypatch.undo()
        return got

    return gradients


def with_undecided(
    mode: str, samples: Sequence[Sample], *overrides: str, ranks: int = 1
) -> list[torch.Tensor]:
    """The gradients of our trainer's step."""
    loss = f"trainer.algorithm.policy_loss_type={LOSS[mode]}"
    cfg = config(samples, ANY, loss, *overrides)
    return step(trainer_of(OURS[mode], cfg, ranks), samples)


def decided(samples: Sequence[Sample]) -> list[Sample]:
    return [s for s in samples if s.reward is not None]


def assert_equal(got: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(got) == len(expected) > 0
    for actual, other in zip(got, expected, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(actual, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradients_are_those_of_a_step_without_the_undecided(
    mode: str, reduction: str, without: Any
) -> None:
    samples = samples_of(FOURS)
    setting = f"trainer.algorithm.loss_reduction={reduction}"

    assert_equal(with_undecided(mode, samples, setting), without(mode, decided(samples), setting))


@pytest.mark.parametrize("estimator", ["grpo", "rloo", "maxrl", "reinforce++"])
@pytest.mark.parametrize("setting", ["advantage_batch_normalize=true", "use_entropy_loss=true"])
def test_so_are_they_with_other_estimators_and_losses(
    estimator: str, setting: str, without: Any
) -> None:
    samples = samples_of(FOURS)
    settings = [
        f"trainer.algorithm.advantage_estimator={estimator}",
        f"trainer.algorithm.{setting}",
    ]

    assert_equal(
        with_undecided("sync", samples, *settings), without("sync", decided(samples), *settings)
    )


def test_so_are_they_on_two_data_parallel_ranks(without: Any) -> None:
    samples = samples_of(FOURS)
    # SkyRL does not remove the rows that pad a mini-batch from its log-probabilities.
    whole = "trainer.recompute_old_logprobs_per_minibatch=false"

    assert_equal(
        with_undecided("sync", samples, whole, ranks=2),
        without("sync", decided(samples), whole, ranks=2),
    )


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ([[1.0, 0.0, 0.0, 1.0], [None, None, 1.0, None], *FOURS[1:3]], 4),
        ([[None] * 4, [None, 1.0, None, None], *FOURS[1:3]], 2),
    ],
    ids=["lone survivor", "mini-batch without samples"],
)
def test_a_lone_survivor_trains_nothing_and_an_empty_mini_batch_takes_no_step(
    mode: str, groups: list[list[float | None]], size: int, without: Any
) -> None:
    samples = samples_of(groups)
    rest = decided(s for s in samples if s.group != "prompt 1")
    setting = f"trainer.policy_mini_batch_size={size}"

    assert_equal(with_undecided(mode, samples, setting), without(mode, rest, setting))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_step_of_undecided_samples_takes_no_optimiser_step(mode: str) -> None:
    samples = samples_of([[None] * 4, [None, 1.0, None, None]])
    loss = f"trainer.algorithm.policy_loss_type={LOSS[mode]}"
    trainer = trainer_of(OURS[mode], config(samples, ANY, loss))
    before = trainer.dispatch.policy.logits.detach().clone()

    assert step(trainer, samples) == []
    assert torch.equal(trainer.dispatch.policy.logits, before)
    assert trainer.all_metrics["reward/undecided_share"] == 7 / 8


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_stops_beyond_max_undecided_and_says_why(mode: str) -> None:
    samples = samples_of(FOURS)
    setting = "environment.skyrl_gym.gsm8k_judge.max_undecided"
    assert len(step(trainer_of(SyncTrainer, config(samples, f"{setting}=0.25")), samples)) == 2
    trainer = trainer_of(OURS[mode], config(samples))

    with pytest.raises(TooManyUndecidedError, match=r"4 of 16 .* \(timeout 4\).*max_undecided=0.2"):
        step(trainer, samples)
    assert trainer.dispatch.gradients == []


def test_a_step_that_is_all_decided_is_skyrls_own() -> None:
    samples = samples_of([[1.0, 0.0, 0.0, 1.0], FOURS[1]])
    cfg = config(samples)

    ours, skyrls = (step(trainer_of(kind, cfg), samples) for kind in (SyncTrainer, RayPPOTrainer))
    assert all(map(torch.equal, ours, skyrls))


def test_undecided_samples_give_a_group_no_spread() -> None:
    def kept(kind: type, rewards: Sequence[float | None]) -> bool:
        group = samples_of([rewards])
        trainer = trainer_of(kind, config(group, "trainer.policy_mini_batch_size=1"))
        return bool(trainer._should_keep_group(group_of(group)))

    assert kept(FullyAsyncRayPPOTrainer, [1.0, 1.0, None])
    assert not kept(FullyAsyncTrainer, [1.0, 1.0, None])
    assert kept(FullyAsyncTrainer, [1.0, 0.0, None])


def test_dynamic_sampling_keeps_groups_by_their_decided_rewards() -> None:
    samples = samples_of([[1.0, 1.0, None, 1.0], [1.0, 0.0, None, 1.0]])
    setting = ["trainer.algorithm.dynamic_sampling.type=filter", "trainer.train_batch_size=1"]
    trainer = trainer_of(SyncTrainer, config(samples, *setting, "trainer.policy_mini_batch_size=1"))
    trainer.dynamic_sampling_state = None
    _, uids, again = trainer.handle_dynamic_sampling(output_of(samples), [s.group for s in samples])

    assert (set(uids), again) == ({"prompt 1"}, False)


def test_an_evaluation_is_a_run_of_its_own_and_a_rows_own_metadata_is_kept() -> None:
    async def generate(batch: Any, disable_tqdm: bool = False) -> Any:
        return batch["env_extras"]

    trainer = trainer_of(SyncTrainer, config(samples_of(FOURS)))
    trainer.generator = SimpleNamespace(generate=generate)
    trainer.send_keys()
    row = {"prompt": [], "env_class": None, "uid": "7", "env_extras": {"max_turns": 1}}
    row["env_extras"]["judge_metadata"] = {"subset": "b"}
    batch, _ = prepare_generator_input([row], 2, {}, "gsm8k_judge", "eval", 1)
    extras = asyncio.run(trainer.generator.generate(batch, disable_tqdm=True))

    keys = {"run": "test_run/eval", "step": 1, "subset": "b"}
    assert [extra["judge_metadata"] for extra in extras] == [
        {**keys, "sample": sample} for sample in ("7_0", "7_1")
    ]
    assert [(extra["judge_group"], extra["max_turns"]) for extra in extras] == [("7", 1)] * 2
