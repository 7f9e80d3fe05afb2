"""verl's entry point with a probe: ``python -m reward_serve_verl.main key=value ...``.

It takes the settings of ``verl.trainer.main_ppo`` and runs verl's V1 trainer. Before anything is
loaded, the service scores the first rows of each training file; a refused row ends the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import datasets
import hydra
import ray
from omegaconf import DictConfig
from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.utils.device import auto_set_device
from verl.utils.fs import copy_to_local

from reward_serve.client.outcomes import check_on_failure
from reward_serve.client.rows import PROBED_ROWS
from reward_serve_verl.llm_judge_remote import JUDGED
from reward_serve_verl.scoring import check_first_rows, warn_of_timeout

_TaskRunner: Any = TaskRunnerV1.__ray_metadata__.modified_class.__ray_actor_class__


class ProbingTaskRunner(_TaskRunner):  # type: ignore[misc]  # verl is untyped
    """verl's task runner, which runs in the cluster and so can reach a service by handle."""

    def run(self, config: DictConfig) -> None:
        """Probe, then train."""
        check_rows(config)
        super().run(config)


def check_rows(config: DictConfig) -> None:
    """Have the service score the first rows of each training file.

    Raises:
        ValueError: the service refuses a row, a setting is invalid, or verl's reward manager makes
            a number of failures.
    """
    function = config.reward.custom_reward_function
    judged = JUDGED if str(function.path).endswith("llm_judge_remote") else {}
    settings = {**judged, **(function.get("reward_kwargs") or {})}
    on_failure = check_on_failure(settings.get("on_failure"))
    is_limited = config.reward.reward_manager.name == "rate_limited"
    if is_limited and not judged and not isinstance(on_failure, float):
        raise ValueError(
            "reward.reward_manager.name=rate_limited: verl stores a sample without a verdict as "
            "0.0; use DecidedRewardManager, or name its reward: "
            "+reward.custom_reward_function.reward_kwargs.on_failure=0.0"
        )
    warn_of_timeout(config)
    files = config.data.train_files
    for file in [files] if isinstance(files, str) else files:
        check_first_rows(islice(_rows(file), PROBED_ROWS), settings)


def _rows(file: str) -> Iterator[dict[str, Any]]:
    kind = "parquet" if file.endswith(".parquet") else "json"
    path = copy_to_local(file)
    return iter(datasets.load_dataset(kind, data_files=path, split="train", streaming=True))


@hydra.main(  # type: ignore[untyped-decorator]
    config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None
)
def main(config: DictConfig) -> None:
    """Train with the command line's settings.

    Raises:
        ValueError: ``trainer.use_v1`` is false, no reward function is set, or verl refuses a
            setting.
    """
    if not config.trainer.use_v1:
        raise ValueError(
            "trainer.use_v1=false: this entry point runs verl's V1 trainer; set it to true"
        )
    if not config.reward.custom_reward_function.path:
        raise ValueError(
            "reward.custom_reward_function.path: not set, so verl would score the rows itself; set "
            "pkg://reward_serve_verl (verl's V1 trainer ignores custom_reward_function.path "
            "without reward.)"
        )
    auto_set_device(config)
    validate_config(config, need_reference_policy(config), need_critic(config))
    run_ppo(config, task_runner_class=ray.remote(ProbingTaskRunner))


if __name__ == "__main__":
    main()
