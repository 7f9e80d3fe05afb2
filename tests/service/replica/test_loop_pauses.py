"""No item, whatever its fields, keeps a replica's event loop from others for long."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from reward_serve.config.models import ClassifierModel, JudgeModel, RuleModel
from reward_serve.engines.base import LabelOutput, LogitsOutput, Prompt, Sampling, TextOutput
from reward_serve.engines.tokenizer import ChatTokenizer
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import FailureLog
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.classifier import Classifier
from reward_serve.reward_models.judge import Judge
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import (
    MAX_ITEM_BYTES,
    MAX_MESSAGES,
    MAX_METADATA_BYTES,
    MAX_NAME_CHARACTERS,
    MAX_REFERENCES,
    Usage,
)
from tests.pauses import LONGEST_S, shortest_pause
from tests.service.engines.test_tokenizer import byte_level, hub_tokenizer
from tests.tiers import share

CHAT = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}:"

PARTS = [
    *("½", "½ ", "e\u0301", "\u0301", "٣", "１", "1", "1 000 ", "1,", "1 1/2 ", "18%", "0.", "-"),
    *("\u202e18", "א1", "\u200b", "\U0001f600", "(", "{", "} ", "<", "\\boxed{", "\\boxed{18} "),
    *("\\frac{", "\\frac{1}{2} ", "\\sqrt", "####", "#### 18\n", "A:", "A: ", "box", "answer "),
    *(" ", "\n", "\t", "a", "i ", "x = 18. ", "the 18 and one. ", "I 1 - 1. ", "Question: 18\n"),
    *("<think>", "</think>", "<|im_start|>", "<|im_end|>", "</response>", "<answer>", "~~"),
    *("one hundred and ", "hundred thousand ", "seventeen-", "twenty, ", "The answer is 18, no, "),
    *("{response}", "{PROBLEM}", "{", "REWARD: "),
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
    "gsm8k_strict": lambda: rule("gsm8k_strict"),
    "exact": lambda: rule("exact"),
    "numeric": lambda: rule("numeric"),
    "classifier": classifier,
}


def text(part: str, characters: int) -> str:
    return (part * (characters // len(part) + 1))[:characters]


def nested(part: str) -> dict[str, Any]:
    value: Any = text(part, MAX_METADATA_BYTES // 8)
    for _ in range(31):
        value = {part[:64]: value}
    return {"a": value}


def fields(part: str) -> dict[str, dict[str, Any]]:
    """Items with this text in each field, at the field's limit or beyond it."""
    whole = (MAX_ITEM_BYTES - 100_000) * len(part) // len(part.encode("utf-8", "surrogatepass"))
    each = whole // MAX_REFERENCES
    several = [f"{i} {text(part, each)} #### {i}" for i in range(MAX_REFERENCES)]
    short = [f"{i} {text(part, 40)} #### {i}" for i in range(MAX_REFERENCES)]
    turn = text(part, whole // MAX_MESSAGES)
    return {
        "response": {"response": text(part, whole)},
        "response of 200,000": {"response": text(part, 200_000)},
        "response of 65,000": {"response": text(part, 65_000)},
        "response that ends well": {"response": text(part, 190_000) + "\n#### 18"},
        "response, 64 references": {"response": text(part, 200_000), "reference": short},
        "short response, 64 references": {"response": text(part, 4_000), "reference": short},
        "reference": {"reference": text(part, whole)},
        "reference of 16,000": {"reference": text(part, 16_000)},
        "references": {"reference": several},
        "references, equal": {"reference": [text(part, each) + "18"] * MAX_REFERENCES},
        "references and response": {
            "response": text(part, whole // 2),
            "reference": [reference[: each // 2] for reference in several],
        },
        "question": {"question": text(part, whole)},
        "messages": {
            "messages": [{"role": "user", "content": turn}, {"role": "assistant", "content": turn}]
            * 511
            + [{"role": "user", "content": turn}],
            "question": None,
        },
        "template": {"template": text(part, whole)},
        "inline template": {"template": "{CANDIDATE_SOLUTION}" + text(part, 15_900)},
        "metadata": {"metadata": {"a": text(part, MAX_METADATA_BYTES // 8)}},
        "metadata, nested": {"metadata": nested(part)},
        "metadata, numbers": {"metadata": {"a": [1] * 16_000}},
        "metadata, too large": {"metadata": {"a": [[], {}] * 100_000, "b": text(part, 10**6)}},
        "names": dict.fromkeys(("id", "group"), text(part, MAX_NAME_CHARACTERS)),
        "names, too long": dict.fromkeys(("id", "group", "model"), text(part, 10**6)),
        "options": {"options": {f"{part}{i}": i for i in range(200_000)}},
        "unknown fields": {f"{part}{i}": i for i in range(200_000)},
        "too many references": {"reference": [part] * 200_000},
        "too many messages": {"messages": [{"role": "user", "content": part}] * 200_000},
        "unknown fields of a message": {"messages": [{f"{part}{i}": i for i in range(200_000)}]},
        "values for texts": {"response": [part] * 200_000, "question": {"a": [1] * 200_000}},
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


@pytest.mark.parametrize("kind", ["judge", "judge of solutions"])
async def test_references_that_no_prompt_can_show_are_refused_at_once(kind: str) -> None:
    asked = {**item("1", "question"), "reference": ["½" * 30_000] * 16}
    assert await check(kind, [asked]) < LONGEST_S
    scorer = Scorer("m", MODELS[kind](), Admission(64, 4096), 1024)
    began = time.process_time()
    result = await scorer.score({**asked, "question": None})
    assert time.process_time() - began < 5
    assert result["status"] == "invalid"
    assert "reference: 30000 characters do not fit a prompt of 4096 tokens" in result["reason"]


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
    "long responses": lambda: [{"response": text("I 1 - 1. ", 50_000 - i)} for i in range(32)],
    "metadata of many values": lambda: [{"metadata": {"a": [1] * 16_000}}] * 64,
    "items of every kind": lambda: [
        item(part, size) for _, size, part in some(share(16, 6), seed=11)
    ],
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", ["judge", "gsm8k"])
async def test_a_batch_lets_others_pass(kind: str, batch: str) -> None:
    items = [{"response": "It is 17.", "reference": "18", **each} for each in BATCHES[batch]()]
    assert await check(kind, items) < LONGEST_S


@pytest.mark.parametrize("part", ["A: ", "1 ", "½ "])
@pytest.mark.parametrize("kind", ["judge", "gsm8k"])
async def test_an_explanation_lets_others_pass(kind: str, part: str) -> None:
    asked = {"response": text(part, 190_000) + f"\n#### {'1 - ' * 45}", "reference": "18"}
    scorer = Scorer("m", MODELS[kind](), Admission(64, 4096), 1)
    assert await shortest_pause(lambda: scorer.explain(asked)) < LONGEST_S


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=repr)
@pytest.mark.parametrize("kind", MODELS)
async def test_every_field_of_any_text_lets_others_pass(kind: str, part: str) -> None:
    pauses = {size: await check(kind, [item(part, size)]) for size in SIZES}
    assert {size: pause for size, pause in pauses.items() if pause >= LONGEST_S} == {}
