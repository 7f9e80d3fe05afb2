"""SkyRL's configuration with sections for these environments.

environment.env_class=gsm8k_judge environment.skyrl_gym.gsm8k_judge.url=http://127.0.0.1:8000
"""

# No `from __future__ import annotations` here: SkyRL reads the fields' types.

from dataclasses import dataclass, field

from skyrl.train.config.config import (
    BaseConfig,
    EnvironmentConfig,
    SkyRLGymConfig,
    SkyRLTrainConfig,
)


@dataclass
class GSM8kJudgeConfig(BaseConfig):  # type: ignore[misc]  # skyrl is untyped
    """Where the judge is and what a failed verdict comes to; ``reward_serve.client.connect``."""

    url: str | None = None
    app: str | None = None
    model: str | None = None
    timeout_s: float | None = None
    on_failure: str = "rule"


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
