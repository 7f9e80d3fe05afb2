"""SkyRL 0.4.0's fully asynchronous trainer over prepared data, its optimiser steps simulated.

Generation workers, staleness, the real generator and environments, a policy that answers from the
data: all but the models, which need GPUs.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import ray
from skyrl.train.fully_async_trainer_sim import FullyAsyncTrainerSim, _SimDispatch

from clients.skyrl.tests import small_run
from clients.skyrl.tests.small_run import Logged
from reward_serve_skyrl import main
from tests.fake_service import FakeService

STEPS = 3
PROMPTS, SAMPLES = 4, 2


class Dispatch(_SimDispatch):  # type: ignore[misc]  # skyrl is untyped
    """SkyRL 0.4.0's own stand-in, with what its trainer has called since."""

    def get_timing_metrics(self) -> dict[str, float]:
        return {}

    def finalize_pending_saves(self, model: str) -> None: ...


class Trainer(FullyAsyncTrainerSim):  # type: ignore[misc]  # skyrl is untyped
    """The trainer with that stand-in."""

    def init_weight_sync_state(self) -> None:
        self.dispatch = Dispatch(self.inference_engine_client, 0.0)


class Policy(small_run.Policy):
    """Answers even questions rightly and odd ones wrongly."""

    async def text(self, number: int) -> str:
        await asyncio.sleep(0.01 * (number % 3))
        return f"#### {number + 1 if number % 2 == 0 else number}"


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
    small_run.write_rows(tmp_path)
    small_run.without_worker_classes(monkeypatch)
    monkeypatch.setattr(main, "FullyAsyncExp", Experiment)
    with FakeService() as service:
        main.train(main.read_config(settings(tmp_path, tokenizer.name_or_path, service.url)))
        asked = sum(len(call.body["requests"]) for call in service.calls)

    steps = Experiment.logged.steps
    assert sorted(steps) == [1, 2, 3]
    assert asked >= STEPS * PROMPTS * SAMPLES
    for logged in steps.values():
        assert logged["environment/judge_ok_mean"] == 1.0
        assert logged["environment/judge_fallback_mean"] == 0.0
    rewards = [logged["reward/avg_raw_reward"] for logged in steps.values()]
    assert sum(rewards) / STEPS == pytest.approx(0.5)


def settings(data: Path, policy: str, url: str) -> list[str]:
    """A small fully asynchronous run."""
    return [
        *small_run.settings(data, policy, url, PROMPTS, SAMPLES),
        "trainer.algorithm.policy_loss_type=rollout_is",
        "trainer.fully_async.enabled=true",
        "trainer.fully_async.simulate_training=true",
        "trainer.fully_async.simulate_training_step_seconds=0.1",
        "trainer.fully_async.max_staleness_steps=1",
        "trainer.fully_async.num_parallel_generation_workers=4",
    ]
