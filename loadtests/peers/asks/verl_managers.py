"""verl's reward managers with the ``compute_score`` of the tutorial for its remote judge.

Typed anew from ``llm_judge_remote.py`` and ``llm_judge_client.py``: its prompt, its session (three
retries, backoff 0.5, pooled), its reading of ``REWARD:``, and 0.0 where there is none. The eight
workers of verl's reward loop are one process here, with the 256 threads they would have together.
``reward.max_concurrent`` and ``timeout`` as in ``RateLimitedRewardManager``'s documentation.
"""

from __future__ import annotations

import asyncio
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import requests
import torch
from omegaconf import OmegaConf
from requests.adapters import HTTPAdapter
from transformers import AutoTokenizer
from urllib3.util.retry import Retry
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from loadtests.peers.lines import CALL_S, MAX_TOKENS, MODEL, URL, Row, answer, each

PROMPT = Path(__file__).with_name("verl.txt").read_text(encoding="utf-8")
session = requests.Session()
retries = Retry(
    total=3,
    backoff_factor=0.5,
    status_forcelist=[429, 500, 502, 503, 504],
    allowed_methods=["POST"],
)
session.mount("http://", HTTPAdapter(pool_connections=1028, pool_maxsize=1028, max_retries=retries))
folder = os.environ["PEER_TOKENIZER"]
tokenizer = AutoTokenizer.from_pretrained(folder)
manager = {"source": "register", "name": os.environ["PEER_VARIANT"], "module": None}
config = {
    "reward": {
        "custom_reward_function": {
            "path": "pkg://loadtests.peers.asks.verl_managers", "name": "compute_score",
            "reward_kwargs": {},
        },
        "reward_manager": manager, "reward_model": {"enable": False}, "max_concurrent": 64,
        "timeout": 60.0,
    },
    "actor_rollout_ref": {"model": {"path": folder, "tokenizer_path": None}},
}  # fmt: skip


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any]
) -> float:
    """The tutorial's reward: what the judge wrote, or 0.0."""
    fields = {"REFERENCE_SOLUTION": ground_truth, "CANDIDATE_SOLUTION": solution_str}
    prompt = PROMPT.format(PROBLEM=extra_info["problem"], **fields)
    body = {
        "model": MODEL, "messages": [{"role": "user", "content": prompt}], "temperature": 0.7,
        "top_p": 0.8, "max_tokens": MAX_TOKENS,
    }  # fmt: skip
    try:
        reply = session.post(f"{URL}/chat/completions", json=body, timeout=CALL_S)
        reply.raise_for_status()
        text = reply.json()["choices"][0]["message"]["content"] or ""
    except Exception:
        return 0.0
    found = re.search(r"REWARD:\s*([0-9]*\.?[0-9]+)", text, re.IGNORECASE)
    plain = re.findall(r"\b(0\.\d{1,3}|1\.0{1,3}|0|1)\b", text)
    score = float(found[1] if found else plain[-1] if plain else 0.0)
    return max(0.0, min(1.0, score))


async def step(rows: list[Row]) -> None:
    """All rows at once, by verl's own worker."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(256))
    worker = RewardLoopWorker(OmegaConf.create(config))

    async def score(row: Row) -> float:
        ids = torch.tensor([tokenizer.encode(row["response"])])
        columns = {
            "data_source": "llm_judge_remote", "reward_model": {"ground_truth": row["reference"]},
            "extra_info": {"problem": row["question"]},
        }  # fmt: skip
        batch = DataProto.from_dict(
            tensors={"responses": ids, "attention_mask": torch.ones_like(ids)},
            non_tensors={key: np.array([value], dtype=object) for key, value in columns.items()},
        )
        return float((await worker.compute_score(batch))["reward_score"])

    await each(score)(rows)


if __name__ == "__main__":
    answer(step)
