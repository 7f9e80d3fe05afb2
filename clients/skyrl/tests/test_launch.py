"""The four launch scripts' settings, read and validated by SkyRL 0.4.0's own code."""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reward_serve_skyrl.config import JudgedTrainConfig
from reward_serve_skyrl.main import check_judge_answers, read_config
from tests.fake_service import FakeService, free_port

SCRIPTS = Path(__file__).parents[3] / "examples" / "gsm8k"
REWARD = {
    "data.train_data",
    "data.val_data",
    "environment.env_class",
    "environment.skyrl_gym.gsm8k_judge.app",
}
MODE = {
    "trainer.placement.colocate_all",
    "trainer.policy_mini_batch_size",
    "trainer.fully_async.enabled",
    "trainer.fully_async.max_staleness_steps",
    "trainer.fully_async.num_parallel_generation_workers",
}
NAME = {"trainer.run_name", "trainer.ckpt_path", "trainer.export_path"}


def settings(reward: str, mode: str, **variables: str) -> list[str]:
    """What a run's script would pass to the entry point."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [SCRIPTS / f"run_{reward}_{mode}.sh"],
        env={**kept, "PRINT_CONFIG": "1", "DATA_DIR": "/d", "OUT_DIR": "/o", **variables},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


@cache
def config(reward: str, mode: str) -> JudgedTrainConfig:
    return read_config(settings(reward, mode))


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every setting by its dotted name."""
    if not isinstance(value, dict):
        return {path: value}
    return {k: v for key, inner in value.items() for k, v in flat(inner, f"{path}.{key}").items()}


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        (("rule", "sync"), ("judge", "sync"), REWARD | NAME),
        (("rule", "async"), ("judge", "async"), REWARD | NAME),
        (("rule", "sync"), ("rule", "async"), MODE | NAME),
        (("judge", "sync"), ("judge", "async"), MODE | NAME),
    ],
)
def test_two_runs_differ_in_the_reward_or_the_mode_alone(
    first: tuple[str, str], other: tuple[str, str], expected: set[str]
) -> None:
    left, right = flat(asdict(config(*first))), flat(asdict(config(*other)))
    assert {key.lstrip(".") for key in left if left[key] != right[key]} == expected
    assert left.keys() == right.keys()


@pytest.mark.parametrize(
    ("mode", "variables", "url"),
    [
        ("async", {"JUDGE": "bundled"}, "http://127.0.0.1:8000"),
        ("async", {"JUDGE": "openai"}, "http://127.0.0.1:8000"),
        ("async", {"REWARD_SERVE_URL": "http://judge:9000"}, "http://judge:9000"),
        ("one_gpu", {}, "http://127.0.0.1:8000"),
    ],
)
def test_a_judge_apart_is_asked_by_http(mode: str, variables: dict[str, str], url: str) -> None:
    section = read_config(settings("judge", mode, **variables)).environment.skyrl_gym.gsm8k_judge

    assert (section.url, section.app) == (url, None)


def test_a_misspelt_setting_is_refused() -> None:
    for wrong in ("trainer.epoch=3", "environment.skyrl_gym.gsm8k_judge.urll=http://y"):
        with pytest.raises(ValueError, match=wrong.partition("=")[0].rpartition(".")[2]):
            read_config([*settings("rule", "sync"), wrong])


JUDGE = "environment.skyrl_gym.llm_as_a_judge"


@pytest.mark.parametrize(
    ("argument", "remedy"),
    [
        ("generator.num_inference_engines=2", "generator.inference_engine.num_engines=2"),
        (
            "generator.inference_engine_tensor_parallel_size=2",
            "generator.inference_engine.tensor_parallel_size=2",
        ),
        ("generator.backend=vllm", "generator.inference_engine.backend=vllm"),
        ("generator.run_engines_locally=true", "generator.inference_engine.run_engines_locally"),
        ("generator.weight_sync_backend=nccl", "generator.inference_engine.weight_sync_backend"),
        ("generator.gpu_memory_utilization=0.7", "generator.inference_engine.gpu_memory_util"),
        ("generator.async_engine=true", "leave it out"),
        ("generator.batched=true", "set generator.batched=false"),
        ("environment.env_class=llm_as_a_judge_local", "gsm8k_judge"),
        (f"{JUDGE}.model=gpt-4o-mini", "JUDGE_MODEL"),
        (f"+{JUDGE}_local.num_reward_engines=2", "JUDGE_REPLICAS"),
        (f"+{JUDGE}_local.max_model_len=4096", "REWARD_MAX_MODEL_LEN"),
        (f"+{JUDGE}_local.temperature=0.0", r"judge\.temperature in the deployments file"),
    ],
)
def test_an_argument_of_skyrls_examples_is_refused_with_what_replaces_it(
    argument: str, remedy: str
) -> None:
    with pytest.raises(ValueError, match=remedy):
        read_config([*settings("judge", "sync"), argument])


def test_all_runs_take_the_numbers_of_skyrls_example() -> None:
    taken = [
        "trainer.placement.colocate_policy_ref=false",
        "trainer.strategy=fsdp2",
        "trainer.eval_batch_size=2",
        "trainer.update_epochs_per_batch=1",
        "trainer.resume_mode=null",
    ]
    for reward in ("rule", "judge"):
        for mode, batch in (("sync", 16), ("async", 8)):
            numbers = settings(reward, mode, NUMBERS="llm_as_a_judge_local")
            trainer = read_config([*numbers, *taken]).trainer
            assert (trainer.train_batch_size, trainer.policy_mini_batch_size) == (batch, 8)
            assert trainer.algorithm.use_kl_loss is False


def test_a_run_does_not_begin_without_its_judge() -> None:
    cfg = config("judge", "sync")
    nobody = [*settings("judge", "sync", REWARD_SERVE_URL=f"http://127.0.0.1:{free_port()}")]
    timeout = "environment.skyrl_gym.gsm8k_judge.timeout_s=1"
    with pytest.raises(RuntimeError, match="deploy it before training"):
        check_judge_answers(read_config([*nobody, timeout]))
    with FakeService() as service:
        there = settings("judge", "sync", REWARD_SERVE_URL=service.url)
        check_judge_answers(read_config(there))
    check_judge_answers(config("rule", "sync"))
    assert cfg.environment.skyrl_gym.gsm8k_judge.app == "reward"
