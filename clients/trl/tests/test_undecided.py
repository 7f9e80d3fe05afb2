"""Undecided samples in TRL 1.16's own GRPOTrainer: what is left out, and what still counts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from reward_serve_trl import judge_components
from tests.fake_service import FakeService, Reply

FOUR = [1.0, 0.0, None, 0.0]
EIGHT = [1.0, None, 0.0, 0.0, None, 1.0, 1.0, 0.5]


class Watch(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """The gradient of each optimiser step."""

    def __init__(self) -> None:
        self.gradients: list[torch.Tensor] = []

    def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        self.gradients.append(torch.cat(grads).clone())


def tokens(number: int) -> list[int]:
    return [3 + (5 * number + 2 * place) % 20 for place in range(2 + number % 3)]


def result_of(scores: Sequence[float | None]) -> dict[str, Any]:
    """A service's result with a component for each score; None where it failed."""
    parts = [{"score": s, "status": "error" if s is None else "ok"} for s in scores]
    return {"status": "ok", "score": 0.5, "components": {str(n): p for n, p in enumerate(parts)}}


def train(numbers: Sequence[int], out: Path, *rewards: Sequence[float | None]) -> torch.Tensor:
    """The gradient of a step on the completions of these numbers, with these components."""
    vocabulary = {chr(ord("a") + n): n for n in range(26)}
    letters = Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=26, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2,
        )
    )  # fmt: skip
    completions = [[*tokens(number), 1] for number in numbers]
    watch = Watch()
    aggregation = "normalize_then_sum" if len(rewards) > 1 else "sum_then_normalize"
    with FakeService() as service:
        results = list(map(result_of, zip(*rewards, strict=True)))
        service.replies["/v1/score/batch"] = Reply({"results": results})
        trainer = GRPOTrainer(
            model=model,
            processing_class=PreTrainedTokenizerFast(
                tokenizer_object=letters, pad_token="a", eos_token="b"
            ),
            args=GRPOConfig(
                output_dir=str(out), use_cpu=True, bf16=False, max_steps=1, report_to="none",
                num_generations=len(numbers), per_device_train_batch_size=len(numbers),
                max_grad_norm=0.0, learning_rate=0.01, save_strategy="no",
                max_completion_length=8,
                multi_objective_aggregation=aggregation,
            ),
            train_dataset=Dataset.from_list([{"prompt": "cd"}] * 2),
            reward_funcs=[*judge_components(*map(str, range(len(rewards))), url=service.url)],
            rollout_func=lambda prompts, _: {
                "prompt_ids": [[2, 3] for _ in prompts],
                "completion_ids": completions,
                "logprobs": [[-3.0] * len(ids) for ids in completions],
            },
            callbacks=[watch],
        )  # fmt: skip
        trainer.train()
    (gradient,) = watch.gradients
    return gradient


@pytest.mark.parametrize("rewards", [FOUR, EIGHT], ids=["n4", "n8"])
def test_the_baseline_is_of_decided_samples_and_dapo_counts_the_others_tokens(
    rewards: list[float | None], tmp_path: Path
) -> None:
    decided = [n for n, reward in enumerate(rewards) if reward is not None]
    got = train(range(len(rewards)), tmp_path, rewards)
    without = train(decided, tmp_path, [rewards[n] for n in decided])
    share = sum(len(tokens(n)) + 1 for n in decided) / sum(
        len(tokens(n)) + 1 for n in range(len(rewards))
    )

    assert without.abs().max() > 1e-3
    torch.testing.assert_close(got, without * share, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rewards", [[None, 1.0, None, None], [None] * 4])
def test_a_lone_survivor_or_none_has_no_gradient_but_an_optimiser_step(
    rewards: list[float | None], tmp_path: Path
) -> None:
    assert not train(range(4), tmp_path, rewards).any()  # ``train`` found one optimiser step


def test_an_absent_component_touches_only_its_own_baseline(tmp_path: Path) -> None:
    true, brief = [1.0, 0.0, 1.0, 0.0], [0.2, None, 0.4, 0.9]
    summed = [a + (b or 0.0) for a, b in zip(normalised(true), normalised(brief), strict=True)]
    expected = train(range(4), tmp_path, summed)
    got = train(range(4), tmp_path, true, brief)

    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)


def normalised(rewards: Sequence[float | None]) -> list[float | None]:
    """Each score's distance from the mean of those that exist, in their standard deviations."""
    there = torch.tensor([reward for reward in rewards if reward is not None])
    mean, std = there.mean(), there.std()
    return [None if r is None else float((r - mean) / (std + 1e-4)) for r in rewards]
