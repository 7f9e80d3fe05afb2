"""Conversations with tools, by TRL 1.16's own loops: what is asked, and which rewards arrive.

Real: chat template, parsing of calls, tools, rewards, a training step. Fake: the sampled texts.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from reward_serve.client import ScoringError
from reward_serve.client.rows import RefusedRowError
from reward_serve_trl import judge_reward
from tests.fake_service import FakeService, Reply, dead_url, verdicts
from tests.tool_turns import PROMPT, SAMPLES, messages, multiply, texts

REWARDS = [[1.0], [0.0], [np.nan], [np.nan]]


class Calculator:
    multiply = staticmethod(multiply)

    def reset(self, **row: Any) -> None: ...


def tokenizer() -> PreTrainedTokenizerFast:
    """Of bytes, with Qwen3's chat template."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    marks = {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=words, **marks)
    fast.chat_template = qwen3_chat_template
    return fast


def trained(out: Path, reward: Any, steps: int = 1, **tools: Any) -> Any:
    """GRPOTrainer after steps on a group each; ``rewards`` are what it got in the last."""
    ids = tokenizer()
    script: list[list[str]] = []

    class Scripted(GRPOTrainer):  # type: ignore[misc]  # trl is untyped here
        def _generate_single_turn(self, *_: Any, **__: Any) -> Any:
            """The next turn of each sample that has one: the others called no tool."""
            if not any(script):
                script[:] = map(texts, SAMPLES)
            turns = [ids.encode(rest.pop(0) + "<|im_end|>") for rest in script if rest]
            return turns, None

        def _calculate_rewards(self, *batch: Any) -> Any:
            self.rewards = super()._calculate_rewards(*batch)
            return self.rewards

    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = LlamaConfig(vocab_size=len(ids), num_attention_heads=1, **shape)
    args = GRPOConfig(
        output_dir=str(out), use_cpu=True, bf16=False, max_steps=steps, report_to="none",
        num_generations=4, per_device_train_batch_size=4, save_strategy="no",
        max_completion_length=1000,
    )  # fmt: skip
    rows = Dataset.from_list([{"prompt": PROMPT, "answer": "18"}] * 2)
    model = LlamaForCausalLM(config)
    trainer = Scripted(model, reward, args, rows, processing_class=ids, **tools)
    trainer.train()
    return trainer


def assert_asked(service: FakeService, **fields: Any) -> None:
    """Each step's call asks about all conversations and their tool."""
    fields |= {"reference": ["18"], "tools": [get_json_schema(multiply)]}
    ignored = ("id", "timeout_s", "group", "metadata")
    expected = [{"messages": messages(sample, name="multiply"), **fields} for sample in SAMPLES]
    for call in service.calls:
        asked = [
            {k: v for k, v in request.items() if k not in ignored}
            for request in call.body["requests"]
        ]
        assert asked == expected


@pytest.mark.parametrize("tools", [{"tools": [multiply]}, {"environment_factory": Calculator}])
def test_the_trainers_conversations_and_tools_are_judged_and_turns_are_logged(
    tools: dict[str, Any], tmp_path: Path
) -> None:
    out, log = tmp_path / "first-run", tmp_path / "log"
    with FakeService(log=log) as service:
        trainer = trained(out, judge_reward(url=service.url, turns=True), steps=2, **tools)

    keys = [
        tuple(line[key] for key in ("run", "step", "group", "sample")) for line in verdicts(log)
    ]
    assert sorted(keys) == [
        ("first-run", step, f"{step}-0", f"{step}-0-{place}")
        for step in (0, 1)
        for place in range(4)
    ]
    np.testing.assert_array_equal(trainer.rewards, REWARDS)
    assert_asked(service, turns=True)
    turns = ["[null, 1.0]", "[0.0]", "[null]", "[null, null, null]"]
    assert list(trainer._logs["extra"]["judge_turns"]) == turns


@pytest.mark.parametrize(
    ("mistake", "error"),
    [({"model": "jugde"}, "no model is named 'jugde'"), ({}, "HTTP 401: unknown API key")],
)
@pytest.mark.parametrize("on_failure", ["none", "rule"])
def test_a_typo_ends_a_run(
    tmp_path: Path, mistake: dict[str, str], error: str, on_failure: str
) -> None:
    with FakeService() as service:
        if not mistake:
            service.replies["/v1/score/batch"] = Reply({"detail": "unknown API key"}, 401)
        reward = judge_reward(url=service.url, on_failure=on_failure, **mistake)
        with pytest.raises((RefusedRowError, ScoringError), match=error):
            trained(tmp_path, reward, tools=[multiply])


def test_without_a_service_every_reward_is_absent(tmp_path: Path) -> None:
    trainer = trained(tmp_path, judge_reward(url=dead_url(), timeout_s=0.2), tools=[multiply])
    assert trainer.rewards.isnan().all()
