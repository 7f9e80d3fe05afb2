"""Checks of how the judge's answer is parsed: labels and the written verdict."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from reward_serve.child_process import ChildProcess
from reward_serve.engines.base import Tokenizer
from reward_serve.judging.rendering import LabelError, Renderer
from reward_serve.schema import Status
from reward_serve.templates import PERCENT_SCALE, Template, read_verdict
from reward_serve_answers.grade import UndecidedError
from reward_serve_lab.linting.finding import Finding

PATTERN_LIMIT_S = 1.0
_PROMPT_TOKENS = 100_000
_MAX_CHARACTERS = 20_000


def check_labels(template: Template) -> Iterator[Finding]:
    """Labels must have different values between 0 and 1 and be named in the prompt."""
    if template.label is None:
        return
    scores = list(template.label.values.values())
    if len(set(scores)) == 1:
        remedy = "give the labels different values"
        yield Finding("label.values", f"every label has the value {scores[0]:g}", remedy)
    if not all(0 <= value <= 1 for value in scores):
        remedy = "use values between 0 and 1, as all other scores do"
        yield Finding("label.values", f"the labels have the values {scores}", remedy)
    shown = " ".join((template.system, template.user, template.label.instruction))
    for label in template.label.values:
        if not re.search(rf"(?<!\w){re.escape(label)}(?!\w)", shown):
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


def check_verdict(template: Template) -> Iterator[Finding]:
    """The pattern must find the last verdict of a text, in bounded time."""
    field, example = "generate.verdict", template.generate.example
    pattern = re.compile(template.generate.verdict)
    if len(list(pattern.finditer(f"{example}\n{example}"))) < 2:
        remedy = "match only the verdict's line; otherwise a planted first verdict hides the last"
        yield Finding(field, "finds one verdict in a text with two", remedy)
    if _is_slow(pattern, example):
        remedy = "avoid nested repetition such as (a+)+, and .* between optional parts"
        found = f"takes more than {PATTERN_LIMIT_S:g} s for {_MAX_CHARACTERS} characters"
        yield Finding(field, found, remedy)
    texts = (template.generate.instruction, template.system, template.user)
    if not any(map(pattern.search, texts)):
        remedy = "show the format of the last line, as in generate.example"
        yield Finding("generate.instruction", "does not state the verdict's format", remedy)
    scale = template.generate.scale
    if scale != 100 and any(map(PERCENT_SCALE.search, texts)):
        remedy = "set generate.scale: 100"
        yield Finding("generate.scale", f"is {scale:g}, but the text asks for 0 to 100", remedy)


def check_reading(template: Template) -> Iterator[Finding]:
    """The example's verdict must be a valid score."""
    form = template.generate
    verdict = read_verdict(template, form.example, cut_off=False)
    if verdict.status is not Status.OK:
        remedy = "write a verdict that is a label, or a number from 0 to generate.scale"
        yield Finding("generate.example", verdict.reason or "has no verdict", remedy)


def _is_slow(pattern: re.Pattern[str], example: str) -> bool:
    """Whether the pattern exceeds the time limit on a text that a judge may write."""
    found = pattern.search(example)
    start = found[0] if found else example
    parts = (start, start[:-1] or start, "a", " ", "\n", "1", "*", "a ")
    repeated = [(part * _MAX_CHARACTERS)[:_MAX_CHARACTERS] for part in parts]
    texts = [text + end for text in repeated for end in ("", "\x00")]
    child = ChildProcess("reward_serve_answers.verifiers:last_match", PATTERN_LIMIT_S)

    async def match_all() -> None:
        for text in texts:
            await child.call(pattern.pattern, text)

    try:
        asyncio.run(match_all())
    except UndecidedError:
        return True
    finally:
        child.close()
    return False
