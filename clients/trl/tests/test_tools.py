"""Conversations with tools, by TRL 1.16's own loops: what is asked, and which rewards arrive.

Real: chat template, parsing of calls, tools, rewards, a training step. Fake: the sampled texts.
"""

from __future__ import annotations

import asyncio
import pickle
import queue
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template
from trl.experimental.async_grpo.async_rollout_worker import RolloutGroup, _AsyncRolloutLoop

from reward_serve_trl import judge_reward
from tests.fake_service import FakeService, dead_url

PROMPT = [{"role": "user", "content": "How much is 6 * 3?"}]
CALL = '<tool_call>\n{"name": "multiply", "arguments": %s}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "multiply", "arg\n</tool_call>'
SAID = [
    [('{"a": 6, "b": 3}', "18"), "#### 18"],
    ["#### 17"],
    [BROKEN],
    [('{"a": 1, "b": 18}', "18"), ('{"a": 1, "b": NaN}', "nan"), "18 or 17, who knows?"],
]
"""Each sample's turns: a text, or a call's arguments and what the tool answers."""
REWARDS = [[1.0], [0.0], [np.nan], [np.nan]]


class Calculator:
    def reset(self, **row: Any) -> None: ...

    def multiply(self, a: float, b: float) -> float:
        """Multiply two numbers.

        Args:
            a: A factor.
            b: Another.
        """
        return a * b


def expected(**common: Any) -> list[dict[str, Any]]:
    """The requests for the samples."""
    common |= {"reference": ["18"], "tools": [get_json_schema(Calculator().multiply)]}
    requests = []
    for sample in SAID:
        turns: list[dict[str, Any]] = [*PROMPT]
        for turn in sample:
            turns.append({"role": "assistant", "content": turn})
            if isinstance(turn, tuple):
                call = {"function": {"name": "multiply", "arguments": turn[0]}}
                turns[-1] |= {"content": "", "tool_calls": [call]}
                turns.append({"role": "tool", "name": "multiply", "content": turn[1]})
        requests.append({**common, "messages": turns})
    return requests


def asked(service: FakeService) -> list[dict[str, Any]]:
    (call,) = service.calls
    own = ("id", "timeout_s")
    return [{k: v for k, v in each.items() if k not in own} for each in call.body["requests"]]


class Policy:
    """Says each sample's turns, whichever prompt comes first."""

    def __init__(self) -> None:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        words = Tokenizer(models.BPE(vocab={each: n for n, each in enumerate(letters)}, merges=[]))
        words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        words.decoder = decoders.ByteLevel()
        marks = {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **marks)
        self.tokenizer.chat_template = qwen3_chat_template
        self._texts = [[t if isinstance(t, str) else CALL % t[0] for t in each] for each in SAID]
        self._fresh = iter(self._texts)

    def __call__(self, prompt: list[int]) -> list[int]:
        seen = self.tokenizer.decode(prompt)
        begun = (texts for texts in self._texts if texts[0] in seen)
        texts = next(begun, None) or next(self._fresh)
        text = next(each for each in texts if each not in seen)
        ids: list[int] = self.tokenizer.encode(f"{text}<|im_end|>")
        return ids


def trained(out: Path, reward: Any) -> Any:
    """GRPOTrainer after a step on one group; ``rewards`` are what it got."""
    policy = Policy()

    class Scripted(GRPOTrainer):  # type: ignore[misc]  # trl is untyped here
        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
            return [policy(ids) for ids in prompt_ids], None

        def _calculate_rewards(self, *batch: Any) -> Any:
            self.rewards = super()._calculate_rewards(*batch)
            return self.rewards

    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = LlamaConfig(vocab_size=len(policy.tokenizer), num_attention_heads=1, **shape)
    args = GRPOConfig(
        output_dir=str(out), use_cpu=True, bf16=False, max_steps=1, report_to="none",
        num_generations=4, per_device_train_batch_size=4, save_strategy="no",
        max_completion_length=1000,
    )  # fmt: skip
    trainer = Scripted(
        LlamaForCausalLM(config),
        reward,
        args,
        Dataset.from_list([{"prompt": PROMPT, "answer": "18"}] * 2),
        processing_class=policy.tokenizer,
        environment_factory=Calculator,
    )
    trainer.train()
    return trainer


def test_the_trainers_conversations_and_tools_are_judged_and_turns_are_logged(
    tmp_path: Path,
) -> None:
    with FakeService() as service:
        trainer = trained(tmp_path, judge_reward(url=service.url, turns=True))

    np.testing.assert_array_equal(trainer.rewards, REWARDS)
    assert asked(service) == expected(turns=True)
    turns = ["absent, 1", "0", "absent", "absent, absent, absent"]
    assert list(trainer._logs["extra"]["judge_turns"]) == turns


def test_without_a_service_every_reward_is_absent(tmp_path: Path) -> None:
    trainer = trained(tmp_path, judge_reward(url=dead_url(), timeout_s=0.2))
    assert trainer.rewards.isnan().all()


def test_the_worker_of_async_grpo_sends_the_tools_that_the_reward_has() -> None:
    async def rewards(reward: Any) -> list[list[float]]:
        policy, tool, none = Policy(), Calculator().multiply, SimpleNamespace(value=0)
        loop = _AsyncRolloutLoop(
            model_name="", dataset=[], reward_funcs=[reward], processing_class=policy.tokenizer,
            eos_token_ids=[], rollout_buffer=none, metrics_queue=queue.Queue(), tools=[tool],
            model_version_value=none, heartbeat_value=none, failed_event=none,
            exception_info_queue=none,
        )  # fmt: skip

        async def turn(ids: list[int]) -> Any:
            said = policy(ids)
            return said, [0.0] * len(said)

        loop._generate_one_turn = turn
        done = [await loop._generate_one(PROMPT, {"multiply": tool}, [tool]) for _ in SAID]
        said, ids, rows, calls, failures, own = map(list, zip(*done, strict=True))
        columns, asked = {"answer": ["18"] * 4}, [PROMPT] * 4
        group = RolloutGroup(asked, columns, said, ids, rows, calls, failures, 0, 0, own, own)
        scored = await loop._score_group(group)
        return [[each.metrics["rewards/judge_reward"]] for each in scored]

    with FakeService() as service:
        reward = judge_reward(url=service.url, tools=[Calculator().multiply])
        found = asyncio.run(rewards(pickle.loads(pickle.dumps(reward))))

    np.testing.assert_array_equal(found, REWARDS)
    assert asked(service) == expected()
