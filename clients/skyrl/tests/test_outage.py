"""SkyRL 0.4.0's synchronous training loop and generator, through a service that dies in mid-run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from clients.skyrl.tests.cpu_training import Dispatch, on_cpu
from clients.skyrl.tests.test_fully_async import ROWS, WORKERS, Logged
from examples.gsm8k.prepare_dataset import Variant, prepared, write
from reward_serve_skyrl import main
from tests.fake_service import FakeService

PROMPTS, SAMPLES = 4, 2
A_STEP = PROMPTS * SAMPLES
LIFE = 1 + A_STEP + SAMPLES
"""Verdicts before the service dies: the check before training, a step, and one prompt."""


class Policy:
    """Answers each prompt rightly and wrongly in turn; in a step, all but one prompt's late."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._asked: list[int] = []

    async def generate(self, engine_input: Any, model: str | None = None) -> dict[str, Any]:
        (ids,) = engine_input["prompt_token_ids"]
        number = int(self._tokenizer.decode(ids).partition("What is ")[2].partition(" +")[0])
        step, wrong = len(self._asked) // A_STEP, self._asked.count(number) % 2
        self._asked.append(number)
        await asyncio.sleep(0 if number == self._asked[step * A_STEP] else 1)
        text = f"#### {number + 1 - wrong}"
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        return {
            "responses": [text],
            "response_ids": [tokens],
            "stop_reasons": ["stop"],
            "response_logprobs": [[0.0] * len(tokens)],
        }

    async def finish_session(self, session_id: Any) -> None: ...


class Experiment(main.SyncExp):
    """The entry point's experiment, its models a table on the CPU."""

    logged: Logged
    dispatch: Dispatch

    def get_inference_client(self) -> Policy:
        return Policy(self.tokenizer)

    def get_trainer(self, *args: Any, **kwargs: Any) -> Any:
        trainer = super().get_trainer(*args, **kwargs)
        trainer.build_models = lambda *_: None
        trainer.dispatch = Experiment.dispatch = Dispatch(self.cfg)
        trainer.ref_model = None
        return trainer

    def get_tracker(self) -> Logged:
        Experiment.logged = Logged()
        return Experiment.logged


def test_an_outage_is_in_the_metrics_and_not_in_the_gradient(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("train", "validation"):
        write(prepared(ROWS, split, Variant.judge), tmp_path / f"{split}.parquet")
    monkeypatch.setattr(main, "SyncExp", Experiment)
    workers = ModuleType(WORKERS)  # needs flash-attn; no model is made of it here
    for name in ("CriticWorker", "PolicyWorker", "RefWorker"):
        setattr(workers, name, None)
    monkeypatch.setitem(sys.modules, WORKERS, workers)
    with FakeService() as service, on_cpu():

        def die(call: Any) -> None:
            if sum(len(c.body["requests"]) for c in service.calls) > LIFE:
                raise ConnectionAbortedError

        service.before_reply = die
        main.train(main.read_config(settings_of(tmp_path, tokenizer.name_or_path, service.url)))

    steps, dispatch = Experiment.logged.steps, Experiment.dispatch
    shares = [steps[n]["reward/undecided_share"] for n in (1, 2, 3)]
    assert shares == [0, 1 - 1 / PROMPTS, 1]
    assert [steps[n]["environment/judge_undecided_mean"] for n in (1, 2, 3)] == shares
    assert dispatch.trained == [A_STEP, SAMPLES]
    assert len(dispatch.gradients) == 2
    assert all(gradient.abs().max() > 0 for gradient in dispatch.gradients)
    assert steps[2]["reward/avg_raw_reward"] == 0.5
    assert "reward/avg_raw_reward" not in steps[3]


def settings_of(data: Path, policy: str, url: str) -> list[str]:
    """A small synchronous run, whose judge alone decides."""
    return [
        f"data.train_data=['{data}/train.parquet']",
        f"data.val_data=['{data}/validation.parquet']",
        "data.dataloader.num_workers=0",
        "environment.env_class=gsm8k_judge",
        f"environment.skyrl_gym.gsm8k_judge.url={url}",
        "environment.skyrl_gym.gsm8k_judge.on_failure=none",
        "environment.skyrl_gym.gsm8k_judge.timeout_s=2",
        "environment.skyrl_gym.gsm8k_judge.max_undecided=1",
        f"trainer.policy.model.path={policy}",
        "trainer.placement.colocate_all=false",
        "trainer.algorithm.use_kl_loss=false",
        f"trainer.train_batch_size={PROMPTS}",
        f"trainer.policy_mini_batch_size={PROMPTS}",
        "trainer.epochs=1",
        "trainer.eval_interval=-1",
        "trainer.ckpt_interval=-1",
        "trainer.hf_save_interval=-1",
        "trainer.resume_mode=none",
        "trainer.enable_ray_gpu_monitor=false",
        "trainer.logger=console",
        f"trainer.ckpt_path={data}/checkpoints",
        f"trainer.export_path={data}/exports",
        f"generator.n_samples_per_prompt={SAMPLES}",
        "generator.batched=false",
        "generator.inference_engine.enable_ray_prometheus_stats=false",
    ]
