"""The launch script's settings, composed and checked by verl 0.9.1's own configuration."""

from __future__ import annotations

import inspect
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest
import verl.trainer
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

SCRIPT = Path(__file__).parents[3] / "examples" / "verl" / "run_grpo.sh"


def settings(*overrides: str) -> list[str]:
    """What the script would pass to verl."""
    environment = {"PATH": os.environ["PATH"], "PRINT_CONFIG": "1", "DATA_DIR": "/d"}
    environment |= {"OUT_DIR": "/o", "REWARD_SERVE_URL": "http://judge:8000"}
    done = subprocess.run(
        [SCRIPT, *overrides], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def composed(*overrides: str) -> DictConfig:
    """verl's configuration with the script's settings."""
    folder = Path(verl.trainer.__file__).parent / "config"
    with initialize_config_dir(str(folder), version_base="1.3"):
        return compose("ppo_trainer", settings(*overrides))


def test_verl_reads_every_setting() -> None:
    config = composed("trainer.total_epochs=1")

    assert config.trainer.total_epochs == 1
    assert config.algorithm.adv_estimator == "grpo"
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    assert (rollout.n, config.data.train_batch_size, actor.ppo_mini_batch_size) == (4, 16, 8)
    assert omega_conf_to_dataclass(actor).optim.lr == 1e-6
    assert omega_conf_to_dataclass(config.algorithm).adv_estimator == "grpo"
    validate_config(config, need_reference_policy(config), need_critic(config))


def test_the_reward_is_the_adapters() -> None:
    function = get_custom_reward_fn(composed())

    assert isinstance(function, partial)
    score, settings = function.args
    assert score.__module__.startswith("reward_serve_verl")
    assert (score.__name__, settings) == ("compute_score", {"url": "http://judge:8000"})
    assert inspect.iscoroutinefunction(score)


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(ConfigCompositionException, match="total_epoch"):
        composed("trainer.total_epoch=1")
