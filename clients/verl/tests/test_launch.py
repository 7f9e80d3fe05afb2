"""The launch script's settings, composed and checked by verl 0.9.1's own configuration."""

from __future__ import annotations

import inspect
import os
import subprocess
from functools import partial
from pathlib import Path

import datasets
import pytest
import verl.trainer
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.import_utils import load_class_from_fqn

from reward_serve_verl import compute_score
from reward_serve_verl.main import ProbingTaskRunner, check_rows, main
from reward_serve_verl.training import LoopManager
from tests.fake_service import FakeService, Reply

SCRIPT = Path(__file__).parents[3] / "examples" / "verl" / "run_grpo.sh"


def launched(*overrides: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script, asked for its settings alone."""
    environment = {"PATH": os.environ["PATH"], "PRINT_CONFIG": "1", "DATA_DIR": "/d"}
    environment |= {"OUT_DIR": "/o", **variables}
    return subprocess.run([SCRIPT, *overrides], env=environment, capture_output=True, text=True)


def settings(*overrides: str, **variables: str) -> list[str]:
    """What the script would pass to verl."""
    done = launched(*overrides, **(variables or {"REWARD_SERVE_URL": "http://judge:8000"}))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def composed(*overrides: str, **variables: str) -> DictConfig:
    """verl's configuration with the script's settings."""
    folder = Path(verl.trainer.__file__).parent / "config"
    with initialize_config_dir(str(folder), version_base="1.3"):
        return compose("ppo_trainer", settings(*overrides, **variables))


def test_verl_reads_every_setting_and_calls_the_adapter() -> None:
    config = composed("trainer.total_epochs=1")
    function = get_custom_reward_fn(config)

    assert config.trainer.total_epochs == 1
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    assert (rollout.n, config.data.train_batch_size, actor.ppo_mini_batch_size) == (4, 16, 8)
    assert load_class_from_fqn(rollout.agent.agent_loop_manager_class) is LoopManager
    assert omega_conf_to_dataclass(actor).optim.lr == 1e-6
    assert omega_conf_to_dataclass(config.algorithm).adv_estimator == "grpo"
    validate_config(config, need_reference_policy(config), need_critic(config))
    assert isinstance(function, partial)
    assert function.args == (compute_score, {"url": "http://judge:8000"})
    assert inspect.iscoroutinefunction(compute_score)


def test_a_misspelt_setting_and_a_url_beside_an_application_are_refused() -> None:
    with pytest.raises(ConfigCompositionException, match="total_epoch"):
        composed("trainer.total_epoch=1")
    apart = composed(REWARD_SERVE_APP="reward").reward.custom_reward_function
    assert apart.reward_kwargs == {"app": "reward"}
    done = launched(REWARD_SERVE_APP="reward", REWARD_SERVE_URL="http://judge:8000")
    assert (done.returncode, done.stdout) == (2, "")
    assert "both set; unset one" in done.stderr


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_the_first_rows_of_the_training_files_are_asked_about(suffix: str, tmp_path: Path) -> None:
    info = {"question": "9 + 9?", "model_name": "x"}
    rows = [{"reward_model": {"ground_truth": gold}, "extra_info": info} for gold in ("18", "19")]
    file, data = tmp_path / f"train.{suffix}", datasets.Dataset.from_list(rows)
    data.to_parquet(file) if suffix == "parquet" else data.to_json(file)
    with FakeService() as service:
        config = composed(f"data.train_files=['{file}']", REWARD_SERVE_URL=service.url)
        with pytest.raises(ValueError, match=r"no row can have a verdict: model: "):
            ProbingTaskRunner().run(config)
        service.replies["/v1/score/batch"] = Reply({"detail": "unknown API key"}, 401)
        with pytest.raises(ValueError, match=r"no row can have a verdict: .*HTTP 401: unknown API"):
            ProbingTaskRunner().run(config)
        config.reward.custom_reward_function.path = "pkg://reward_serve_verl.llm_judge_remote"
        check_rows(config)  # which has no row for the judge, by their data source

    call, _ = service.calls
    (asked,) = call.body["requests"]
    assert (asked["reference"], asked["question"]) == (["18"], "9 + 9?")


def test_a_manager_that_makes_a_number_of_failures_is_refused_unless_one_is_named() -> None:
    """Verl's rate_limited stores 0.0 for an exception, and at its timeout of 300 s."""
    limited = ("reward.reward_manager.name=rate_limited", "data.train_files=[]")
    with pytest.raises(ValueError, match=r"rate_limited: verl stores a sample without a verdict"):
        check_rows(composed(*limited))
    check_rows(composed(*limited, "+reward.custom_reward_function.reward_kwargs.on_failure=0.5"))


def test_settings_under_which_the_judge_would_not_be_asked_are_refused() -> None:
    """Verl composes ``custom_reward_function`` and ignores it."""
    with pytest.raises(ValueError, match=r"trainer\.use_v1=false"):
        main(composed("trainer.use_v1=false"))
    old = composed(
        "reward.custom_reward_function.path=null",
        "custom_reward_function.path=pkg://reward_serve_verl.llm_judge_remote",
    )
    with pytest.raises(ValueError, match=r"ignores custom_reward_function\.path without reward\."):
        main(old)
