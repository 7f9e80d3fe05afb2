"""What ``explain`` records while a request is scored; ordinary requests record nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from reward_serve.explanation import Explanation, RuleOutcome, ShownPrompt, Span
from reward_serve.reward_models.base import Verdict
from reward_serve.rules.grade import Grade

Part = Literal["rules", "rendering", "engine"]


@dataclass
class Findings:
    """Filled by a reward model's ``explain`` step by step, so that a failure keeps earlier parts.

    Attributes:
        tokens: whether to include the prompts' tokens.
        rule: the rules' outcome.
        model: the model's verdict.
        prompts: functions that describe each prompt; called after scoring, off the event loop.
        cached: whether all answers came from the verdict cache; None until a model answered.
        seconds: duration of each part that ran.
        members: explanations of a panel's members.
    """

    tokens: bool = False
    rule: RuleOutcome | None = None
    model: Verdict | None = None
    prompts: list[Callable[[], ShownPrompt]] = field(default_factory=list)
    cached: bool | None = None
    seconds: dict[Part, float] = field(default_factory=dict)
    members: dict[str, Explanation] | None = None

    @contextmanager
    def timed(self, part: Part) -> Iterator[None]:
        """Add the duration of the block to the part's."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


def rule_outcome(grade: Grade) -> RuleOutcome:
    """The rules' outcome in the format of explanations."""
    place = None if grade.span is None else Span(start=grade.span[0], end=grade.span[1])
    return RuleOutcome(
        outcome=grade.outcome, score=grade.score, rule=grade.rule, answer=grade.answer, span=place
    )
