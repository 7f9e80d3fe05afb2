"""The wire contract of explanations: why a request has the result that it has.

    >>> ExplainRequest(response="#### 18", reference="18").tokens
    False

Everywhere, positions count characters as Python does (Unicode code points), from 0.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from reward_serve.schema import ScoreRequest, ScoreResult

FieldName = Literal["response", "reference", "question", "messages"]


class ExplainRequest(ScoreRequest):
    """A score request whose result is to be explained."""

    tokens: bool = Field(False, strict=True, description="Show the prompts' tokens too.")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class Span(_Part):
    """Characters ``start`` up to, but not including, ``end``."""

    start: int
    end: int


class FieldSpan(Span):
    """Where a field of the request stands in a prompt's text."""

    field: FieldName
    turn: int | None = Field(None, description="Of messages, which one, from 0.")


class Cut(Span):
    """Characters of a field of the request that the model does not see."""

    field: FieldName
    turn: int | None = Field(None, description="Of messages, which one, from 0.")
    exact: bool = Field(
        True,
        description="False: the template rewrites numerals, so the span may be some characters off",
    )


class RuleOutcome(_Part):
    """What the rules say of the response, whether or not they decided."""

    outcome: Literal["right", "wrong", "abstain", "graded"] = Field(
        description="graded: a function's own score"
    )
    score: float | None = Field(None, description="Null where the rules abstain.")
    rule: str = Field(description="The rule that decided, or why none did.")
    answer: str | None = Field(None, description="The text that was compared.")
    span: Span | None = Field(
        None, description="What the rule matched in the response; null where it matched no words."
    )


class Token(_Part):
    """One token of a prompt."""

    id: int
    text: str
    special: bool = Field(description="A control token, which no field of a request can hold.")


class Turn(_Part):
    """One message of a prompt."""

    role: str
    content: str
    fields: list[FieldSpan]


class ShownPrompt(_Part):
    """A prompt as the model gets it: ``text``, or ``messages`` where an endpoint renders them."""

    mode: Literal["label", "generate", "classify"]
    reference: int | None = Field(
        None, description="Which of the request's references it shows, from 0; null without one."
    )
    text: str | None = None
    fields: list[FieldSpan] = Field(
        default_factory=list, description="Where the request's fields stand in text."
    )
    messages: list[Turn] | None = None
    cut: list[Cut] = Field(default_factory=list)
    token_count: int | None = Field(None, description="Null where an endpoint tokenises.")
    tokens: list[Token] | None = Field(None, description="Where they were asked for.")


class Seconds(_Part):
    """How long each part took, in seconds; null for what did not run."""

    queue: float | None = Field(None, description="From arrival to the reward model.")
    rules: float | None = None
    rendering: float | None = Field(None, description="Making the prompts.")
    engine: float | None = Field(
        None, description="From the first question to the engine to its last answer."
    )
    total: float = 0.0


class Explanation(_Part):
    """A result and what led to it; the same keys every time."""

    result: ScoreResult = Field(description="What /v1/score would answer.")
    rule: RuleOutcome | None = Field(
        None, description="Also where the model decided; null where no rule applies to the request."
    )
    model: ScoreResult | None = Field(
        None, description="What the model alone answers, also where a rule decided."
    )
    prompts: list[ShownPrompt] = Field(
        default_factory=list, description="One for each reference that the model was asked about."
    )
    cached: bool | None = Field(
        None, description="Whether the verdict cache had the answer; null where no model was asked."
    )
    seconds: Seconds = Field(default_factory=Seconds)
    members: dict[str, Explanation] | None = Field(
        None, description="Of a panel, its members' explanations by name."
    )
