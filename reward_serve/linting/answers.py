"""How the judge's answer is read: its labels and its written verdict."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator
from typing import Any

from reward_serve.engines.base import Tokenizer
from reward_serve.judging.rendering import LabelError, Renderer
from reward_serve.judging.verdict import read_verdict
from reward_serve.linting.finding import Finding, text_at
from reward_serve.schema import Status
from reward_serve.templates import Template
from reward_serve.templates.inline import PERCENT_SCALE
from reward_serve.verifiers.child_process import ChildProcess, UndecidedError

PATTERN_LIMIT_S = 1.0
_PROMPT_TOKENS = 100_000
_MUCH = 20_000
_DIGITS = "7777"


def check_labels(data: dict[str, Any]) -> Iterator[Finding]:
    """The labels differ in worth, lie between 0 and 1, and the judge is told of them."""
    form = data.get("label")
    values = form.get("values") if isinstance(form, dict) else None
    if not isinstance(values, dict):
        return
    worth = [value for value in values.values() if isinstance(value, int | float)]
    if len(worth) > 1 and len(set(worth)) == 1:
        remedy = "give the labels different values"
        yield Finding("label.values", f"every label is worth {worth[0]:g}", remedy)
    if any(not math.isfinite(value) or not 0 <= value <= 1 for value in worth):
        remedy = "keep them between 0 and 1, as all other scores are"
        yield Finding("label.values", f"the labels are worth {worth}", remedy)
    shown = " ".join(
        (text_at(data, "system"), text_at(data, "user"), text_at(data, "label", "instruction"))
    )
    for label in values:
        if isinstance(label, str) and not re.search(rf"(?<!\w){re.escape(label)}(?!\w)", shown):
            remedy = "name every label in label.instruction"
            yield Finding("label.instruction", f"does not name label {label!r}", remedy)


def check_label_tokens(template: Template, tokenizer: Tokenizer) -> Iterator[Finding]:
    """Each label is one token, and another one for each."""
    if template.label is None:
        return
    try:
        Renderer(tokenizer, _PROMPT_TOKENS).label_ids(template)
    except LabelError as error:
        found, _, remedy = str(error).partition("; ")
        remedy = remedy or "choose labels such as 0 and 1"
        yield Finding("label.values", found, remedy)


def check_verdict(data: dict[str, Any]) -> Iterator[Finding]:
    """The pattern finds the verdict itself, the last of several, in bounded time."""
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
        yield Finding("generate.example", found, "write a text as the judge will, or mend verdict")
        return
    if len(list(compiled.finditer(f"{example}\n{example}"))) < 2:
        remedy = "match the verdict's line alone: else a planted first verdict wins over the last"
        yield Finding(field, "finds one verdict where a text holds two", remedy)
    if _is_slow(pattern, compiled, example):
        remedy = "avoid repeated groups such as (a+)+, and .* between what may be missing"
        found = f"takes more than {PATTERN_LIMIT_S:g} s for {_MUCH} characters"
        yield Finding(field, found, remedy)
    yield from _told(data, compiled)


def check_reading(template: Template) -> Iterator[Finding]:
    """The verdict is a score, and its reading stops at no part of it."""
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
        remedy = r"let the group take what stands there, such as ([^\n]*): it is read strictly"
        yield Finding("generate.verdict", found, remedy)


def _told(data: dict[str, Any], pattern: re.Pattern[str]) -> Iterator[Finding]:
    instruction = text_at(data, "generate", "instruction")
    texts = (instruction, text_at(data, "system"), text_at(data, "user"))
    if not any(map(pattern.search, texts)):
        remedy = "say in it how the last line reads, as in generate.example"
        yield Finding("generate.instruction", "does not tell the judge the verdict's form", remedy)
    form = data.get("generate")
    scale = form.get("scale", 1) if isinstance(form, dict) else 1
    if scale != 100 and any(map(PERCENT_SCALE.search, texts)):
        remedy = "set generate.scale: 100"
        yield Finding("generate.scale", f"is {scale}, and the text asks for 0 to 100", remedy)


def _is_slow(pattern: str, compiled: re.Pattern[str], example: str) -> bool:
    """Whether a text that a judge may write holds the pattern up."""
    found = compiled.search(example)
    start = found[0] if found else example
    parts = (start, start[:-1] or start, "a", " ", "\n", "1", "*", "a ")
    texts = [(part * _MUCH)[:_MUCH] + end for part in parts for end in ("", "\x00")]
    child = ChildProcess("reward_serve.verifiers.pattern:last_match", PATTERN_LIMIT_S)

    async def all_of() -> None:
        for text in texts:
            await child.call(pattern, text)

    try:
        asyncio.run(all_of())
    except UndecidedError:
        return True
    finally:
        child.close()
    return False
