"""The launch script's settings, composed and checked by verl 0.9.1's own configuration."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import datasets
import pytest
import verl.trainer
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from reward_serve_verl.main import ProbingTaskRunner, main

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


def test_an_application_is_asked_by_handle() -> None:
    config = composed(REWARD_SERVE_APP="reward")
    assert config.reward.custom_reward_function.reward_kwargs == {"app": "reward"}


def test_a_url_and_an_application_are_refused_together() -> None:
    done = launched(REWARD_SERVE_APP="reward", REWARD_SERVE_URL="http://judge:8000")
    assert (done.returncode, done.stdout) == (2, "")
    assert "both set; unset one" in done.stderr


class Refusal(BaseHTTPRequestHandler):
    """A service that has no model of any name."""

    asked: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        refused = {"status": "invalid", "score": None, "reason": "model: there is no 'x'"}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"results": [refused]}).encode())

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_the_first_rows_of_the_training_files_are_asked_about(suffix: str, tmp_path: Path) -> None:
    rows = [
        {"reward_model": {"ground_truth": truth}, "extra_info": {"question": "9 + 9?"}}
        for truth in ("18", "19")
    ]
    file, data = tmp_path / f"train.{suffix}", datasets.Dataset.from_list(rows)
    data.to_parquet(file) if suffix == "parquet" else data.to_json(file)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        config = composed(f"data.train_files=['{file}']", REWARD_SERVE_URL=url)
        with pytest.raises(ValueError, match=r"row 0 .* cannot have a verdict: .*there is no 'x'"):
            ProbingTaskRunner().run(config)
        server.shutdown()

    (asked,) = Refusal.asked.pop()["requests"]
    assert (asked["reference"], asked["question"]) == (["18"], "9 + 9?")
    assert not Refusal.asked


def test_the_legacy_trainer_has_its_own_entry_point() -> None:
    with pytest.raises(ValueError, match=r"trainer\.use_v1=false"):
        main(composed("trainer.use_v1=false"))


def test_a_reward_function_under_verls_old_name_is_refused() -> None:
    """Verl composes ``custom_reward_function`` and ignores it: the judge would not be asked."""
    old = composed(
        "reward.custom_reward_function.path=null",
        "custom_reward_function.path=pkg://reward_serve_verl.llm_judge_remote",
    )
    with pytest.raises(ValueError, match=r"ignores custom_reward_function\.path without reward\."):
        main(old)
