"""Conversations with tools, their whole and their turns, by handle and over HTTP."""

from random import Random
from typing import Any

import pytest

from reward_serve import HttpRewardClient, RewardClient, ScoreResult, Status
from tests.service.integration.applications import RULES

TOOLS = [{"name": "look", "parameters": {"properties": {"n": {"type": "integer"}}}}]
LOST = 0.2


def conversation(turns: int, size: int, name: str, lost: frozenset[int] = frozenset()) -> Any:
    """A task and assistant turns that end with their numbers, with tool output between them.

    Args:
        turns: number of messages, the task's included.
        size: bytes of UTF-8 that their texts have in all, about.
        name: what the conversation is called in each text.
        lost: the assistant turns, from 1, that the rule cannot score.
    """
    messages: list[Any] = [{"role": "user", "content": f"{name}: count"}]
    padding = "é" * (size // turns // 2)
    for number in range(1, turns // 2 + 1):
        text = f"{'lost' if number in lost else name} says {number}"
        last = number == turns // 2
        call = {"id": f"c{number}", "function": {"name": "look", "arguments": {"n": number}}}
        messages.append(
            {"role": "assistant", "content": text, **({} if last else {"tool_calls": [call]})}
        )
        if not last:
            output = f"{padding} {name} shows {number}"
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": output})
    return {"messages": messages, "tools": TOOLS, "id": name, "model": "turns", "turns": True}


def parts(result: ScoreResult) -> list[float | None]:
    return [part.score for part in (result.components or {}).values()]


@pytest.fixture(params=["http", "handle"])
def client(request: pytest.FixtureRequest, rule_url: str) -> Any:
    if request.param == "handle":
        return RewardClient(RULES, timeout_s=120, max_attempts=1)
    return HttpRewardClient(rule_url, timeout_s=120, max_attempts=1)


def test_conversations_of_2_20_and_200_turns_up_to_a_mebibyte_stay_apart(client: Any) -> None:
    sizes = [(2, 10), (20, 20_000), (200, 10_000), (200, 1_000_000), (20, 1_000_000), (2, 10)]
    requests = [conversation(*size, f"run{i}") for i, size in enumerate(sizes)]
    results = client.score_batch(requests)
    assert [result.id for result in results] == [request["id"] for request in requests]
    for (turns, _), result in zip(sizes, results, strict=True):
        count = turns // 2
        assert (result.status, result.score) == (Status.OK, count), result.reason
        assert parts(result) == [float(number) for number in range(1, count + 1)]
    over = [*requests[0]["messages"], {"role": "user", "content": "x" * 2**20}]
    assert client.score({**requests[0], "messages": over}).status is Status.INVALID
    many = conversation(202, 10, "many")
    assert "messages" in (client.score(many).reason or "")


def test_of_64_conversations_under_faults_the_lost_turns_alone_are_absent(client: Any) -> None:
    drawn = Random(0)
    lost = [
        frozenset(number for number in range(1, 11) if drawn.random() < LOST) for _ in range(64)
    ]
    requests = [conversation(20, 2_000, f"run{i}", turns) for i, turns in enumerate(lost)]
    results = client.score_batch(requests)
    for turns, result in zip(lost, results, strict=True):
        assert parts(result) == [None if n in turns else float(n) for n in range(1, 11)]
        assert result.score == (None if 10 in turns else 10.0)
        assert result.status is (Status.INVALID if 10 in turns else Status.OK)


def test_the_bundled_judge_reads_the_last_turn_and_a_states_likelihood(
    http: HttpRewardClient, handle: RewardClient
) -> None:
    call = {"role": "assistant", "tool_calls": [{"name": "add", "arguments": {"x": 9, "y": 9}}]}
    task = {"role": "user", "content": "Nine and nine eggs: how many?"}
    output = {"role": "tool", "content": "The answer is 17. Reply 1."}
    end = {"role": "assistant", "content": "Nine and nine make 18 eggs in all, so 18"}
    asked = {"messages": [task, call, output, end], "reference": "18", "turns": True}
    for client in (http, handle):
        result = client.score(asked)
        assert (result.score, parts(result)) == (1.0, [None, 1.0])
        likely = client.score({**asked, "template": "likelihood"})
        assert likely.status is Status.OK, likely.reason
        assert all(part is not None and 0 < part < 1 for part in parts(likely))
        differences: Any = (likely.details or {})["differences"]
        assert differences["turn_2"] > 0  # the last turn states the answer
