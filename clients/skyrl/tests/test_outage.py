"""SkyRL 0.4.0's synchronous training loop and generator, through a service that dies in mid-run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from clients.skyrl.tests.cpu_training import Dispatch, on_cpu
from examples.gsm8k.prepare_dataset import Variant, prepared, write
from reward_serve.client.rows import PROBED_ROWS
from reward_serve_skyrl import main
from tests.fake_service import FakeService, verdicts

ROWS = [{"question": f"What is {n} + 1?", "answer": f"It is.\n#### {n + 1}"} for n in range(12)]
PROMPTS, SAMPLES = 4, 2
A_STEP = PROMPTS * SAMPLES
LIFE = PROBED_ROWS + 1 + A_STEP + SAMPLES
"""Verdicts before the service dies: the checks before training, a step, and one prompt."""


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
    async def pause_generation(self) -> None: ...
    async def resume_generation(self) -> None: ...
    def increment_weight_version(self) -> None: ...


class Logged:
    """A tracker that keeps each step's metrics."""

    def __init__(self) -> None:
        self.steps: dict[int, dict[str, Any]] = {}

    def log(self, data: Mapping[str, Any], step: int, commit: bool = False) -> None:
        self.steps.setdefault(step, {}).update(data)

    def finish(self) -> None: ...
    def log_exception(self, error: Exception, step: int) -> None: ...


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
    workers: Any = ModuleType("skyrl.backends.skyrl_train.workers.fsdp.fsdp_worker")
    workers.CriticWorker = workers.PolicyWorker = workers.RefWorker = None
    monkeypatch.setitem(sys.modules, workers.__name__, workers)  # it needs flash-attn
    monkeypatch.setattr(main, "SyncExp", Experiment)
    with FakeService(log=tmp_path / "log") as service, on_cpu():

        def die(call: Any) -> None:
            if sum(len(c.body["requests"]) for c in service.calls) > LIFE:
                raise ConnectionAbortedError

        service.before_reply = die
        main.train(main.read_config(settings(tmp_path, tokenizer.name_or_path, service.url)))

    steps, dispatch = Experiment.logged.steps, Experiment.dispatch
    shares = [steps[n]["reward/undecided_share"] for n in (1, 2, 3)]
    assert shares == [0, 1 - 1 / PROMPTS, 1]
    assert [steps[n]["environment/judge_undecided_mean"] for n in (1, 2, 3)] == shares
    assert dispatch.trained == [A_STEP, SAMPLES]
    assert len(dispatch.gradients) == 2
    assert all(gradient.abs().max() > 0 for gradient in dispatch.gradients)
    assert steps[2]["reward/avg_raw_reward"] == 0.5
    assert "reward/avg_raw_reward" not in steps[3]
    logged = [line for line in verdicts(tmp_path / "log") if line["run"]]
    assert {(line["run"], line["step"]) for line in logged} == {("test_run", 1), ("test_run", 2)}
    keys = [(line["step"], line["sample"]) for line in logged]
    assert len(keys) == len(set(keys)) == A_STEP + SAMPLES
    assert {line["sample"].rpartition("_")[2] for line in logged} == {"0", "1"}
    assert {f"train/{line['sample'].partition('_')[0]}" for line in logged} == {
        line["group"] for line in logged
    }


def settings(data: Path, policy: str, url: str) -> list[str]:
    """One epoch over the rows, with neither evaluation nor checkpoints; the judge alone decides."""
    section = "environment.skyrl_gym.gsm8k_judge"
    return [
        f"data.train_data=['{data}/train.parquet']",
        f"data.val_data=['{data}/validation.parquet']",
        "data.dataloader.num_workers=0",
        "environment.env_class=gsm8k_judge",
        f"{section}.url={url}",
        f"{section}.on_failure=none",
        f"{section}.timeout_s=2",
        f"{section}.max_undecided=1",
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
