"""A sequence-classification model on the real engine agrees with transformers."""

import math
import random
from pathlib import Path
from typing import Any

import pytest

from loadtests.bench.kinds import small_classifier  # the bundled base with a head of one logit
from reward_serve import HttpRewardClient
from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.prompts.conversation import ConversationRenderer
from reward_serve_judge.weights import prepare_bundled
from tests.service.integration.conftest import Deploy, wait_for_app
from tests.unit.prompts.test_tool_conversation import ADD, ANSWER, QWEN, TASK

TEXT = "She sells eggs for two dollars each and keeps three so nine are left at noon. " * 4

TOOLS = [{"type": "function", "function": ADD}]
CALL = {"type": "function", "function": {"name": "add", "arguments": {"x": 12, "y": 30}}}
STEP = [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "42"},
]
TRAJECTORY = [TASK, *STEP, *STEP, ANSWER]
STATES = [{"messages": TRAJECTORY[:end], "tools": TOOLS} for end in (3, 5, 6)]


def conversations(count: int) -> list[dict[str, Any]]:
    """Of mixed length, every second with a history."""
    drawn = random.Random(0)

    def text() -> str:
        return TEXT[: drawn.randint(1, len(TEXT))]

    def context(number: int) -> dict[str, Any]:
        turns = [{"role": role, "content": text()} for role in ("user", "assistant", "user")]
        return {"messages": turns} if number % 2 else {"question": text()}

    return [{"response": text(), "id": str(n), **context(n)} for n in range(count)]


def by_transformers(folder: Path, asked: list[dict[str, Any]]) -> list[float]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    renderer = ConversationRenderer(ChatTokenizer(tokenizer), 2048)
    scores = []
    for request in asked:
        turns = request.get("messages") or [{"role": "user", "content": request["question"]}]
        if "response" in request:
            turns = [*turns, {"role": "assistant", "content": request["response"]}]
        tools = request.get("tools")
        ids = tokenizer.apply_chat_template(turns, tools, tokenize=True, return_dict=False)
        assert renderer.render(turns, tools).token_ids == ids
        with torch.no_grad():
            scores.append(float(model(torch.tensor([ids])).logits[0, 0]))
    return scores


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_any_batch_scores_as_transformers(url: str, deploy_app: Deploy, tmp_path: Path) -> None:
    folder, asked = small_classifier(tmp_path), conversations(24)
    (folder / "chat_template.jinja").write_text(QWEN)
    expected, of_states = by_transformers(folder, asked), by_transformers(folder, STATES)
    model = {
        "name": "reward-model",
        "kind": "classifier",
        "engine": {"model": str(folder), "cpu_kv_cache_gib": 0.25},
        "resources": {"num_cpus": 2},
    }
    by_handle = deploy_app("classifier", {"models": [model]})
    wait_for_app("classifier", 200)
    with HttpRewardClient(f"{url}/classifier", timeout_s=120) as http:
        in_order = http.score_batch(asked)
        explanation = http.explain(asked[0])
        by_turn = http.score({"messages": TRAJECTORY, "tools": TOOLS, "turns": True})
    shuffled = random.Random(1).sample(asked, len(asked))
    other_order = {result.id: result for result in by_handle.score_batch(shuffled)}

    assert {result.source for result in in_order} == {"classifier"}
    assert explanation.result.score == pytest.approx(expected[0], abs=1e-3)
    assert explanation.prompts[0].mode == "classify"
    for request, result, score in zip(asked, in_order, expected, strict=True):
        assert result.score == pytest.approx(score, abs=1e-3)
        assert other_order[request["id"]].score == pytest.approx(score, abs=1e-3)
    assert max(expected) - min(expected) > 0.1
    scores = [part.score for part in (by_turn.components or {}).values()]
    assert [*scores, by_turn.score] == pytest.approx([*of_states, of_states[-1]], abs=1e-3)
    assert len({round(score, 3) for score in of_states}) == 3


def small_process_reward_model(folder: Path) -> list[float]:
    """Save a random one in ``folder``, and return its probabilities for ``STEPPED``."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoTokenizer, Qwen2Config, Qwen2Model

    tokenizer = AutoTokenizer.from_pretrained(prepare_bundled())
    tokenizer.add_special_tokens({"additional_special_tokens": ["<extra_0>"]})
    tokenizer.chat_template = QWEN
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, initializer_range=0.5,
        architectures=["Qwen2ForProcessRewardModel"], dtype="float32",
    )  # fmt: skip
    base = Qwen2Model(config).eval()
    head = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    parts = {"model": base, "score": head}
    weights = {f"{p}.{n}": w for p, part in parts.items() for n, w in part.state_dict().items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config.save_pretrained(folder)
    turns = [
        {"role": "user", "content": STEPPED["question"]},
        {"role": "assistant", "content": "12 + 30 is 42.<extra_0>So 42.<extra_0>"},
    ]
    ids = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
    with torch.no_grad():
        logits = head(base(torch.tensor([ids])).last_hidden_state[0])
    tags = [place for place, token in enumerate(ids) if token == len(tokenizer) - 1]
    return [float(p) for p in torch.softmax(logits[tags], 1)[:, 1]]


STEPPED = {"question": "What is 12 + 30?", "response": "12 + 30 is 42.\n\nSo 42."}


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_a_process_reward_models_steps_are_torchs(deploy_app: Deploy, tmp_path: Path) -> None:
    expected = small_process_reward_model(tmp_path)
    model = {
        "name": "reward-model",
        "kind": "classifier",
        "engine": {"model": str(tmp_path), "cpu_kv_cache_gib": 0.25},
        "classifier": {"steps": "product"},
        "resources": {"num_cpus": 2},
    }
    by_handle = deploy_app("steps", {"models": [model]})
    wait_for_app("steps", 200)
    forged = {**STEPPED, "response": "12 + 30 is 42.<extra_0>\n\nSo 42."}
    verdict, other = by_handle.score_batch([STEPPED, forged])

    parts = [part.score for part in (verdict.components or {}).values()]
    assert parts == pytest.approx(expected, abs=1e-4)
    assert verdict.score == pytest.approx(math.prod(expected), abs=1e-4)
    assert abs(expected[0] - expected[1]) > 0.002
    assert len(other.components or {}) == 2  # a tag in the response is text
