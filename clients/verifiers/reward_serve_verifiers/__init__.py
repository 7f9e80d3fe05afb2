"""A judge for verifiers v1, scored by a ``reward_serve`` service; no verdict fails the rollout.

    [[env.taskset.task.judges]]
    id = "reward-serve-verifiers"
    base_url = "http://HEAD:8000"

Without ``base_url``, set ``REWARD_SERVE_URL`` or ``REWARD_SERVE_APP`` to the service.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import verifiers.v1 as vf
from pydantic import model_validator
from verifiers.v1.judge import judge_question
from verifiers.v1.types import ID

from reward_serve.client import Client, ScoringError, connect
from reward_serve.client.rows import conversation_of, request_of

__all__ = ["ServiceJudge", "ServiceJudgeConfig", "reward"]

_OF_DEPLOYMENTS = ("headers", "headers_from_env", "prompt", "sampling", "timeout")


class ServiceJudgeConfig(vf.JudgeConfig):  # type: ignore[misc]  # verifiers is untyped
    """How to ask the service."""

    id: ID = "reward-serve-verifiers"
    base_url: str = ""
    """URL of the service."""
    api_key_var: str = "REWARD_SERVE_API_KEY"
    model: str = ""
    """A reward model of the service; empty: its first."""
    answer_field: str = "answer"
    """The task's field with the gold answer, or a list of them; a task may lack it."""
    question_field: str = ""
    """The task's field with the question; empty: its prompt."""
    rubric_field: str = ""
    """The task's field with a rubric: a name, or criteria."""
    view: vf.JudgeView = "last_reply"
    """``full_trace`` sends all turns of the last branch, with tools and what they answered."""
    turns: bool = False
    """Whether each assistant turn is scored too, as a metric; needs ``full_trace``."""
    timeout_s: float | None = None
    """Deadline over all attempts; default ``REWARD_SERVE_TIMEOUT_S``, or 60."""

    @model_validator(mode="after")
    def _has_only_what_a_caller_sets(self) -> ServiceJudgeConfig:
        for name in _OF_DEPLOYMENTS:
            field = type(self).model_fields[name]
            if getattr(self, name) != field.get_default(call_default_factory=True):
                raise ValueError(f"{name}: the service's deployments file sets it; remove it here")
        if self.turns and self.view != "full_trace":
            raise ValueError("turns: a last reply is one turn; set view to full_trace")
        return self


class ServiceJudge(vf.Judge[float, ServiceJudgeConfig]):  # type: ignore[misc]
    """Scores a trace, or several of one task against each other."""

    async def score(self, task: vf.TaskData, trace: vf.Trace) -> float:
        """A trace's score; components become metrics named ``JUDGE/COMPONENT``.

        Request and result are appended to ``trace.info["judge_calls"]``.

        Raises:
            ScoringError: there is no verdict. verifiers records a ``TaskError``, the reward stays
                None, and the trace is not ``ok``.
        """
        request = self._request(task, trace)
        result = await self._client().ascore(request)
        reply = vf.JudgeResponse(text=result.text or "", parsed=result.model_dump(mode="json"))
        trace.record_judge_call(name=self.reward_name, request=request, response=reply)
        if result.score is None:
            raise ScoringError(result)
        for name, component in (result.components or {}).items():
            if component.score is not None:
                trace.record_metric(f"{self.reward_name}/{name}", component.score)
        return result.score

    async def score_group(self, task: vf.TaskData, traces: Sequence[vf.Trace]) -> None:
        """Compare replies to one task with each other; for an environment's ``finalize``.

        Each trace gets its score as the judge's reward.

        Raises:
            ScoringError: a reply has no score. All rewards stay None, verifiers records an
                ``EnvError``, and the episode is not ``ok``.
        """
        for trace in traces:
            trace.rewards[self.reward_name] = None
        request = {
            "responses": [trace.last_reply for trace in traces],
            "question": judge_question(task, self.config.question_field),
            "group": traces[0].task.key,
        }
        group = await self._client().ascore_group(request)
        failed = [result for result in group.results if result.score is None]
        if failed:
            raise ScoringError(failed[0], group.results)
        for trace, result in zip(traces, group.results, strict=True):
            trace.record_reward(self.reward_name, result.score, self.config.weight)

    def _client(self) -> Client:
        return connect(
            url=self.config.base_url or None,
            api_key=os.environ.get(self.config.api_key_var),
            timeout_s=self.config.timeout_s,
            model=self.config.model or None,
            on_failure="none",
        )

    def _request(self, task: vf.TaskData, trace: vf.Trace) -> dict[str, Any]:
        config = self.config
        request = request_of(
            trace.last_reply,
            getattr(task, config.answer_field, None),
            judge_question(task, config.question_field),
            getattr(task, config.rubric_field, None) if config.rubric_field else None,
        )
        request |= {"id": trace.id, "group": trace.task.key}
        if config.view == "last_reply":
            return request
        tools = map(_tool, trace.branches[-1].tools)
        turns = {"turns": True} if config.turns else {}
        return conversation_of(request, map(_turn, trace.messages), list(tools)) | turns


def _turn(message: vf.Message) -> dict[str, Any]:
    turn: dict[str, Any] = message.model_dump(exclude_none=True)
    for call in turn.get("tool_calls", ()):
        call |= {"type": "function", "name": _full_name(call)}  # a custom tool takes a text
        call.pop("namespace", None)
    return turn


def _tool(tool: vf.Tool) -> dict[str, Any]:
    name = _full_name(tool.model_dump())
    return {"name": name, "description": tool.description, "parameters": tool.parameters}


def _full_name(fields: dict[str, Any]) -> str:
    return ".".join(filter(None, (fields.get("namespace"), fields["name"])))


async def reward(task: vf.TaskData, trace: vf.Trace) -> float:
    """``ServiceJudge.score`` with defaults, for ``taskset.task.rewards`` or a task's own."""
    return await ServiceJudge(ServiceJudgeConfig()).score(task, trace)
