"""The cookbook's mixed data set, through trainers' adapters, against one application."""

import asyncio
import json
from typing import Any

import pytest

from reward_serve import RewardClient, Status
from reward_serve.client import ScoringError
from reward_serve_trl import judge_reward
from reward_serve_verl import compute_score
from tests.sandboxed import needs_sandbox
from tests.service.docs.pages import DOCS, blocks
from tests.service.integration.applications import MIXED

pytestmark = needs_sandbox

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for block in blocks(DOCS / "cookbook/mixed.md")
    if block.title == "rows.jsonl"
    for line in block.text.splitlines()
]
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "%s"}}</tool_call>'
RESPONSES = {  # a right one, and a wrong one
    "openai/gsm8k": (r"So \boxed{18}", r"So \boxed{17}"),
    "mmlu": ("The answer is (A).", "The answer is (B)."),
    "mbpp": (
        "```python\ndef add(a, b):\n    return a + b\n```",
        "def add(a, b):\n    return a - b",
    ),
    "ifeval": ("Hello and welcome!", "Hello, welcome!"),
    "bfcl": (CALL % "Paris", CALL % "Rome"),
}
NAMES = ["maths", "choice", "code", "constraints", "calls"]


def asked() -> list[dict[str, Any]]:
    """Right responses to all rows, then wrong ones."""
    return [
        {**row, "response": responses[place]}
        for place in (0, 1)
        for row in ROWS
        if (responses := RESPONSES[row["data_source"]])
    ]


@pytest.fixture(params=["url", "app"])
def service(request: pytest.FixtureRequest, url: str) -> dict[str, Any]:
    """The settings of a client, over HTTP or by handle."""
    return {"url": f"{url}/{MIXED}"} if request.param == "url" else {"app": MIXED}


async def test_trl_rewards_a_mixed_batch(service: dict[str, Any]) -> None:
    rows = asked()
    columns = {name: [row[name] for row in rows] for name in ("data_source", "question", "answer")}
    reward = judge_reward(**service)
    responses = [row["response"] for row in rows]
    rewards = await reward(prompts=columns["question"], completions=responses, **columns)
    assert rewards == [1.0] * 5 + [0.0] * 5


async def test_verl_rewards_each_row_and_leaves_out_one_of_another_set(
    service: dict[str, Any],
) -> None:
    async def scored(row: dict[str, Any]) -> dict[str, Any]:
        info = {"question": row["question"]}
        return await compute_score(
            row["data_source"], row["response"], row["answer"], info, **service
        )

    rewards = await asyncio.gather(*map(scored, asked()))
    assert [reward["score"] for reward in rewards] == [1.0] * 5 + [0.0] * 5
    with pytest.raises(ScoringError, match=r"invalid: metadata.data_source: 'aime' is in no row"):
        await scored({**ROWS[0], "data_source": "aime", "response": "18"})


def test_each_result_names_its_model_and_a_named_model_wins(url: str) -> None:
    requests = [
        {
            "response": row["response"],
            "reference": row["answer"],
            "question": row["question"],
            "metadata": {"data_source": row["data_source"]},
        }
        for row in asked()
    ]
    client = RewardClient(MIXED)
    assert [result.model for result in client.score_batch(requests)] == NAMES * 2
    named = client.score({**requests[0], "model": "constraints"})
    assert (named.model, named.status) == ("constraints", Status.INVALID)
    assert "is no list of constraints" in (named.reason or "")
