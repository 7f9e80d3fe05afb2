"""A sequence-classification model on the real engine agrees with transformers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from reward_serve import HttpRewardClient, RewardClient
from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.judging.conversation import ConversationRenderer

TEXT = "she sells eggs for two dollars each and keeps three so nine are left at noon"


def conversations(count: int) -> list[dict[str, Any]]:
    """Of mixed length, some with a history."""
    drawn = random.Random(0)

    def text(most: int) -> str:
        return " ".join(drawn.choices(TEXT.split(), k=drawn.randint(1, most))).capitalize() + "."

    asked = []
    for number in range(count):
        request: dict[str, Any] = {"response": text(60), "id": str(number)}
        if number % 2:
            history = [("user", text(20)), ("assistant", text(20)), ("user", text(20))]
            request["messages"] = [{"role": role, "content": said} for role, said in history]
        else:
            request["question"] = text(20)
        asked.append(request)
    return asked


def by_transformers(folder: Path, asked: list[dict[str, Any]]) -> list[float]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    renderer = ConversationRenderer(ChatTokenizer(tokenizer), 2048)
    scores = []
    for request in asked:
        turns = request.get("messages") or [{"role": "user", "content": request["question"]}]
        turns = [*turns, {"role": "assistant", "content": request["response"]}]
        ids = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
        assert renderer.render(turns).token_ids == ids
        with torch.no_grad():
            scores.append(float(model(torch.tensor([ids])).logits[0, 0]))
    return scores


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_scores_are_those_of_transformers_in_whatever_batch(
    classifier_url: str, classifier_folder: Path
) -> None:
    asked = conversations(24)
    expected = by_transformers(classifier_folder, asked)
    with HttpRewardClient(classifier_url, timeout_s=120) as http:
        in_order = http.score_batch(asked)
        single = http.score(asked[0])
    shuffled = random.Random(1).sample(asked, len(asked))
    by_handle = RewardClient("classifier", timeout_s=60)
    other_order = {result.id: result for result in by_handle.score_batch(shuffled)}

    assert {result.source for result in in_order} == {"classifier"}
    for request, result, score in zip(asked, in_order, expected, strict=True):
        assert result.score == pytest.approx(score, abs=1e-3)
        assert other_order[request["id"]].score == pytest.approx(score, abs=1e-3)
    assert single.score == pytest.approx(expected[0], abs=1e-3)
    assert max(expected) - min(expected) > 0.1
