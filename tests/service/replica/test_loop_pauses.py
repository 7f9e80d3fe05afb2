"""No item, whatever its fields, keeps a replica's event loop from others for long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from reward_serve.config.models import ClassifierModel, JudgeModel, RuleModel
from reward_serve.engines.base import LabelOutput, LogitsOutput, Prompt, Sampling, TextOutput
from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import FailureLog
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.classifier import Classifier
from reward_serve.reward_models.judge import Judge
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import (
    MAX_ITEM_BYTES,
    MAX_REFERENCES,
    Usage,
)
from tests.pauses import LONGEST_S, shortest_pause
from tests.service.engines.test_tokenizer import byte_level, hub_tokenizer
from tests.tiers import share

CHAT = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}:"

PARTS = [
    *("½ ", "e\u0301", "1 000 ", "18%", "\u202e18", "\U0001f600", "\\boxed{18} ", "\\frac{1}{2} "),
    *("#### 18\n", "A: ", "x = 18. ", "the 18 and one. ", "I 1 - 1. ", "<think>", "<|im_end|>"),
    *("one hundred and ", "The answer is 18, no, ", "{response}", "REWARD: "),
]  # fmt: skip


class FakeEngine:
    """A context of 4,096 tokens, a token for each byte, and no forward pass."""

    max_model_len = 4096

    def __init__(self) -> None:
        self.tokenizer = ChatTokenizer(hub_tokenizer(byte_level(), chat_template=CHAT))

    def describe(self) -> dict[str, str]:
        return {}

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        await asyncio.sleep(0.01)  # as a step of an engine, all of whose answers arrive at once
        return LabelOutput({label: -1.0 - i for i, label in enumerate(labels)}, Usage())

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        await asyncio.sleep(0.01)
        return TextOutput("REWARD: 1\nVERDICT: 1", False, Usage())

    async def logits(self, token_ids: Sequence[int]) -> LogitsOutput:
        await asyncio.sleep(0.01)
        return LogitsOutput([0.5], Usage())

    async def fatal_error(self) -> str | None:
        return None

    def close(self) -> None: ...


def judge(**settings: Any) -> Judge:
    config = {"inline_templates": True, "audit_rate": 1.0, **settings}
    model = JudgeModel.model_validate({"name": "m", "kind": "judge", "judge": config})
    return Judge(model, FakeEngine())


def rule(verifier: str) -> RuleRewardModel:
    return RuleRewardModel(
        RuleModel.model_validate({"name": "m", "kind": "rule", "rule": {"verifier": verifier}})
    )


def classifier() -> Classifier:
    model = {"name": "m", "kind": "classifier", "engine": {"model": "some/classifier"}}
    return Classifier(ClassifierModel.model_validate(model), FakeEngine())


MODELS: dict[str, Callable[[], Any]] = {
    "judge": judge,
    "judge of solutions": lambda: judge(template="solution"),
    "gsm8k": lambda: rule("gsm8k"),
    "numeric": lambda: rule("numeric"),
    "classifier": classifier,
}


def text(part: str, characters: int) -> str:
    return (part * (characters // len(part) + 1))[:characters]


def fields(part: str) -> dict[str, dict[str, Any]]:
    """Items with this text in each field, at the field's limit or beyond it."""
    whole = (MAX_ITEM_BYTES - 100_000) * len(part) // len(part.encode())
    each = whole // MAX_REFERENCES
    several = [f"{i} {text(part, each)} #### {i}" for i in range(MAX_REFERENCES)]
    short = [f"{i} {text(part, 40)} #### {i}" for i in range(MAX_REFERENCES)]
    turns = [{"role": r, "content": text(part, 4_000)} for r in ("user", "assistant")] * 99
    return {
        "response": {"response": text(part, whole)},
        "response of 65,000": {"response": text(part, 65_000)},
        "response, 64 references": {"response": text(part, 200_000), "reference": short},
        "reference": {"reference": text(part, whole)},
        "references": {"reference": several},
        "question": {"question": text(part, whole)},
        "messages": {"messages": [*turns, turns[0]], "question": None},
        "inline template": {"template": "{CANDIDATE_SOLUTION}" + text(part, 15_900)},
        "metadata, numbers": {"metadata": {"a": [1] * 16_000}},
        "metadata, too large": {"metadata": {"a": [[], {}] * 100_000, "b": text(part, 10**6)}},
        "unknown fields": {f"{part}{i}": i for i in range(200_000)},
        "too many references": {"reference": [part] * 200_000},
    }


SIZES = list(fields("1"))


def item(part: str, size: str) -> dict[str, Any]:
    usual = {"response": "It is 17, so 18.", "reference": "#### 18", "question": "What is 2 + 3?"}
    return {**usual, **fields(part)[size]}


async def check(kind: str, items: Sequence[Any]) -> float:
    """The longest pause while a replica scores the items."""
    model = MODELS[kind]()

    def scored() -> Coroutine[Any, Any, Any]:
        scorer = Scorer("m", model, Admission(64, 4096), 1024, observers=[FailureLog("m")])
        return scorer.score_batch(list(items))

    return await shortest_pause(scored)


def some(count: int, seed: int) -> list[tuple[str, str, str]]:
    draw = random.Random(seed)
    return [
        (draw.choice(list(MODELS)), draw.choice(SIZES), draw.choice(PARTS)) for _ in range(count)
    ]


@pytest.mark.parametrize(("kind", "size", "part"), some(share(40, 10), seed=7))
async def test_an_item_at_its_limits_lets_others_pass(kind: str, size: str, part: str) -> None:
    assert await check(kind, [item(part, size)]) < LONGEST_S


BATCHES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "prompts that are slow to render": lambda: [
        {"response": text("½ ", 2_000), "reference": f"{i} 18"} for i in range(share(64, 12))
    ],
    "responses that are slow to read": lambda: [
        {"response": text("A:", 16_000 - i), "reference": "18"} for i in range(share(64, 16))
    ],
    "metadata of many values": lambda: [{"metadata": {"a": [1] * 16_000}}] * 64,
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", ["judge", "gsm8k"])
async def test_a_batch_lets_others_pass(kind: str, batch: str) -> None:
    items = [{"response": "It is 17.", "reference": "18", **each} for each in BATCHES[batch]()]
    assert await check(kind, items) < LONGEST_S


@pytest.mark.parametrize("kind", ["judge", "gsm8k"])
async def test_an_explanation_lets_others_pass(kind: str) -> None:
    asked = {"response": text("A: ", 190_000) + f"\n#### {'1 - ' * 45}", "reference": "18"}
    scorer = Scorer("m", MODELS[kind](), Admission(64, 4096), 1)
    assert await shortest_pause(lambda: scorer.explain(asked)) < LONGEST_S
