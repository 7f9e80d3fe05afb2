"""verl 0.9.1's tool agent loop, whose conversations are judged; enable it with these settings.

    actor_rollout_ref.rollout.agent.default_agent_loop=tool_agent
    actor_rollout_ref.rollout.agent.agent_loop_config_path=reward_serve_verl/agent_loops.yaml

verl's own loop keeps its messages to itself: a reward function gets the text of all turns, tool
output included, as one response.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from verl.experimental.agent_loop import AgentLoopOutput, ToolAgentLoop
from verl.experimental.agent_loop.tool_agent_loop import AgentData, AgentState

from reward_serve_verl.scoring import CONVERSATION


class JudgedOutput(AgentLoopOutput):  # type: ignore[misc]  # verl is untyped
    """A trajectory that stores the rewards of its turns, each at its turn's last token.

    verl stores the score at the last token of all, and does so here if the conversation has
    another number of turns than the tokens, as with an assistant's turn in the prompt.
    """

    def as_dict(self) -> dict[str, Any]:
        """As verl's; without the conversation, whose tokens are stored."""
        output: dict[str, Any] = super().as_dict()
        output["extra_fields"].pop(CONVERSATION, None)
        scored = output["extra_fields"].get("reward_extra_info") or {}
        rewards = json.loads(scored.get("turn_rewards", "[]"))
        mask = output["response_mask"]
        ends = (mask.diff(append=mask.new_zeros(1)) == -1).nonzero().flatten()
        if rewards and len(rewards) == len(ends):
            output["rm_scores"] = torch.zeros_like(mask, dtype=torch.float32)
            output["rm_scores"][ends] = torch.tensor(rewards)
            # Of a penalty for length, which a reward manager adds to the score.
            output["rm_scores"][-1] += self.reward_score - scored.get("score", self.reward_score)
        return output


class JudgedToolAgentLoop(ToolAgentLoop):  # type: ignore[misc]  # verl is untyped
    """verl's tool agent loop, with its conversation in the output's ``extra_fields``."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> JudgedOutput:
        """As verl's."""
        output = await super().run(sampling_params, **row)
        conversation = output.extra_fields[CONVERSATION]
        conversation["messages"] = [self._plain(turn) for turn in conversation["messages"]]
        judged: JudgedOutput = JudgedOutput.model_construct(output.model_fields_set, **vars(output))
        return judged

    async def _handle_generating_state(
        self, agent_data: AgentData, *args: Any, **settings: Any
    ) -> AgentState:
        known = len(agent_data.messages)
        state = await super()._handle_generating_state(agent_data, *args, **settings)
        turns = [self._plain(turn) for turn in agent_data.messages[known:]]
        if not any(turn["content"].strip() or turn.get("tool_calls") for turn in turns):
            # Verl does not parse the last turn that it allows, and drops calls that it cannot read.
            text = self.tokenizer.decode(agent_data.response_ids)
            agent_data.messages[known:] = [{"role": "assistant", "content": text}]
        agent_data.extra_fields[CONVERSATION] = {
            "messages": agent_data.messages,
            "tools": agent_data._active_tool_schemas,
        }
        return state

    def _plain(self, turn: dict[str, Any]) -> dict[str, Any]:
        """The turn without special tokens, which verl's parsers leave in its text."""
        text = turn["content"]
        if turn["role"] == "assistant" and isinstance(text, str):
            for token in self.tokenizer.all_special_tokens:
                text = text.replace(token, "")
        return {**turn, "content": text}
