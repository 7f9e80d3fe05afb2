"""A service of which a fifth of the rows has no verdict, and a policy, for projects' own runners.

A row asks for twice its number. The policy answers every third row wrongly.
"""

from __future__ import annotations

import re
from typing import Any

from reward_serve.schema import Status, failure
from tests.fake_service import Call, FakeService, Reply

FAULTS = [Status.UNPARSEABLE, Status.ERROR, Status.TIMEOUT, Status.TRUNCATED]


def prompt_of(row: int) -> str:
    return f"What is {row} + {row}?"


def reply_of(row: int) -> str:
    return f"#### {2 * row if row % 3 else 2 * row + 1}"


def fault_of(row: int) -> Status | None:
    return FAULTS[row // 5 % len(FAULTS)] if row % 5 == 0 else None


def reward_of(row: int) -> float | None:
    """What a row's reply earns: right, wrong, or no verdict."""
    return None if fault_of(row) else float(row % 3 != 0)


class FaultyService(FakeService):
    """Scores by the real rule, fails a fifth of the rows, and is the policy's endpoint too."""

    def answer(self, call: Call) -> Reply:
        if call.path == "/v1/chat/completions":
            return Reply(_completion(call.body))
        reply = super().answer(call)
        if call.path == "/v1/score/batch":
            results = reply.content["results"]
            for place, request in enumerate(call.body["requests"]):
                if fault := fault_of(int(request["reference"][0]) // 2):
                    failed = failure(fault, "a fault of this test", id=request["id"])
                    results[place] = failed.model_dump(mode="json")
        return reply


def _completion(body: dict[str, Any]) -> dict[str, Any]:
    """A call of the first tool, if there are tools, then the answer."""
    turns = body["messages"]
    question = next(turn["content"] for turn in turns if turn["role"] == "user")
    row = int(re.findall(r"\d+", str(question))[0])
    message: dict[str, Any] = {"role": "assistant", "content": reply_of(row)}
    if body.get("tools") and turns[-1]["role"] == "user":
        call = {"name": body["tools"][0]["function"]["name"], "arguments": '{"a": 1}'}
        calls = [{"id": "call-1", "type": "function", "function": call}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "1", "object": "chat.completion", "created": 0, "model": "policy",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip
