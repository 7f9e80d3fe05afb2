"""No item, whatever its fields, keeps a replica's event loop from others for long."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from reward_serve.config.models import JudgeModel, RuleModel
from reward_serve.engines.base import FrozenModel, LabelOutput, Prompt
from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import FailureLog
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import MAX_ITEM_BYTES, MAX_REFERENCES, Usage
from tests.pauses import LONGEST_S, shortest_pause
from tests.service.engines.test_tokenizer import byte_level, hub_tokenizer

CHAT = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}:"


class FakeEngine(FrozenModel):
    """A context of 4,096 tokens, a token for each byte, and no forward pass."""

    max_model_len = 4096

    def __init__(self) -> None:
        self.tokenizer = ChatTokenizer(hub_tokenizer(byte_level(), chat_template=CHAT))

    def describe(self) -> dict[str, str]:
        return {}

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        await asyncio.sleep(0.01)  # as a step of an engine, all of whose answers arrive at once
        return LabelOutput({label: -1.0 - i for i, label in enumerate(labels)}, Usage())


def scorer(kind: str) -> Scorer:
    model: Any = RuleRewardModel(RuleModel(name="m", kind="rule"))
    if kind == "judge":
        settings = {"inline_templates": True, "audit_rate": 1.0}
        config = {"name": "m", "kind": "judge", "judge": settings}
        engine: Any = FakeEngine()  # in label mode a judge writes nothing
        model = Judge(JudgeModel.model_validate(config), engine)
    return Scorer("m", model, Admission(64, 4096), observers=[FailureLog("m")])


def text(part: str, characters: int = MAX_ITEM_BYTES // 2 - 100_000) -> str:
    return (part * (characters // len(part) + 1))[:characters]


SHORT = [f"{i} {text('½ ', 40)} #### {i}" for i in range(MAX_REFERENCES)]
TURNS = [{"role": r, "content": text("I 1 - 1. ", 4_000)} for r in ("user", "assistant")] * 99
BATCHES: dict[str, list[dict[str, Any]]] = {
    "response": [{"response": text(mark)} for mark in ("½ ", "A: ", "\\boxed{18} ", "<|im_end|>")],
    "references": [{"response": text("18. ", 200_000), "reference": SHORT}],
    "long reference": [{"reference": text("one hundred and ")}],
    "question": [{"question": text("e\u0301")}],
    "messages": [{"messages": [*TURNS, TURNS[0]], "question": None}],
    "inline template": [{"template": "{CANDIDATE_SOLUTION}" + text("{response}", 15_900)}],
    "metadata too large": [{"metadata": {"a": [[], {}] * 100_000, "b": text("x")}}],
    "unknown fields": [{f"x{i}": i for i in range(200_000)}],
    "too many references": [{"reference": ["18"] * 200_000}],
    "slow to render": [{"response": text("½ ", 2_000), "reference": f"{i}"} for i in range(12)],
    "slow to read": [{"response": text("A:", 16_000 - i)} for i in range(16)],
    "metadata of many values": [{"metadata": {"a": [1] * 16_000}}] * 64,
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", ["judge", "rule"])
async def test_a_batch_lets_others_pass(kind: str, batch: str) -> None:
    usual = {"response": "It is 17, so 18.", "reference": "#### 18", "question": "What is 2 + 3?"}
    items = [{**usual, **fields} for fields in BATCHES[batch]]
    assert await shortest_pause(lambda: scorer(kind).score_batch(items)) < LONGEST_S


@pytest.mark.parametrize("kind", ["judge", "rule"])
async def test_an_explanation_lets_others_pass(kind: str) -> None:
    asked = {"response": text("A: ", 190_000) + f"\n#### {'1 - ' * 45}", "reference": "18"}
    explainer = scorer(kind)
    assert await shortest_pause(lambda: explainer.explain(asked)) < LONGEST_S
