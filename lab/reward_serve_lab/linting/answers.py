"""Checks of how the judge's answer is parsed: labels and the written verdict."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator
from typing import Any

from reward_serve.engines.base import Tokenizer
from reward_serve.judging.rendering import LabelError, Renderer
from reward_serve.judging.verdict import read_verdict
from reward_serve.rules.child_process import ChildProcess
from reward_serve.rules.grade import UndecidedError
from reward_serve.schema import Status
from reward_serve.templates import Template
from reward_serve.templates.inline import PERCENT_SCALE
from reward_serve_lab.linting.finding import Finding, text_at

PATTERN_LIMIT_S = 1.0
_PROMPT_TOKENS = 100_000
_MAX_CHARACTERS = 20_000
_DIGITS = "7777"


def check_labels(data: dict[str, Any]) -> Iterator[Finding]:
    """Labels must have different values between 0 and 1 and be named in the prompt."""
    form = data.get("label")
    values = form.get("values") if isinstance(form, dict) else None
    if not isinstance(values, dict):
        return
    scores = [value for value in values.values() if isinstance(value, int | float)]
    if len(scores) > 1 and len(set(scores)) == 1:
        remedy = "give the labels different values"
        yield Finding("label.values", f"every label has the value {scores[0]:g}", remedy)
    if any(not math.isfinite(value) or not 0 <= value <= 1 for value in scores):
        remedy = "use values between 0 and 1, as all other scores do"
        yield Finding("label.values", f"the labels have the values {scores}", remedy)
    shown = " ".join(
        (text_at(data, "system"), text_at(data, "user"), text_at(data, "label", "instruction"))
    )
    for label in values:
        if isinstance(label, str) and not re.search(rf"(?<!\w){re.escape(label)}(?!\w)", shown):
            remedy = "name every label in label.instruction"
            yield Finding("label.instruction", f"does not name label {label!r}", remedy)


def check_label_tokens(template: Template, tokenizer: Tokenizer) -> Iterator[Finding]:
    """Each label must be a single token, different from the others' tokens."""
    if template.label is None:
        return
    try:
        Renderer(tokenizer, _PROMPT_TOKENS).label_ids(template)
    except LabelError as error:
        found, _, remedy = str(error).partition("; ")
        remedy = remedy or "choose labels such as 0 and 1"
        yield Finding("label.values", found, remedy)


def check_verdict(data: dict[str, Any]) -> Iterator[Finding]:
    """The pattern must find the last verdict of a text, in bounded time."""
    pattern, example = text_at(data, "generate", "verdict"), text_at(data, "generate", "example")
    if not pattern:
        return
    field = "generate.verdict"
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        remedy = "write a Python regular expression, in single quotes"
        yield Finding(field, f"is not a regular expression: {error}", remedy)
        return
    if not compiled.groups:
        yield Finding(field, "has no group", "put parentheses around the verdict itself")
        return
    if not compiled.search(example):
        found = f"the pattern finds nothing in {example!r:.60}"
        remedy = "write an example of the judge's output, or fix generate.verdict"
        yield Finding("generate.example", found, remedy)
        return
    if len(list(compiled.finditer(f"{example}\n{example}"))) < 2:
        remedy = "match only the verdict's line; otherwise a planted first verdict hides the last"
        yield Finding(field, "finds one verdict in a text with two", remedy)
    if _is_slow(pattern, compiled, example):
        remedy = "avoid nested repetition such as (a+)+, and .* between optional parts"
        found = f"takes more than {PATTERN_LIMIT_S:g} s for {_MAX_CHARACTERS} characters"
        yield Finding(field, found, remedy)
    yield from _check_instruction(data, compiled)


def check_reading(template: Template) -> Iterator[Finding]:
    """The example's verdict must be a valid score, and the pattern must not cut it short."""
    form = template.generate
    verdict = read_verdict(template, form.example, cut_off=False)
    if verdict.status is not Status.OK:
        remedy = "write a verdict that is a label, or a number from 0 to generate.scale"
        yield Finding("generate.example", verdict.reason or "has no verdict", remedy)
        return
    last = list(re.finditer(form.verdict, form.example))[-1]
    longer = form.example[: last.end(1)] + _DIGITS + form.example[last.end(1) :]
    if read_verdict(template, longer, cut_off=False).label == verdict.label:
        found = f"reads {last[1] + _DIGITS!r} as a verdict of {last[1]!r}"
        remedy = r"capture the rest of the line, such as ([^\n]*); it is then parsed strictly"
        yield Finding("generate.verdict", found, remedy)


def _check_instruction(data: dict[str, Any], pattern: re.Pattern[str]) -> Iterator[Finding]:
    instruction = text_at(data, "generate", "instruction")
    texts = (instruction, text_at(data, "system"), text_at(data, "user"))
    if not any(map(pattern.search, texts)):
        remedy = "show the format of the last line, as in generate.example"
        yield Finding("generate.instruction", "does not state the verdict's format", remedy)
    form = data.get("generate")
    scale = form.get("scale", 1) if isinstance(form, dict) else 1
    if scale != 100 and any(map(PERCENT_SCALE.search, texts)):
        remedy = "set generate.scale: 100"
        yield Finding("generate.scale", f"is {scale}, but the text asks for 0 to 100", remedy)


def _is_slow(pattern: str, compiled: re.Pattern[str], example: str) -> bool:
    """Whether the pattern exceeds the time limit on a text that a judge may write."""
    found = compiled.search(example)
    start = found[0] if found else example
    parts = (start, start[:-1] or start, "a", " ", "\n", "1", "*", "a ")
    repeated = [(part * _MAX_CHARACTERS)[:_MAX_CHARACTERS] for part in parts]
    texts = [text + end for text in repeated for end in ("", "\x00")]
    child = ChildProcess("reward_serve.rules.pattern:last_match", PATTERN_LIMIT_S)

    async def match_all() -> None:
        for text in texts:
            await child.call(pattern, text)

    try:
        asyncio.run(match_all())
    except UndecidedError:
        return True
    finally:
        child.close()
    return False
