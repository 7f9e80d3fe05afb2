"""What runs of SkyRL's own trainers on a CPU share: data, settings, tracker, a policy's replies."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from examples.gsm8k.prepare_dataset import Variant, prepared, write

ROWS = [{"question": f"What is {n} + 1?", "answer": f"It is.\n#### {n + 1}"} for n in range(12)]
_WORKERS = "skyrl.backends.skyrl_train.workers.fsdp.fsdp_worker"


class Policy:
    """An inference client that answers from the data; ``text`` says what."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    async def text(self, number: int) -> str:
        """The response to ``What is {number} + 1?``."""
        raise NotImplementedError

    async def generate(self, engine_input: Any, model: str | None = None) -> dict[str, Any]:
        (ids,) = engine_input["prompt_token_ids"]
        number = int(self._tokenizer.decode(ids).partition("What is ")[2].partition(" +")[0])
        text = await self.text(number)
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
        self.tables: dict[int, list[tuple[Any, ...]]] = {}

    def log(self, data: Mapping[str, Any], step: int, commit: bool = False) -> None:
        self.steps.setdefault(step, {}).update(data)

    def log_samples_to_table(
        self, key: str, columns: list[str], samples: list[tuple[Any, ...]], step: int
    ) -> None:
        assert {len(sample) for sample in samples} == {len(columns)}
        self.tables[step] = samples

    def finish(self) -> None: ...
    def log_exception(self, error: Exception, step: int) -> None: ...


def write_rows(folder: Path) -> None:
    """Write the rows as SkyRL reads them."""
    for split in ("train", "validation"):
        write(prepared(ROWS, split, Variant.judge), folder / f"{split}.parquet")


def without_worker_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for SkyRL's FSDP workers, whose module needs flash-attn."""
    workers = ModuleType(_WORKERS)
    for name in ("CriticWorker", "PolicyWorker", "RefWorker"):
        setattr(workers, name, None)
    monkeypatch.setitem(sys.modules, _WORKERS, workers)


def settings(data: Path, policy: str, url: str, prompts: int, samples: int) -> list[str]:
    """One epoch over the rows, with neither evaluation nor checkpoints.

    Args:
        data: the folder of the rows.
        policy: the folder of the policy's tokenizer.
        url: the service.
        prompts: of a step.
        samples: of a prompt.
    """
    return [
        f"data.train_data=['{data}/train.parquet']",
        f"data.val_data=['{data}/validation.parquet']",
        "data.dataloader.num_workers=0",
        "environment.env_class=gsm8k_judge",
        f"environment.skyrl_gym.gsm8k_judge.url={url}",
        f"trainer.policy.model.path={policy}",
        "trainer.placement.colocate_all=false",
        "trainer.algorithm.use_kl_loss=false",
        f"trainer.train_batch_size={prompts}",
        f"trainer.policy_mini_batch_size={prompts}",
        "trainer.epochs=1",
        "trainer.eval_interval=-1",
        "trainer.ckpt_interval=-1",
        "trainer.hf_save_interval=-1",
        "trainer.resume_mode=none",
        "trainer.enable_ray_gpu_monitor=false",
        "trainer.logger=console",
        f"trainer.ckpt_path={data}/checkpoints",
        f"trainer.export_path={data}/exports",
        f"generator.n_samples_per_prompt={samples}",
        "generator.batched=false",
        "generator.inference_engine.enable_ray_prometheus_stats=false",
    ]
