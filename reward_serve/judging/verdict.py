"""Reads a verdict out of what a judge wrote.

The last verdict wins: a judge quotes the candidate before it concludes, and a candidate can plant
a verdict to be quoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reward_serve.schema import Status
from reward_serve.templates import Template

_THINK_END = "</think>"
_THINK_START = "<think>"
_DECORATION = " \t\r*_`$.'\""


@dataclass(frozen=True, slots=True)
class WrittenVerdict:
    """A verdict, or why there is none.

    Attributes:
        score: set exactly when ``status`` is ``ok``.
        label: the verdict as written.
        reason: set exactly when ``status`` is not ``ok``.
    """

    status: Status
    score: float | None = None
    label: str | None = None
    reason: str | None = None


def read_verdict(template: Template, text: str, cut_off: bool) -> WrittenVerdict:
    """The verdict in a judge's text.

    A text that was cut off has no final verdict, whatever stands in it so far: the judge may have
    been about to quote, or to conclude otherwise.

    Args:
        template: says how a verdict looks.
        text: what the judge wrote.
        cut_off: the judge ran into its token limit.
    """
    if cut_off:
        return WrittenVerdict(
            Status.TRUNCATED, reason="the judge was cut off; raise judge.max_tokens"
        )
    answer = strip_thinking(text)
    if answer is None:
        return WrittenVerdict(Status.UNPARSEABLE, reason="the judge never finished thinking")
    matches = list(re.finditer(template.generate.verdict, answer))
    if not matches:
        return WrittenVerdict(
            Status.UNPARSEABLE,
            reason=f"no verdict like {template.generate.verdict!r} in the judge's text",
        )
    # Found loosely and read strictly: a conclusion in markdown must not lose to a planted verdict,
    # nor may "1.5" be read as "1".
    label = (matches[-1][1] or "").strip(_DECORATION).removeprefix("\\boxed{").removesuffix("}")
    score = _score(template, label)
    if score is None:
        return WrittenVerdict(
            Status.UNPARSEABLE,
            reason=f"the last verdict like {template.generate.verdict!r} reads {label[:64]!r}: no "
            f"label of the template, and not on its scale of 0 to {template.generate.scale:g}",
        )
    return WrittenVerdict(Status.OK, score=score, label=label)


def strip_thinking(text: str) -> str | None:
    """The text after the judge's thinking; None when it never stopped thinking.

    Some chat templates open the thinking block in the prompt, so that only its end is written.
    """
    head, end, answer = text.rpartition(_THINK_END)
    del head
    return None if _THINK_START in (answer if end else text) else answer if end else text


def _score(template: Template, label: str) -> float | None:
    if template.label and label in template.label.values:
        return template.label.values[label]
    if template.label and template.label.binary:
        return {"0": 0.0, "1": 1.0}.get(label)
    try:
        value = float(label) / template.generate.scale
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None
