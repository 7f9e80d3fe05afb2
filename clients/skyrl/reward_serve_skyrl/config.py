"""SkyRL's configuration with a section for the judge.

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
    """Where the judge is, how it judges, and how failed verdicts are handled.

    ``template`` and ``options`` are sent with every request. The other fields are settings of
    ``reward_serve.client.connect``, except ``max_undecided``. ``api_key_file`` is read in
    the trainer's workers.

    With ``group_size`` (``generator.n_samples_per_prompt``), the samples of a prompt are judged
    against each other. Each waits for the others for half of ``timeout_s``. With ``critique``, a
    sample's ``env_metrics`` have the judge's, as ``judge_critique``.

    Undecided samples are left out of training. The run stops if their share of a step exceeds
    ``max_undecided``; at 1 it never stops.

    With ``tools``, a ``skyrl_gym`` ``ToolGroup`` as ``module:Class``, the environment has several
    turns. ``reward`` is ``end``: one score, of the whole conversation;
    ``turns``: a score after each turn; or ``differences`` between each and the one before.
    """

    url: str | None = None
    app: str | None = None
    model: str | None = None
    api_key_file: str | None = None
    template: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    group_size: int | None = None
    tools: str | None = None
    reward: str = "end"
    critique: bool = False
    timeout_s: float | None = None
    max_attempts: int | None = None
    on_failure: str | None = None
    max_undecided: float = 0.2


@dataclass
class JudgedGymConfig(SkyRLGymConfig):  # type: ignore[misc]  # skyrl is untyped
    """skyrl_gym's settings and the judge's."""

    gsm8k_judge: GSM8kJudgeConfig = field(default_factory=GSM8kJudgeConfig)


@dataclass
class JudgedEnvironmentConfig(EnvironmentConfig):  # type: ignore[misc]  # skyrl is untyped
    """SkyRL's environment section with the judge's settings."""

    skyrl_gym: JudgedGymConfig = field(default_factory=JudgedGymConfig)


@dataclass
class JudgedTrainConfig(SkyRLTrainConfig):  # type: ignore[misc]  # skyrl is untyped
    """SkyRL's complete configuration with the judge's settings."""

    environment: JudgedEnvironmentConfig = field(default_factory=JudgedEnvironmentConfig)


_MOVED = {"num_inference_engines": "num_engines"} | dict.fromkeys(
    ("backend", "run_engines_locally", "weight_sync_backend", "gpu_memory_utilization")
)
_JUDGES = {
    "model": "JUDGE_MODEL of examples/gsm8k, or serve MODEL",
    "num_reward_engines": "JUDGE_REPLICAS of examples/gsm8k, or serve --replicas",
    "max_model_len": "REWARD_MAX_MODEL_LEN of examples/gsm8k, or serve --set engine.max_model_len",
    "base_url": "remote.base_url in the deployments file",
}


def check_earlier_names(arguments: list[str]) -> None:
    """Refuse settings of SkyRL's judge examples, which would be ignored or have moved.

    Raises:
        ValueError: there is one; the message has what replaces it.
    """
    for argument in arguments:
        path, _, value = argument.lstrip("+").partition("=")
        section, _, name = path.rpartition(".")
        name = name.removeprefix("inference_engine_")
        if section == "generator" and (name in _MOVED or name == "tensor_parallel_size"):
            use = f"generator.inference_engine.{_MOVED.get(name) or name}={value}"
        elif path == "generator.async_engine":
            use = "nothing: SkyRL's engines are asynchronous; leave it out"
        elif path == "environment.env_class" and value.startswith("llm_as_a_judge"):
            use = "gsm8k_judge, here and in the data's column env_class"
        elif section.startswith("environment.skyrl_gym.llm_as_a_judge"):
            use = _JUDGES.get(name, f"judge.{name} in the deployments file (serve --set)")
        else:
            continue
        raise ValueError(f"{argument}: use {use}")


def check_judging_overlaps(cfg: SkyRLTrainConfig) -> None:
    """Refuse settings under which judging cannot overlap with generation.

    Raises:
        ValueError: ``generator.batched`` is on, or environments have no threads.
    """
    if cfg.generator.batched:
        raise ValueError(
            "generator.batched=true steps environments one by one after all generation, so "
            "judging adds to every step; set generator.batched=false"
        )
    if cfg.environment.skyrl_gym.max_env_workers < 1:
        raise ValueError(
            "environment.skyrl_gym.max_env_workers=0 steps environments on the event loop, which "
            "waiting for the judge would block; set it to the number of samples in flight"
        )


def check_groups_meet(cfg: SkyRLTrainConfig) -> None:
    """Refuse settings under which the samples of a prompt cannot wait for each other.

    Raises:
        ValueError: ``group_size`` is not the number of samples, or there are too few threads.
    """
    size = cfg.environment.skyrl_gym.gsm8k_judge.group_size
    if size is None:
        return
    if size != cfg.generator.n_samples_per_prompt:
        raise ValueError(
            f"environment.skyrl_gym.gsm8k_judge.group_size={size}: must be "
            f"generator.n_samples_per_prompt={cfg.generator.n_samples_per_prompt}"
        )
    samples, workers = size * cfg.trainer.train_batch_size, cfg.environment.skyrl_gym
    if workers.max_env_workers < samples:
        raise ValueError(
            f"environment.skyrl_gym.max_env_workers={workers.max_env_workers}: with group_size, a "
            f"sample keeps its thread until its group is whole; set it to {samples}, the samples "
            "of a step"
        )


def check_undecided_can_be_left_out(cfg: SkyRLTrainConfig) -> None:
    """Refuse settings under which undecided samples cannot be left out of training.

    Raises:
        ValueError: there is such a setting; the message has the remedy.
    """
    limit = cfg.environment.skyrl_gym.gsm8k_judge.max_undecided
    if not 0 <= limit <= 1:
        raise ValueError(
            f"environment.skyrl_gym.gsm8k_judge.max_undecided={limit}: must be between 0 and 1, a "
            "share of a step's samples"
        )
    if cfg.generator.step_wise_trajectories:
        raise ValueError(
            "generator.step_wise_trajectories=true: undecided samples cannot be left out, as only "
            "an episode's last step has its metrics; set it to false"
        )
    if cfg.trainer.algorithm.loss_reduction == "token_mean_legacy":
        raise ValueError(
            "trainer.algorithm.loss_reduction=token_mean_legacy weighs each sample by its "
            "micro-batch, so undecided samples cannot be left out; set token_mean"
        )


def check_turns_are_rewarded(cfg: SkyRLTrainConfig) -> None:
    """Refuse settings under which turns have no rewards of their own.

    Raises:
        ValueError: there is such a setting; the message has the remedy.
    """
    judge = cfg.environment.skyrl_gym.gsm8k_judge
    if judge.reward == "end":
        return
    why = "use end, turns or differences"
    if judge.reward in ("turns", "differences"):
        if judge.on_failure in ("rule", "lexical"):
            why = "rules score answers, not turns; leave on_failure out"
        elif cfg.generator.chat_template.name_or_path:
            why = "with generator.chat_template SkyRL trains on the last reward alone; set end"
        else:
            return
    raise ValueError(f"environment.skyrl_gym.gsm8k_judge.reward={judge.reward}: {why}")
