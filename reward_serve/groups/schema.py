"""The wire contract of groups: the responses to one prompt, judged against each other.

>>> GroupRequest(question="Name a colour.", responses=["Red.", "Blue."]).strategy is None
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from reward_serve.groups.strategies import Strategy
from reward_serve.schema import (
    DEFAULT_TIMEOUT_S,
    MAX_MESSAGES,
    Message,
    Metadata,
    Name,
    ResultModel,
    ScoreRequest,
    ScoreResult,
    Status,
    Text,
    Timeout,
)

MAX_RESPONSES = 64


class GroupRequest(BaseModel):
    """A request to judge ``responses`` against each other. Common fields: see ``ScoreRequest``."""

    model_config = ConfigDict(extra="forbid")

    responses: list[Text] = Field(min_length=2, max_length=MAX_RESPONSES)
    question: Text | None = Field(None, description="The prompt that the responses answer.")
    messages: list[Message] | None = Field(
        None, max_length=MAX_MESSAGES, description="The prompt as a conversation, if no question."
    )
    reference: Text | None = Field(None, description="A gold answer, for templates that show it.")
    strategy: Strategy | None = Field(
        None, description="Which pairs to compare; default: the deployment's."
    )
    model: Name | None = None
    template: Text | None = Field(None, description="A group template; default: the deployment's.")
    group: Name | None = Field(None, description="Key that selects the replica.")
    id: Name | None = None
    metadata: Metadata | None = None
    timeout_s: Timeout = DEFAULT_TIMEOUT_S

    def as_single(self) -> ScoreRequest:
        """A score request with the fields that all comparisons share."""
        turns = [f"{turn.role}: {turn.content}" for turn in self.messages or ()]
        return ScoreRequest.model_construct(
            response="".join(self.responses),
            question=self.question or "\n\n".join(turns) or None,
            reference=self.reference or None,
            timeout_s=self.timeout_s,
        )


class GroupComparison(ResultModel):
    """The comparison of two responses in both orders."""

    a: int = Field(description="0-based index in responses.")
    b: int
    probability: float | None = Field(
        None, description="That a is better: (forward + 1 - backward) / 2; null if an order failed."
    )
    forward: float | None = Field(None, description="That a is better, shown first.")
    backward: float | None = Field(None, description="That b is better, shown first.")
    reason: str | None = Field(None, description="Why there is no probability.")

    @property
    def orders_agree(self) -> bool | None:
        """Whether both orders prefer the same response; None if one failed."""
        if self.forward is None or self.backward is None:
            return None
        return (self.forward > 0.5) is not (self.backward > 0.5)


class GroupResult(ResultModel):
    """The result of a group: a ``ScoreResult`` for each response, and the comparisons."""

    id: str | None = None
    status: Status = Field(description="ok if any response has a score.")
    reason: str | None = None
    results: list[ScoreResult] = Field(
        description="In the order of responses; empty if the request is invalid."
    )
    comparisons: list[GroupComparison] = Field([])
    details: dict[str, JsonValue] | None = Field(
        None,
        description="strategy, calls, cycles, and order_agreement: the share of pairs of which "
        "both orders prefer the same response.",
    )
    latency_ms: float = 0.0
    metadata: dict[str, JsonValue] | None = None

    @classmethod
    def of(cls, results: list[ScoreResult], **fields: Any) -> GroupResult:
        """A result that is ``ok`` if any response has a score; else the first one's failure."""
        failed = None if any(one.score is not None for one in results) else results[0]
        status = Status.OK if failed is None else failed.status
        return cls(status=status, reason=failed and failed.reason, results=results, **fields)


def group_failure(failed: ScoreResult, size: int, **fields: Any) -> GroupResult:
    """The result of a group that failed as a whole.

    Args:
        failed: the failure.
        size: number of its responses; 0 if unknown.
        **fields: other fields of the result.
    """
    results = [failed.model_copy() for _ in range(size)]
    about = {"status": failed.status, "reason": failed.reason, "details": failed.details}
    return GroupResult(results=results, **{**about, **fields})


def size_of_group(request: object) -> int:
    """The number of responses of a possibly invalid request; 0 if it is unknown."""
    responses = request.get("responses") if isinstance(request, Mapping) else None
    return min(len(responses), MAX_RESPONSES) if isinstance(responses, list) else 0
