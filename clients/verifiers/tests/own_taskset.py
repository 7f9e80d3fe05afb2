"""A taskset of ours, and its harness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI

from clients.pool.tests.faulty import prompt_of

__all__ = ["OwnHarness", "OwnTaskset"]

TOOL = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}


class Problem(vf.TaskData):
    answer: str


class Task(vf.Task[Problem]):
    pass


class OwnTasksetConfig(vf.TasksetConfig):
    size: int = 4


class OwnTaskset(vf.Taskset[Task, OwnTasksetConfig]):
    def load(self) -> Iterator[Task]:
        for row in range(self.config.size):
            data = Problem(prompt=prompt_of(row), answer=str(2 * row))
            yield Task(data, self.config.task)


class OwnHarness(vf.Harness[vf.HarnessConfig]):
    NEEDS_CONTAINER = False
    EXECUTES_CODE = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, urls: Any, data: Any
    ) -> vf.ProgramResult:
        """The conversation, in this process; the policy is called through verifiers' server."""
        messages = [{"role": "user", "content": data.prompt}]
        tools = [{"type": "function", "function": TOOL}]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            while True:
                completion = await client.chat.completions.create(
                    model=ctx.model, messages=messages, tools=tools
                )
                turn = completion.choices[0].message
                messages.append(turn.model_dump(exclude_none=True))
                if not turn.tool_calls:
                    return vf.ProgramResult(exit_code=0, stdout="", stderr="")
                reply = {"role": "tool", "tool_call_id": turn.tool_calls[0].id, "content": "7"}
                messages.append(reply)
