"""SkyRL's configuration with sections for these environments.

environment.env_class=gsm8k_judge environment.skyrl_gym.gsm8k_judge.url=http://127.0.0.1:8000
"""

# No `from __future__ import annotations` here: SkyRL reads the fields' types.

from dataclasses import dataclass, field
from typing import Any

from skyrl.train.config.config import (
    BaseConfig,
    EnvironmentConfig,
    SkyRLGymConfig,
    SkyRLTrainConfig,
)


@dataclass
class GSM8kJudgeConfig(BaseConfig):  # type: ignore[misc]  # skyrl is untyped
    """Where the judge is, how it judges, and what a failed verdict comes to.

    ``template`` and ``options`` go with every request; the others are settings of
    ``reward_serve.client.connect``. ``api_key_file`` is read in the trainer's workers.

    ``max_undecided``: beyond this share of a step's samples without a verdict the run stops; at 1
    it never does. Undecided samples are left out of training.

    ``url`` may be several, separated by commas. ``samples`` names a file of JSON lines for one of
    ``samples_every`` results; where SkyRL logs to wandb, they are a table there too.
    """

    url: str | None = None
    app: str | None = None
    model: str | None = None
    api_key_file: str | None = None
    template: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    max_attempts: int | None = None
    on_failure: str = "rule"
    max_undecided: float = 0.2
    samples: str | None = None
    samples_every: int | None = None


@dataclass
class JudgedGymConfig(SkyRLGymConfig):  # type: ignore[misc]  # skyrl is untyped
    """The environments' settings, the judge's among them."""

    gsm8k_judge: GSM8kJudgeConfig = field(default_factory=GSM8kJudgeConfig)


@dataclass
class JudgedEnvironmentConfig(EnvironmentConfig):  # type: ignore[misc]  # skyrl is untyped
    """The environment's settings."""

    skyrl_gym: JudgedGymConfig = field(default_factory=JudgedGymConfig)


@dataclass
class JudgedTrainConfig(SkyRLTrainConfig):  # type: ignore[misc]  # skyrl is untyped
    """SkyRL's whole configuration."""

    environment: JudgedEnvironmentConfig = field(default_factory=JudgedEnvironmentConfig)


def check_judging_overlaps(cfg: SkyRLTrainConfig) -> None:
    """Refuse settings under which judging cannot hide behind generation.

    Raises:
        ValueError: ``generator.batched`` is on, or environments have no threads.
    """
    if cfg.generator.batched:
        raise ValueError(
            "generator.batched=true steps environments one after another once all generation is "
            "over, so that judging adds to every step; set generator.batched=false"
        )
    if cfg.environment.skyrl_gym.max_env_workers < 1:
        raise ValueError(
            "environment.skyrl_gym.max_env_workers=0 steps environments on the event loop, which "
            "a judge's answer would block; set it to the samples in flight, at least 1"
        )


def check_undecided_can_be_left_out(cfg: SkyRLTrainConfig) -> None:
    """Refuse settings under which an undecided sample cannot be left out of training.

    Raises:
        ValueError: names the setting and the remedy.
    """
    limit = cfg.environment.skyrl_gym.gsm8k_judge.max_undecided
    if not 0 <= limit <= 1:
        raise ValueError(
            f"environment.skyrl_gym.gsm8k_judge.max_undecided={limit}: must be a share of a step's "
            "samples, from 0 to 1"
        )
    if cfg.generator.step_wise_trajectories:
        raise ValueError(
            "generator.step_wise_trajectories=true: these environments take one turn, and an "
            "undecided one could not be left out; set it to false"
        )
    if cfg.trainer.algorithm.loss_reduction == "token_mean_legacy":
        raise ValueError(
            "trainer.algorithm.loss_reduction=token_mean_legacy weighs a sample by the others of "
            "its micro-batch, from which an undecided one cannot be left out; set token_mean"
        )


def inexact(cfg: SkyRLTrainConfig) -> list[str]:
    """Where an undecided sample still counts under these settings, and how much."""
    algorithm, policy = cfg.trainer.algorithm, cfg.trainer.policy
    placement = cfg.trainer.placement
    gpus = placement.policy_num_nodes * placement.policy_num_gpus_per_node
    ranks = gpus // policy.sequence_parallel_size
    found = []
    if ranks > 1 and (algorithm.use_kl_loss or algorithm.use_entropy_loss):
        found.append(
            "SkyRL pads a mini-batch whose decided samples do not divide among "
            f"{ranks} data-parallel ranks, and the KL and entropy losses count up to {ranks - 1} "
            "padding rows of it"
        )
    if cfg.trainer.strategy == "megatron":
        found.append(
            "with strategy=megatron, which was not tested, the KL loss is a mean over "
            "micro-batches, the last of which may be smaller"
        )
    if algorithm.use_kl_in_reward and algorithm.kl_ctrl.type == "adaptive":
        found.append("the adaptive KL controller counts undecided samples")
    return found
