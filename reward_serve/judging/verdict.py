"""Parses the verdict in a judge's text.

The last verdict counts: a judge may quote the response before it concludes, and a response can
contain a verdict to be quoted.
"""

from __future__ import annotations

import re

from reward_serve.schema import ScoreResult, Status, failure
from reward_serve.templates import Template

_THINK_END = "</think>"
_THINK_START = "<think>"
_DECORATION = " \t\r*_`$'\""
_NUMERIC = frozenset("0123456789.")
_BEGUN = re.compile(r"(?:\d[\d.,]*(?: ?/ ?|[:eE][+-]?)?|[.,]|[+-])+\Z")
_CONTINUED = re.compile(r"\d*(?: ?[.,/:eE]? ?[+-]?\d+| ?%)+")
_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")


def read_verdict(template: Template, text: str, cut_off: bool) -> ScoreResult:
    """Parse the verdict in a judge's text.

    A text that was cut off has no final verdict, even if it contains one: the judge may have been
    quoting it, or about to change its mind.

    Args:
        template: the template, with the pattern of a verdict.
        text: the judge's text.
        cut_off: whether the judge reached its token limit.

    Returns:
        A result with the judge's text, and with the score and the label that it wrote or the
        reason why there is none.
    """
    written = last_match(template, text, cut_off)
    if isinstance(written, ScoreResult):
        return written
    # The pattern is loose, so that a planted verdict does not win over a conclusion in markdown.
    # The match is parsed strictly, so that "1.5" is not read as "1".
    label = (
        written.lstrip(_DECORATION)
        .rstrip(_DECORATION + ".")
        .removeprefix("\\boxed{")
        .removesuffix("}")
    )
    score = _score(template, label)
    if score is None:
        reason = (
            f"the last match of {template.generate.verdict!r} reads {label[:64]!r}, which is "
            f"neither a label nor on the scale of 0 to {template.generate.scale:g}"
        )
        return failure(Status.UNPARSEABLE, reason, text=text)
    return ScoreResult(status=Status.OK, score=score, label=label, text=text)


def last_match(template: Template, text: str, cut_off: bool) -> str | ScoreResult:
    """The last match of the template's pattern of a verdict, or the failure to find one."""
    if cut_off:
        reason = "the judge was cut off; raise judge.max_tokens"
        return failure(Status.TRUNCATED, reason, text=text)
    answer = strip_thinking(text)
    if answer is None:
        reason = "the judge never finished thinking"
        return failure(Status.UNPARSEABLE, reason, text=text)
    pattern = template.generate.verdict
    matches = list(re.finditer(pattern, answer))
    if not matches:
        reason = f"the judge's text does not match {pattern!r}"
        return failure(Status.UNPARSEABLE, reason, text=text)
    return _whole(answer, *matches[-1].span(1))


def _whole(text: str, start: int, end: int) -> str:
    """The captured text, with what continues its number where a pattern took a part: 7 of 7/10."""
    captured = text[start:end] if start >= 0 else ""
    if captured[:1] in _NUMERIC and (before := _BEGUN.search(text, max(0, start - 32), start)):
        start = before.start()
    if captured[-1:] in _NUMERIC and (rest := _CONTINUED.match(text, end)):
        end = rest.end()
    return text[start:end] if captured else ""


def strip_thinking(text: str) -> str | None:
    """The text after the judge's thinking; None if the thinking did not end.

    Some chat templates open the thinking block in the prompt, so the text may only contain its end.
    """
    _, end, answer = text.rpartition(_THINK_END)
    return None if _THINK_START in (answer if end else text) else answer if end else text


def _score(template: Template, label: str) -> float | None:
    if template.label and label in template.label.values:
        return template.label.values[label]
    if template.label and template.label.binary:
        return {"0": 0.0, "1": 1.0}.get(label)
    if not _NUMBER.fullmatch(label):
        return None
    value = float(label) / template.generate.scale
    return value if 0.0 <= value <= 1.0 else None
