"""The wire contract of explanations, which say why a request has its result.

    >>> Span(start=3, end=5).model_dump()
    {'start': 3, 'end': 5}

All positions are 0-based character offsets (Unicode code points, as in Python).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reward_serve.schema import ResultModel, ScoreResult

FieldName = Literal[
    "response", "reference", "question", "criterion", "messages", "conversation", "tools"
]


class Span(ResultModel):
    """The characters from ``start`` to ``end``, exclusive."""

    start: int
    end: int


class FieldSpan(Span):
    """The span of a request's field in a prompt's text."""

    field: FieldName
    turn: int | None = Field(None, description="0-based index in messages.")


class Cut(FieldSpan):
    """Characters of a request's field that the model does not see."""

    exact: bool = Field(
        True, description="False: the template rewrites numerals, so the span is approximate."
    )


class RuleOutcome(ResultModel):
    """The rules' outcome for the response, whether or not it decided the result."""

    outcome: Literal["right", "wrong", "abstain", "graded"] = Field(
        description="graded: a custom function's score."
    )
    score: float | None = Field(None, description="Null if the rules abstain.")
    rule: str = Field(description="The rule that decided, or the reason why none did.")
    answer: str | None = Field(None, description="The text that was compared.")
    span: Span | None = Field(
        None, description="The text of the response that the rule matched; null if it matched none."
    )


class Turn(ResultModel):
    """One message of a prompt."""

    role: str
    content: str
    fields: list[FieldSpan]


class ShownPrompt(ResultModel):
    """A prompt as sent to the model: ``text``, or ``messages`` if an endpoint renders them."""

    mode: Literal["label", "generate", "likelihood", "classify"]
    reference: int | None = Field(
        None, description="0-based index of the reference that it shows; null if it shows none."
    )
    text: str | None = None
    fields: list[FieldSpan] = Field(
        default_factory=list, description="Spans of the request's fields in text."
    )
    messages: list[Turn] | None = None
    cut: list[Cut] = Field(default_factory=list)
    token_count: int | None = Field(None, description="Null if an endpoint tokenises the prompt.")


class Seconds(ResultModel):
    """The duration of each part in seconds; null for parts that did not run."""

    queue: float | None = Field(None, description="From arrival to the reward model.")
    rules: float | None = None
    rendering: float | None = Field(None, description="Rendering the prompts.")
    engine: float | None = Field(None, description="From the first call to the last answer.")
    total: float = 0.0


class Explanation(ResultModel):
    """A result and how it came about. Every explanation has the same keys."""

    result: ScoreResult = Field(description="The result that /v1/score returns.")
    rule: RuleOutcome | None = Field(
        None,
        description="Set even if the model decided; null if the template has no rules, or the "
        "request no reference.",
    )
    model: ScoreResult | None = Field(
        None, description="The model's result without rules, even if a rule decided."
    )
    prompts: list[ShownPrompt] = Field(
        default_factory=list,
        description="The model's prompts, one for each reference or criterion.",
    )
    cached: bool | None = Field(
        None, description="Whether the verdict cache had the answer; null if no model was called."
    )
    seconds: Seconds = Field(default_factory=Seconds)
    members: dict[str, Explanation] | None = Field(
        None, description="Explanations of a composite's members by name."
    )
