"""An environment of several turns: the policy calls tools, the service scores the conversation.

Calls stand in ``<tool_call>`` tags, as Hermes and Qwen write them. A turn without one is the last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MethodType
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnvStepOutput
from skyrl_gym.envs.registration import load_env_creator
from transformers.utils import get_json_schema

from reward_serve.client.rows import conversation_of
from reward_serve.messages import as_object
from reward_serve_skyrl.envs import GSM8kJudgeEnv

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


class AgentJudgeEnv(GSM8kJudgeEnv):
    """An environment with tools, rewarded at its end or after each turn.

    An episode ends at a turn without a verdict, and is undecided. So is one that SkyRL cuts off
    before it is scored.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__(env_config, extras)
        self._when, self._tools = env_config.reward, load_env_creator(env_config.tools)()
        self._schemas = schemas_of(self._tools)
        self._value = 0.0
        self.max_turns = self.extras.get("max_turns", 1)
        self.metrics = {"judge_undecided": 1.0, "judge_failed_cut_off": 1.0}

    def init(self, prompt: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Begin the conversation; the policy's chat template shows it the tools."""
        self.messages: list[dict[str, Any]] = [*prompt]
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Run the turn's calls, and score the conversation if its reward is due."""
        self.turns += 1
        turn = assistant_turn(action)
        done = not turn["tool_calls"] or self.turns >= self.max_turns
        answers = [] if done else [self._answer(**call) for call in turn["tool_calls"]]
        self.messages += [turn, *answers]
        reward = 0.0
        if done or self._when != "end":
            reward = value = self.reward(action)
            done = done or self.metrics["judge_undecided"] == 1
            if self._when == "differences":
                reward, self._value = value - self._value, value
        return BaseTextEnvStepOutput(observations=answers, reward=reward, done=done, metadata={})

    def request(self, response: str) -> dict[str, Any]:
        """The request that scores the conversation, which from its first turn has the response."""
        row = {**super().request(response), "tools": self._schemas}
        return conversation_of(row, self.messages, self._schemas) if self.turns else row

    def _answer(self, name: str, arguments: Any) -> dict[str, Any]:
        try:
            if (tool := self._tools.get_tool(name)) is None:
                raise ValueError("write JSON with a tool's name and arguments, an object")
            said = str(tool(**arguments))
        except Exception as error:  # SkyRL ends the process on any exception of an environment
            said = f"{type(error).__name__}: {error}"
        return {"role": "tool", "name": name, "content": said}


def assistant_turn(text: str) -> dict[str, Any]:
    """A policy's text as an assistant turn; thoughts contain no calls.

    A call that cannot be read has no name, and its text as arguments.
    """
    thoughts, end, said = text.rpartition("</think>")
    calls = [as_object(call) or {"arguments": call.strip()} for call in _CALL.findall(said)]
    read = [{"name": str(c.get("name", "")), "arguments": c.get("arguments", {})} for c in calls]
    content = (thoughts + end + _CALL.sub("", said)).strip()
    return {"role": "assistant", "content": content, "tool_calls": read}


def schemas_of(tools: Any) -> list[dict[str, Any]]:
    """The schemas of a ``ToolGroup``'s methods, from their signatures and docstrings."""
    methods = (getattr(type(tools), name).func for name in tools.get_tool_names())
    return [get_json_schema(MethodType(method, tools)) for method in methods]
