"""What trainers send to a teacher and read of its answer, of those that cannot be installed here.

Written after their code, whose repository, commit and file each names. Each returns the numbers
that the trainer would train on: the log-probabilities of the last ``scored`` of ``ids``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import requests
import torch
from httpx import Response
from openai import OpenAI

Peer = Callable[[str, list[int], int], list[float]]

TIMEOUT_S = 60


def _post(url: str, body: dict[str, Any]) -> Any:
    answer = requests.post(url, json=body, timeout=TIMEOUT_S)
    answer.raise_for_status()
    return answer.json()


def slime(url: str, ids: list[int], scored: int) -> list[float]:
    """THUDM/slime 624b824a, ``slime/rollout/on_policy_distillation.py``."""
    sampling = {"temperature": 1.0, "max_new_tokens": 0, "skip_special_tokens": False}
    body = {"input_ids": ids, "sampling_params": sampling, "return_logprob": True}
    answer = _post(f"{url}/generate", {**body, "logprob_start_len": 0})
    entries = answer["meta_info"]["input_token_logprobs"][1:]
    return torch.tensor([entry[0] for entry in entries], dtype=torch.float32)[-scored:].tolist()


def prime_rl(url: str, ids: list[int], scored: int) -> list[float]:
    """PrimeIntellect-ai/prime-rl 559b4477, ``src/prime_rl/utils/client.py``."""
    from vllm.entrypoints.scale_out.token_in_token_out.protocol import GenerateResponse

    sampling = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "prompt_logprobs": 1}
    raw = OpenAI(base_url=f"{url}/v1", api_key="EMPTY").post(
        f"{url}/inference/v1/generate",
        cast_to=Response,
        body={"model": "teacher", "token_ids": ids, "sampling_params": sampling},
    )
    answer = GenerateResponse.model_validate_json(raw.content)
    values = [
        (next(iter(entry.values())).logprob or 0.0) if entry else 0.0
        for entry in answer.prompt_logprobs or []
    ]
    if len(values) != len(ids):
        raise ValueError("reference logprobs must align with branch tokens")
    return values[-scored:]


def rllm(url: str, ids: list[int], scored: int) -> list[float]:
    """rllm-org/rllm 9beb6e0f, ``rllm/engine/rollout/openai_engine.py``, ``trainer/distill``."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    sampling: Any = {"max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 1.0, "top_p": 1.0}
    for attempt in range(3):
        try:
            answer = client.completions.create(model="teacher", prompt=ids, **sampling)
            break
        except openai.OpenAIError:
            if attempt == 2:
                raise
    whole = (answer.choices[0].logprobs.token_logprobs or [])[: answer.usage.prompt_tokens]
    values = whole[len(ids) - scored :]
    return [float(value) for value in values] + [0.0] * (scored - len(values))


def areal(url: str, ids: list[int], scored: int) -> list[float]:
    """areal-project/AReaL cbff54d6, ``areal/engine/vllm_remote.py``."""
    settings = {
        "max_tokens": 1,
        "temperature": 0.0,
        "logprobs": 1,
        "prompt_logprobs": 1,
        "echo": True,
    }
    answer = _post(f"{url}/v1/completions", {"prompt": ids, **settings})
    entries = answer["choices"][0]["prompt_logprobs"]
    if len(entries) < scored + 1:
        raise ValueError("prompt_logprobs too short")
    tops = [next(iter(entry.values())) if entry else {"logprob": 0.0} for entry in entries]
    return [float(top["logprob"]) for top in tops[-scored:]]


PEERS: dict[str, tuple[Peer, bool]] = {
    "AReaL": (areal, False),
    "prime-rl": (prime_rl, True),
    "rllm": (rllm, True),
    "slime": (slime, False),
}
"""Each trainer's client, and whether it asks again after a failure."""
