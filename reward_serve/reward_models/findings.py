"""What is noted while a request is scored to be explained; ordinary requests note nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from reward_serve.explanation import Explanation, RuleOutcome, ShownPrompt, Span
from reward_serve.reward_models.base import Verdict

Part = Literal["rules", "rendering", "engine"]
_OUTCOMES: dict[float | None, Literal["right", "wrong", "abstain"]] = {
    1.0: "right",
    0.0: "wrong",
    None: "abstain",
}


@dataclass
class Findings:
    """Filled by a reward model's ``explain`` as it goes, so that a failure leaves what was found.

    Attributes:
        tokens: whether the prompts' tokens are asked for.
        rule: what the rules say.
        model: the model's own verdict.
        prompts: what describes each prompt; called when the verdict is there, off the event loop.
        cached: whether the verdict cache had all answers; None until a model answered.
        seconds: of each part that ran.
        members: of a panel.
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
        """Add the time inside the context to the part's."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


def rule_outcome(
    score: float | None, rule: str, answer: str | None, span: tuple[int, int] | None
) -> RuleOutcome:
    """What the rules say, as explanations have it."""
    place = None if span is None else Span(start=span[0], end=span[1])
    outcome = _OUTCOMES.get(score, "graded")
    return RuleOutcome(outcome=outcome, score=score, rule=rule, answer=answer, span=place)
