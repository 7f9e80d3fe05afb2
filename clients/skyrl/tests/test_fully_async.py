"""SkyRL 0.4.0's fully asynchronous trainer over prepared data, its optimiser steps simulated.

Generation workers, staleness, the real generator and environments, a policy that answers from the
data: all but the models, which need GPUs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import ray
from skyrl.train.fully_async_trainer_sim import FullyAsyncTrainerSim, _SimDispatch

from examples.gsm8k.prepare_dataset import Variant, prepared, write
from reward_serve_skyrl import main
from tests.fake_service import FakeService

ROWS = [{"question": f"What is {n} + 1?", "answer": f"It is.\n#### {n + 1}"} for n in range(12)]
STEPS = 3
WORKERS = "skyrl.backends.skyrl_train.workers.fsdp.fsdp_worker"


class Dispatch(_SimDispatch):  # type: ignore[misc]  # skyrl is untyped
    """SkyRL 0.4.0's own stand-in, with what its trainer has called since."""

    def get_timing_metrics(self) -> dict[str, float]:
        return {}

    def finalize_pending_saves(self, model: str) -> None: ...


class Trainer(FullyAsyncTrainerSim):  # type: ignore[misc]  # skyrl is untyped
    """The trainer with that stand-in."""

    def init_weight_sync_state(self) -> None:
        self.dispatch = Dispatch(self.inference_engine_client, 0.0)


class Policy:
    """Answers even questions rightly and odd ones wrongly."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    async def generate(self, engine_input: Any, model: str | None = None) -> dict[str, Any]:
        (ids,) = engine_input["prompt_token_ids"]
        number = int(self._tokenizer.decode(ids).partition("What is ")[2].partition(" +")[0])
        await asyncio.sleep(0.01 * (number % 3))
        text = f"#### {number + 1 if number % 2 == 0 else number}"
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        return {
            "responses": [text],
            "response_ids": [tokens],
            "stop_reasons": ["stop"],
            "response_logprobs": [[0.0] * len(tokens)],
        }

    async def finish_session(self, session_id: Any) -> None: ...
    async def pause_generation(self) -> None: ...
    async def resume_generation(self) -> None: ...
    def increment_weight_version(self) -> None: ...


class Logged:
    """A tracker that keeps what it is told."""

    def __init__(self) -> None:
        self.steps: dict[int, dict[str, Any]] = {}

    def log(self, data: Mapping[str, Any], step: int, commit: bool = False) -> None:
        self.steps.setdefault(step, {}).update(data)

    def finish(self) -> None: ...
    def log_exception(self, error: Exception, step: int) -> None: ...


class Experiment(main.FullyAsyncExp):
    """The experiment of the entry point, with neither models nor engines."""

    logged = Logged()

    def get_inference_client(self) -> Policy:
        return Policy(self.tokenizer)

    def get_trainer(self, *args: Any, **kwargs: Any) -> Trainer:
        return Trainer(*args, **kwargs)

    def get_tracker(self) -> Logged:
        return self.logged


@pytest.fixture
def cluster() -> Any:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_the_trainers_steps_are_rewarded_by_the_service(
    cluster: Any, tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("train", "validation"):
        write(prepared(ROWS, split, Variant.judge), tmp_path / f"{split}.parquet")
    monkeypatch.setattr(main, "FullyAsyncExp", Experiment)
    workers = ModuleType(WORKERS)  # needs flash-attn; no model is made of it here
    for name in ("CriticWorker", "PolicyWorker", "RefWorker"):
        setattr(workers, name, None)
    monkeypatch.setitem(sys.modules, WORKERS, workers)
    with FakeService() as service:
        main.train(main.read_config(settings(tmp_path, tokenizer.name_or_path, service.url)))
        asked = sum(len(call.body["requests"]) for call in service.calls)

    steps = Experiment.logged.steps
    assert sorted(steps) == [1, 2, 3]
    assert asked >= STEPS * 4 * 2
    for logged in steps.values():
        assert logged["environment/judge_ok_mean"] == 1.0
        assert logged["environment/judge_fallback_mean"] == 0.0
    rewards = [logged["reward/avg_raw_reward"] for logged in steps.values()]
    assert sum(rewards) / STEPS == pytest.approx(0.5)


def settings(data: Path, policy: str, url: str) -> list[str]:
    """A small fully asynchronous run."""
    return [
        f"data.train_data=['{data}/train.parquet']",
        f"data.val_data=['{data}/validation.parquet']",
        "data.dataloader.num_workers=0",
        "environment.env_class=gsm8k_judge",
        f"environment.skyrl_gym.gsm8k_judge.url={url}",
        f"trainer.policy.model.path={policy}",
        "trainer.placement.colocate_all=false",
        "trainer.algorithm.policy_loss_type=rollout_is",
        "trainer.algorithm.use_kl_loss=false",
        "trainer.fully_async.enabled=true",
        "trainer.fully_async.simulate_training=true",
        "trainer.fully_async.simulate_training_step_seconds=0.1",
        "trainer.fully_async.max_staleness_steps=1",
        "trainer.fully_async.num_parallel_generation_workers=4",
        "trainer.train_batch_size=4",
        "trainer.policy_mini_batch_size=4",
        "trainer.epochs=1",
        "trainer.eval_interval=-1",
        "trainer.ckpt_interval=-1",
        "trainer.hf_save_interval=-1",
        "trainer.resume_mode=none",
        "trainer.enable_ray_gpu_monitor=false",
        "trainer.logger=console",
        f"trainer.ckpt_path={data}/checkpoints",
        f"trainer.export_path={data}/exports",
        "generator.n_samples_per_prompt=2",
        "generator.batched=false",
        "generator.inference_engine.enable_ray_prometheus_stats=false",
    ]
