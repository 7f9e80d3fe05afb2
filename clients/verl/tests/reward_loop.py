"""A rollout's batch, and a worker of verl 0.9.1's reward loop to score it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from transformers import PreTrainedTokenizerFast
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

RESPONSES = ["9 * 2 = 18\n#### 18", "#### 17", "The answer is 18."]
REWARDS = [1.0, 0.0, 1.0]
LENGTH = 24


def configured(
    url: str | None, tokenizer: Path, name: str = "compute_score", **settings: Any
) -> DictConfig:
    """The part of verl's configuration that decides the reward.

    Args:
        url: the service.
        tokenizer: a folder.
        name: the function of the adapter.
        settings: further ``reward_kwargs``.
    """
    function = {
        "path": "pkg://reward_serve_verl",
        "name": name,
        "reward_kwargs": {"url": url, "timeout_s": 20, "max_attempts": 2, **settings},
    }
    manager = {"source": "register", "name": "naive", "module": None}
    return OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": function,
                "reward_manager": manager,
                "reward_model": {"enable": False},
            },
            "actor_rollout_ref": {"model": {"path": str(tokenizer), "tokenizer_path": None}},
        }
    )


def rollout(tokenizer: Path, truth: str | None = "#### 18", **info: Any) -> DataProto:
    """A batch as the rollout leaves it: prompts and responses padded, with the rows' columns."""
    ids = PreTrainedTokenizerFast.from_pretrained(tokenizer)
    responses = torch.zeros(len(RESPONSES), LENGTH, dtype=torch.long)
    for row, response in enumerate(RESPONSES):
        tokens = ids.encode(response)
        responses[row, : len(tokens)] = torch.tensor(tokens)
    prompts = torch.ones(len(RESPONSES), 2, dtype=torch.long)
    columns = {
        "data_source": ["gsm8k"] * len(RESPONSES),
        "reward_model": [{"style": "rule", "ground_truth": truth} for _ in RESPONSES],
        "extra_info": [
            {"split": "train", "index": i, "question": "How much?", **info}
            for i in range(len(RESPONSES))
        ],
    }
    return DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": responses,
            "attention_mask": torch.cat([prompts, (responses > 0).long()], dim=1),
        },
        non_tensors={key: np.array(values, dtype=object) for key, values in columns.items()},
    )


def scored(config: DictConfig, tokenizer: Path) -> list[tuple[float, float]]:
    """Each row's reward and whether it was a fallback, by a worker of verl's reward loop."""

    async def run() -> list[dict[str, Any]]:
        worker = RewardLoopWorker(config)
        outputs: list[dict[str, Any]] = await worker.compute_score_batch(rollout(tokenizer))
        return outputs

    return [
        (output["reward_score"], output["reward_extra_info"]["fallback"])
        for output in asyncio.run(run())
    ]
