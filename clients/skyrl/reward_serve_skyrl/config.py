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


def check_settings(cfg: SkyRLTrainConfig) -> None:
    """Refuse settings that keep judging from overlapping with generation, or that lose rewards.

    Raises:
        ValueError: there is such a setting; the message has the remedy.
    """
    generator, gym = cfg.generator, cfg.environment.skyrl_gym
    judge, section = gym.gsm8k_judge, "environment.skyrl_gym.gsm8k_judge"
    samples, size = generator.n_samples_per_prompt, judge.group_size
    waiting = (size or 0) * cfg.trainer.train_batch_size
    by_turn = judge.reward in ("turns", "differences")
    for is_refused, message in (
        (
            generator.batched,
            "generator.batched=true steps environments one by one after all generation, so "
            "judging adds to every step; set generator.batched=false",
        ),
        (
            gym.max_env_workers < 1,
            "environment.skyrl_gym.max_env_workers=0 steps environments on the event loop, which "
            "waiting for the judge would block; set it to the number of samples in flight",
        ),
        (
            size not in (None, samples),
            f"{section}.group_size={size}: must be generator.n_samples_per_prompt={samples}",
        ),
        (
            gym.max_env_workers < waiting,
            f"environment.skyrl_gym.max_env_workers={gym.max_env_workers}: with group_size, a "
            f"sample keeps its thread until its group is whole; set it to {waiting}, the samples "
            "of a step",
        ),
        (
            not 0 <= judge.max_undecided <= 1,
            f"{section}.max_undecided={judge.max_undecided}: must be between 0 and 1, a share of "
            "a step's samples",
        ),
        (
            generator.merge_stepwise_output,
            "generator.merge_stepwise_output=true: undecided samples cannot be left out, as SkyRL "
            "drops their metrics when it merges steps; set it to false",
        ),
        (
            cfg.trainer.algorithm.loss_reduction == "token_mean_legacy",
            "trainer.algorithm.loss_reduction=token_mean_legacy weighs each sample by its "
            "micro-batch, so undecided samples cannot be left out; set token_mean",
        ),
        (
            not by_turn and judge.reward != "end",
            f"{section}.reward={judge.reward}: use end, turns or differences",
        ),
        (
            by_turn and judge.on_failure in ("rule", "lexical"),
            f"{section}.reward={judge.reward}: rules score answers, not turns; leave on_failure "
            "out",
        ),
        (
            by_turn and generator.chat_template.name_or_path,
            f"{section}.reward={judge.reward}: with generator.chat_template SkyRL trains on the "
            "last reward alone; set end",
        ),
    ):
        if is_refused:
            raise ValueError(message)
