"""A rollout's batch, and the configuration that decides its reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from transformers import PreTrainedTokenizerFast
from verl import DataProto

RESPONSES = ["9 * 2 = 18\n#### 18", "#### 17", "The answer is 18."]
REWARDS = [1.0, 0.0, 1.0]
LENGTH = 24


def configured(
    url: str | None, tokenizer: Path, manager: str = "naive", use_v1: bool = True, **settings: Any
) -> DictConfig:
    """The part of verl's configuration that decides the reward.

    Args:
        url: the service.
        tokenizer: a folder.
        manager: verl's "naive" or the adapter's "DecidedRewardManager".
        use_v1: whether verl's V1 trainer runs.
        settings: further ``reward_kwargs``.
    """
    function = {
        "path": "pkg://reward_serve_verl",
        "name": "compute_score",
        "reward_kwargs": {"url": url, "timeout_s": 20, "max_attempts": 2, **settings},
    }
    module = {"path": "pkg://reward_serve_verl.training"}
    managed: dict[str, Any] = {"source": "register", "name": manager, "module": None}
    if manager != "naive":
        managed |= {"source": "importlib", "module": module}
    return OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": function,
                "reward_manager": managed,
                "reward_model": {"enable": False},
            },
            "actor_rollout_ref": {"model": {"path": str(tokenizer), "tokenizer_path": None}},
            "trainer": {"use_v1": use_v1, "experiment_name": "first run"},
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
