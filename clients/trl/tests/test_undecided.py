"""Undecided samples in TRL 1.16's own GRPOTrainer: what is left out, and what still counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from reward_serve_trl import judge_components, judge_reward
from tests.fake_rubric import containing, fake_rubric
from tests.fake_service import FakeService

FOUR = [1.0, 0.0, None, 0.0]
BLANK = -1
EIGHT = [1.0, None, 0.0, 0.0, None, 1.0, 1.0, 0.5]


class Watch(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """The gradient of each optimiser step."""

    def __init__(self) -> None:
        self.gradients: list[torch.Tensor] = []

    def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        self.gradients.append(torch.cat(grads).clone())


def tokens(number: int) -> list[int]:
    return (
        []
        if number == BLANK
        else [3 + (5 * number + 2 * place) % 20 for place in range(2 + number % 3)]
    )


def _returns(rewards: Sequence[float | None]) -> Callable[..., Any]:
    return lambda **_: list(rewards)


def train(
    rewards: Sequence[float | None],
    numbers: Sequence[int],
    out: Path,
    reward: Callable[..., Any] | None = None,
    others: Sequence[Sequence[float | None]] = (),
    components: Sequence[Callable[..., Any]] = (),
    row: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The gradient of a step on the completions of these numbers."""
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
    aggregation = "normalize_then_sum" if others or components else "sum_then_normalize"
    trainer = GRPOTrainer(
        model=model,
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=letters, pad_token="a", eos_token="b"
        ),
        args=GRPOConfig(
            output_dir=str(out), use_cpu=True, bf16=False, max_steps=1, report_to="none",
            num_generations=len(rewards), per_device_train_batch_size=len(rewards),
            max_grad_norm=0.0, learning_rate=0.01, save_strategy="no",
            max_completion_length=8,
            multi_objective_aggregation=aggregation,
        ),
        train_dataset=Dataset.from_list([{"prompt": "cd", **(row or {"answer": None})}] * 2),
        reward_funcs=[*components] or [reward or _returns(rewards), *map(_returns, others)],
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
    got = train(rewards, range(len(rewards)), tmp_path)
    without = train([rewards[n] for n in decided], decided, tmp_path)
    share = sum(len(tokens(n)) + 1 for n in decided) / sum(
        len(tokens(n)) + 1 for n in range(len(rewards))
    )

    assert without.abs().max() > 1e-3
    torch.testing.assert_close(got, without * share, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rewards", [[None, 1.0, None, None], [None] * 4])
def test_a_lone_survivor_or_none_has_no_gradient_but_an_optimiser_step(
    rewards: list[float | None], tmp_path: Path
) -> None:
    assert not train(rewards, range(4), tmp_path).any()  # ``train`` found one optimiser step


def test_a_group_is_judged_in_one_call_and_trains_on_its_scores(tmp_path: Path) -> None:
    numbers = [0, 1, BLANK, 2]
    rewards: list[float | None] = []

    with FakeService() as service:
        judged = judge_reward(url=service.url, reference=None, group_size=4)

        async def reward(**batch: Any) -> list[float | None]:
            rewards.extend(await judged(**batch))
            return rewards

        got = train(FOUR, numbers, tmp_path, reward=reward)
        (call,) = service.calls
    lengths = list(map(len, call.body["responses"]))
    expected = train(rewards, numbers, tmp_path)

    assert (call.path, call.body["question"]) == ("/v1/score/group", "cd")
    assert rewards == [length / max(lengths) if length else None for length in lengths]
    assert rewards[2] is None and len(set(rewards)) == 4
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-9)


def test_an_absent_component_touches_only_its_own_baseline(tmp_path: Path) -> None:
    true, brief = [1.0, 0.0, 1.0, 0.0], [0.2, None, 0.4, 0.9]
    summed = [a + (b or 0.0) for a, b in zip(normalised(true), normalised(brief), strict=True)]
    expected = train(summed, range(4), tmp_path)
    got = train(true, range(4), tmp_path, others=[brief])

    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)


def test_a_row_with_a_rubric_and_no_reference_is_judged_by_its_components(tmp_path: Path) -> None:
    rubric = containing(first="f", last="t, unless k")  # completions: d f, i k m, n p r t, s u
    with FakeService(model=fake_rubric()) as service:
        parts = judge_components("first", "last", rubric="rubric", url=service.url)
        got = train(FOUR, range(4), tmp_path, components=parts, row={"rubric": rubric})
        (call,) = service.calls
    first, last = [1.0, 0.0, 0.0, 0.0], [0.0, None, 1.0, 0.0]
    expected = train(first, range(4), tmp_path, others=[last])

    assert [set(one) & {"reference", "question"} for one in call.body["requests"]] == [set()] * 4
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


def normalised(rewards: Sequence[float | None]) -> list[float | None]:
    """Each score's distance from the mean of those that exist, in their standard deviations."""
    there = torch.tensor([reward for reward in rewards if reward is not None])
    mean, std = there.mean(), there.std()
    return [None if r is None else float((r - mean) / (std + 1e-4)) for r in rewards]
