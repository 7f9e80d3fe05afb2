"""SkyRL's entry point with this environment: ``python -m reward_serve_skyrl.main key=value ...``.

It takes the settings of ``skyrl.train.entrypoints.main_base`` and those of the environment.
``trainer.fully_async.enabled=true`` trains fully asynchronously.
"""

from __future__ import annotations

import sys
from typing import Any

import ray
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray
from skyrl_gym.envs.registration import load_env_creator, registry

from reward_serve.client import connect
from reward_serve.client.rows import PROBE_RESPONSE, PROBED_ROWS, check_rows
from reward_serve_skyrl.agents import schemas_of
from reward_serve_skyrl.config import (
    JudgedTrainConfig,
    check_earlier_names,
    check_settings,
)
from reward_serve_skyrl.decided import DecidedOnly
from reward_serve_skyrl.envs import JUDGE, GSM8kJudgeEnv, register_envs, settings_of


class SyncTrainer(DecidedOnly, RayPPOTrainer):  # type: ignore[misc]  # skyrl is untyped
    """SkyRL's synchronous trainer on decided samples."""


class FullyAsyncTrainer(DecidedOnly, FullyAsyncRayPPOTrainer):  # type: ignore[misc]
    """SkyRL's fully asynchronous trainer on decided samples."""


class SyncExp(BasePPOExp):  # type: ignore[misc]  # skyrl is untyped
    """An experiment with the synchronous trainer."""

    trainer_class: type = SyncTrainer

    def get_trainer(self, *args: Any, **kwargs: Any) -> Any:
        """The trainer; the arguments are those of ``BasePPOExp.get_trainer``."""
        trainer: Any = self.trainer_class(*args, **kwargs)
        trainer.send_keys()
        return trainer


class FullyAsyncExp(SyncExp):
    """An experiment with the fully asynchronous trainer."""

    trainer_class = FullyAsyncTrainer


def read_config(arguments: list[str]) -> JudgedTrainConfig:
    """Parse and validate the configuration; the policy's chat template is given the judge's tools.

    Raises:
        ValueError: a setting is unknown or invalid, keeps judging from overlapping with generation,
            keeps undecided samples in training, or drops rewards.
    """
    overrides = [item for item in arguments if not item.startswith("trainer.override_entrypoint=")]
    check_earlier_names(overrides)
    cfg: JudgedTrainConfig = JudgedTrainConfig.from_cli_overrides(overrides)
    check_settings(cfg)
    validate_cfg(cfg)
    if tools := cfg.environment.skyrl_gym.gsm8k_judge.tools:
        schemas = schemas_of(load_env_creator(tools)())
        cfg.generator.chat_template_kwargs.setdefault("tools", schemas)
    return cfg


def check_judge_answers(cfg: JudgedTrainConfig) -> None:
    """Send one request to the run's judge, if it has one, so that no run starts on fallbacks.

    Raises:
        RuntimeError: the judge returned no verdict.
    """
    if cfg.environment.env_class != JUDGE:
        return
    settings, common = settings_of(cfg.environment.skyrl_gym.gsm8k_judge)
    client = connect(**{**settings, "on_failure": "none", "max_attempts": 5})
    row = {"question": "9 + 9?", "reference": "#### 18"}
    if common.pop("group_size", None):
        group = client.score_group({**common, **row, "responses": ["#### 18", "#### 17"]})
        result = group.results[0]
    else:
        result = client.score({**common, **row, "response": "#### 18"})
    if result.score is None:
        where = settings.get("url") or f"application {settings.get('app', 'reward')!r}"
        raise RuntimeError(
            f"the judge at {where} returned no verdict: {result.status.value}: {result.reason}; "
            "deploy it before training (examples/gsm8k/deploy_judge.sh)"
        )


def check_first_rows(cfg: JudgedTrainConfig, dataset: Any) -> None:
    """Have the judge score the first rows of the training data.

    Args:
        cfg: the run's configuration.
        dataset: SkyRL's ``PromptDataset``.

    Raises:
        ValueError: a row names an environment that is not registered.
        RefusedRowError: the service refuses a row, for example without a gold answer.
    """
    first = [dataset[row] for row in range(min(PROBED_ROWS, len(dataset)))]
    rows = [(env_class or cfg.environment.env_class, extras) for _, env_class, extras, _ in first]
    for number, (name, _) in enumerate(rows):
        if name not in registry:
            raise ValueError(
                f"row {number} of the training data: env_class: no environment is registered as "
                f"{name!r}; choose from {', '.join(sorted(registry))}, in the column or in "
                "environment.env_class"
            )
    section = cfg.environment.skyrl_gym.gsm8k_judge
    settings, common = settings_of(section)
    if "group_size" in common:  # one sample has no score
        return
    client = connect(**{**settings, "on_failure": "none"})
    check_rows(
        (client, GSM8kJudgeEnv(section, extras).request(PROBE_RESPONSE))
        for name, extras in rows
        if name == JUDGE
    )


def train(cfg: JudgedTrainConfig) -> None:
    """Train in this process, with the environment registered in it."""
    register_envs()
    check_judge_answers(cfg)
    experiment = (FullyAsyncExp if cfg.trainer.fully_async.enabled else SyncExp)(cfg)
    check_first_rows(cfg, experiment.train_dataset)
    experiment.run()


def main() -> None:
    """Train with the command line's settings, in a task on SkyRL's Ray cluster."""
    cfg = read_config(sys.argv[1:])
    initialize_ray(cfg)
    ray.get(ray.remote(num_cpus=1)(train).remote(cfg))


if __name__ == "__main__":
    main()
