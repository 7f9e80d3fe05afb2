"""What ``explain`` records while a request is scored; ordinary requests have no trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from reward_serve.explanation import (
    Explanation,
    FieldName,
    FieldSpan,
    RuleOutcome,
    ShownPrompt,
    Span,
)
from reward_serve.judging.rendering import Parts
from reward_serve.schema import ScoreRequest, ScoreResult
from reward_serve_answers import Grade

Part = Literal["rules", "rendering", "engine"]

_FIELDS = frozenset(get_args(FieldName))
_UNTIMED = nullcontext()


@dataclass
class Trace:
    """Filled by a reward model step by step, so that a failure keeps the earlier steps.

    Attributes:
        rule: the rules' outcome.
        model: the model's result.
        prompts: functions that describe each prompt; called after scoring, off the event loop.
        cached: whether all answers came from the verdict cache; None until a model answered.
        seconds: time of each part that ran; concurrent calls count once.
        members: explanations of a composite's or cascade's members.
    """

    rule: RuleOutcome | None = None
    model: ScoreResult | None = None
    prompts: list[Callable[[], ShownPrompt]] = field(default_factory=list)
    cached: bool | None = None
    seconds: dict[Part, float] = field(default_factory=dict)
    members: dict[str, Explanation] | None = None
    _running: dict[Part, list[float]] = field(default_factory=dict)

    @contextmanager
    def timed(self, part: Part) -> Iterator[None]:
        """Add the time of the block to the part's."""
        starts = self._running.setdefault(part, [])
        starts.append(time.perf_counter() if not starts else starts[0])
        try:
            yield
        finally:
            began = starts.pop()
            if not starts:
                spent = time.perf_counter() - began
                self.seconds[part] = self.seconds.get(part, 0.0) + spent

    def graded(self, grade: Grade, request: ScoreRequest) -> None:
        """Record the rules' grade, with the answer's last place in the response."""
        span, response = grade.span, request.response
        if span is None and grade.answer and (start := response.rfind(grade.answer)) >= 0:
            span = (start, start + len(grade.answer))
        self.rule = RuleOutcome(
            outcome=grade.outcome,
            score=grade.score,
            rule=grade.rule,
            answer=grade.answer,
            span=Span(start=span[0], end=span[1]) if span else None,
        )


def timed(trace: Trace | None, part: Part) -> AbstractContextManager[None]:
    """Add the time of the block to the trace, if there is one."""
    return _UNTIMED if trace is None else trace.timed(part)


def filled(parts: Parts, values: Mapping[str, str]) -> tuple[str, list[FieldSpan]]:
    """A prompt's text with its fields inserted, and their spans."""
    text, spans = "", []
    for part, name in parts:
        text += part
        if name is not None and name in _FIELDS:
            start, text = len(text), text + values[name]
            spans.append(FieldSpan(field=cast(FieldName, name), start=start, end=len(text)))
    return text, spans
