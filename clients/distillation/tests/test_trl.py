"""TRL 1.16's own distillation clients against a deployed teacher, a fifth of whose calls fail."""

from __future__ import annotations

import asyncio
import queue
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import requests
import torch
from accelerate.state import PartialState
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase
from trl.experimental.async_distillation import async_rollout_worker
from trl.experimental.async_distillation.async_rollout_worker import _AsyncRolloutLoop
from trl.experimental.server_distillation import (
    ServerDistillationConfig,
    ServerDistillationTrainer,
)
from trl.generation.vllm_client import VLLMClient

from clients.distillation.tests.conftest import Expected, Logprobs, Sequence
from clients.distillation.tests.faults import Faults
from tests.fake_service import FakeService, Reply, dead_url

TOP_K = 8


def rollouts(url: str, teacher: str, tokenizer: PreTrainedTokenizerBase) -> Any:
    """TRL's rollout loop, as its child process has it; the student's server is at ``url``."""
    PartialState()
    rows = [{"prompt": [{"role": "user", "content": f"What is {n} + {n}?"}]} for n in range(40)]
    return _AsyncRolloutLoop(
        model_name="teacher",
        dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        eos_token_ids=[tokenizer.eos_token_id],
        rollout_buffer=queue.Queue(),
        model_version_value=SimpleNamespace(value=0),
        heartbeat_value=SimpleNamespace(value=0.0),
        failed_event=threading.Event(),
        exception_info_queue=queue.Queue(1),
        metrics_queue=queue.Queue(),
        max_inflight_tasks=4,
        vllm_server_url=url,
        teacher_server_urls={"default": teacher},
        teacher_top_k=TOP_K,
        max_tokens=12,
    )


def test_the_async_worker_trains_on_the_teachers_numbers_alone(
    url: str, tokenizer: PreTrainedTokenizerBase, logprobs: Logprobs
) -> None:
    with Faults(url) as proxy:
        loop = rollouts(url, proxy.url, tokenizer)
        thread = threading.Thread(target=loop.run)
        thread.start()
        samples = [loop.rollout_buffer.get(timeout=120) for _ in range(20)]
        loop._loop.call_soon_threadsafe(loop._stop_event.set)
        thread.join(60)
    assert proxy.faults >= 3
    assert not loop._failed_event.is_set()
    for sample in samples:
        ids = sample.input_ids.tolist()
        table = logprobs(ids)
        for place in sample.completion_mask.nonzero()[0]:
            row = table[place - 1]
            kept = sample.teacher_topk_ids[place] >= 0
            candidates = torch.from_numpy(sample.teacher_topk_ids[place][kept])
            assert {ids[place], *row.topk(TOP_K).indices.tolist()} == set(candidates.tolist())
            numbers = torch.from_numpy(sample.teacher_topk_logprobs[place][kept])
            assert torch.allclose(numbers, row[candidates], atol=1e-3)


@pytest.mark.parametrize("teacher", ["absent", "refuses"])
def test_without_numbers_the_async_worker_ends_after_505_s(
    teacher: str, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def paused(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def score(asked: str) -> None:
        loop = rollouts(asked, asked, tokenizer)
        async with aiohttp.ClientSession() as loop.session:
            await loop._score_with_teacher([5] * 600, [6, 7], asked, "teacher")

    monkeypatch.setattr(async_rollout_worker.asyncio, "sleep", paused)
    with FakeService() as service, pytest.raises(aiohttp.ClientError):
        service.replies["/v1/completions"] = Reply({"detail": "too long"}, 400)
        asyncio.run(score(service.url if teacher == "refuses" else dead_url()))
    assert len(pauses) == 89
    assert sum(pauses) == 505


@pytest.mark.parametrize("top_k", [1, 100])
def test_the_synchronous_client_reads_the_teachers_numbers(
    top_k: int, url: str, sequences: list[Sequence], logprobs: Logprobs, expected: Expected
) -> None:
    prompts = [len(prompt) for prompt, _ in sequences]
    whole = [prompt + response for prompt, response in sequences]
    client = VLLMClient(base_url=url)
    assert client.model == "teacher"
    result = client.get_sequence_logprobs(whole, prompts, top_logprobs=top_k, chunk_size=4)
    for number, (prompt, response) in enumerate(sequences):
        table = logprobs(prompt + response)[-len(response) :]
        best, ids = (
            torch.tensor(result[name][number]) for name in ("logprobs", "logprob_token_ids")
        )
        assert torch.allclose(best, table.topk(top_k).values, atol=1e-3)
        assert torch.allclose(best, table.gather(1, ids), atol=1e-3)
        sampled = [value for (value,) in result["actual_logprobs"][number]]
        assert sampled == expected(prompt, response)


def test_of_the_synchronous_client_a_cut_answer_ends_the_run(
    url: str, sequences: list[Sequence], expected: Expected
) -> None:
    """It asks again after a lost connection or a 503, and not after half of an answer."""
    absent = 0
    with Faults(url) as proxy:
        client = VLLMClient(base_url=proxy.url)
        for prompt, response in sequences:
            try:
                result = client.get_sequence_logprobs([prompt + response], [len(prompt)], 1)
            except requests.RequestException:
                absent += 1
                continue
            assert [value for (value,) in result["actual_logprobs"][0]] == expected(
                prompt, response
            )
    assert absent == proxy.calls["cut"] > 0
    assert proxy.calls["dropped"] > 0
    assert proxy.calls["overloaded"] > 0
    with pytest.raises(requests.ConnectionError):
        VLLMClient(base_url=dead_url())


def test_the_server_trainer_steps_on_the_teachers_numbers(
    url: str, tokenizer: PreTrainedTokenizerBase, expected: Expected, tmp_path: Path
) -> None:
    student = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2,
        )
    )  # fmt: skip
    steps: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []

    class Watched(ServerDistillationTrainer):  # type: ignore[misc]  # trl is untyped here
        def _get_teacher_token_logprobs_from_server(self, inputs: Any, length: int) -> Any:
            result = super()._get_teacher_token_logprobs_from_server(inputs, length)
            steps.append((inputs, result))
            return result

    trainer = Watched(
        student,
        args=ServerDistillationConfig(
            str(tmp_path), teacher_model_server_url=url, max_steps=2, max_completion_length=8,
            per_device_train_batch_size=2, use_cpu=True, report_to=[], save_strategy="no",
        ),
        train_dataset=Dataset.from_dict({"prompt": [f"What is {n} + {n}?" for n in range(4)]}),
        processing_class=tokenizer,
    )  # fmt: skip
    assert trainer.train().training_loss > 0
    assert len(steps) == 2
    for inputs, result in steps:
        for row, mask, labels, sampled in zip(
            inputs["input_ids"], inputs["attention_mask"], inputs["labels"],
            result["actual_logprobs"], strict=True,
        ):  # fmt: skip
            ids, scored = row[mask.bool()].tolist(), int((labels != -100).sum())
            assert sampled[:scored].tolist() == expected(ids[:-scored], ids[-scored:])
