"""Check a template file: its YAML and fields, its prompt, and how the judge's answer is read."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reward_serve.child_process import ChildProcess
from reward_serve.engines.base import Tokenizer
from reward_serve.prompts.rendering import LabelError, Renderer
from reward_serve.schema import Status
from reward_serve.templates import (
    ALIASES,
    FIELDS,
    FILE_SUFFIXES,
    INSTRUCTION,
    PERCENT_SCALE,
    PLACEHOLDER,
    GenerateForm,
    LabelForm,
    Template,
    has_shipped_name,
    parse_template,
    read_verdict,
    unaliased,
)
from reward_serve_answers.values import UndecidedError


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake, or a possible one.

    Attributes:
        field: dotted path of the field.
        found: what is wrong.
        remedy: how to fix it.
        severity: "error" if the template cannot judge or can be fooled.
    """

    field: str
    observed: str
    remedy: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.severity}: {self.field}: {self.observed}; {self.remedy}"


_SECTIONS: dict[str, type[BaseModel]] = {"label": LabelForm, "generate": GenerateForm}
_FILLED_IN = ("name", "digest")


def read_data(path: Path) -> dict[str, Any] | Finding:
    """The file's content, or the finding that it cannot be read."""
    try:
        data = yaml.safe_load(path.read_bytes())
    except OSError as error:
        return Finding("file", f"cannot be read: {error.strerror}", "give the path of a file")
    except (yaml.YAMLError, UnicodeError) as error:
        reason = " ".join(str(error).split())
        return Finding(
            "file", f"is not YAML: {reason}", "quote text with colons, or write it below '|-'"
        )
    if not isinstance(data, dict):
        return Finding(
            "file",
            f"contains {type(data).__name__}",
            "write fields: system, user, generate and so on",
        )
    return data


def check_name(path: Path) -> Iterator[Finding]:
    """The file name must end in .yaml and differ from every shipped template's name."""
    if path.suffix not in FILE_SUFFIXES:
        remedy = "rename it to end in .yaml: judge.template recognises files by their suffix"
        yield Finding("file", f"is named {path.name!r}", remedy)
    if has_shipped_name(path):
        yield Finding("file", f"{path.stem!r} is a shipped template's name", "rename the file")


def check_fields(name: str, data: dict[str, Any]) -> Iterator[Finding]:
    """The faults for which a deployment refuses the template."""
    for field in _FILLED_IN:
        if field in data:
            remedy = "remove it: it is derived from the file's name and content"
            yield Finding(field, "is set", remedy)
    given = {key: value for key, value in data.items() if key not in _FILLED_IN}
    try:
        parse_template(name, given)
    except ValidationError as error:
        yield from map(_finding, error.errors(include_url=False))


def _finding(fault: ErrorDetails) -> Finding:
    if fault["type"] == "value_error":  # of a section: "user: must contain ...; or ..."
        last, _, message = fault["msg"].removeprefix("Value error, ").partition(": ")
        parents = [*map(str, fault["loc"])]
        observed, _, remedy = message.partition("; ")
        remedy = remedy or f"write {_description(parents, last)}"
        return Finding(".".join((*parents, last)), observed, remedy)
    *parents, last = map(str, fault["loc"])
    field = ".".join((*parents, last))
    if fault["type"] == "missing":
        description = _description(parents, last)
        return Finding(field, "is missing", f"add it: {description}" if description else "add it")
    if fault["type"] == "extra_forbidden":
        near = difflib.get_close_matches(last, [*_owner(parents).model_fields], n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "remove it"
        return Finding(field, "is unknown", remedy)
    if last == "[key]":
        label = fault["input"]
        remedy = f'quote it: "{label}"'
        return Finding(".".join(parents[:-1]), f"YAML does not read {label!r} as text", remedy)
    observed = f"{fault['input']!r:.60}"
    return Finding(field, observed, fault["msg"].replace("Input should", "it should"))


def _owner(parents: list[str]) -> type[BaseModel]:
    return _SECTIONS.get(parents[0], Template) if parents else Template


def _description(parents: list[str], field: str) -> str:
    known = _owner(parents).model_fields.get(field)
    return (known.description or "") if known else ""


# Not LaTeX's \boxed{response}, \frac{a}{b}, x_{max}.
_BRACED = re.compile(r"(?<![\\\w}^{])\{([A-Za-z_][\w .!:\[\]-]{2,40})\}(?!\})")
_SYNTAX = re.compile(
    r"\{\{.{0,60}?\}\}|\{%.{0,60}?%\}|\{#.{0,60}?#\}|\$\{\w+\}|%\(\w+\)s", re.DOTALL
)
_NAMES = (*FIELDS, *ALIASES)
_UNTRUSTED = ("question", "response", "conversation", "tools")


def check_placeholders(data: dict[str, Any]) -> Iterator[Finding]:
    """``user`` must show the reference, and no other text may look like a placeholder."""
    system, user = _text(data, "system"), _text(data, "user")
    if user and "{reference}" not in user and "likelihood" not in data:
        remedy = "show {reference}: a judge without one is easier to fool"
        yield Finding("user", "does not contain {reference}", remedy, "warning")
    if "{question}" in user:
        remedy = "remove it if the reference is enough: a judge that sees it may solve it"
        yield Finding("user", "shows the {question}", remedy, "warning")
    if INSTRUCTION in user:
        remedy = "remove it (the instruction is then appended), or move it to system"
        yield Finding("user", "contains {instruction}, which is not filled in here", remedy)
    for field, text in (("system", system), ("user", user)):
        for match in _SYNTAX.finditer(text):
            remedy = "write {response}, {reference} or {question}: no template syntax is evaluated"
            yield Finding(field, f"{match[0]!r} is not filled in", remedy)
        for match in _BRACED.finditer(text):
            if match[0] != INSTRUCTION and not PLACEHOLDER.fullmatch(match[0]):
                yield _unknown(field, match[0], match[1])


def check_fences(data: dict[str, Any]) -> Iterator[Finding]:
    """Untrusted fields must be inside a fence that their text cannot close."""
    user = _text(data, "user")
    untrusted = list(_UNTRUSTED)
    if data.get("reference", "full") == "full":
        untrusted.append("reference")
    for name in untrusted:
        slot = f"{{{name}}}"
        if slot not in user:
            continue
        remedy = f"write <{name}>, {slot} and </{name}> on separate lines"
        severity: Any = "warning" if name == "reference" else "error"
        fence = re.search(rf"<([\w-]+)>\s*{re.escape(slot)}\s*</\1>", user)
        if fence is None:
            yield Finding("user", f"{slot} is not inside a fence", remedy, severity)
        elif fence[1] not in FIELDS:
            observed = f"the fence <{fence[1]}> can be closed by the text inside it"
            yield Finding("user", observed, remedy, severity)


def check_special_tokens(template: Template, tokenizer: Tokenizer) -> Iterator[Finding]:
    """Template texts must not contain the tokenizer's special tokens."""
    texts = {"system": template.system, "user": template.user}
    for mode in template.modes:
        texts[f"{mode}.instruction"] = getattr(template, mode).instruction
    for field, text in texts.items():
        if tokenizer.encode_control(text) != tokenizer.encode_plain(text)[0]:
            remedy = "remove it: the chat template adds the control tokens"
            yield Finding(field, "contains a special token of this tokenizer", remedy)


def _text(data: dict[str, Any], field: str) -> str:
    """A field's text; "" if it is missing or not text."""
    value = data.get(field)
    return unaliased(value) if isinstance(value, str) else ""


def _unknown(field: str, observed: str, name: str) -> Finding:
    known = {placeholder.lower(): placeholder for placeholder in _NAMES}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    if near:
        return Finding(field, f"{observed} is not a placeholder", f"write {{{known[near[0]]}}}")
    remedy = f"it is not filled in; placeholders are {', '.join(f'{{{name}}}' for name in _NAMES)}"
    return Finding(field, f"{observed} is not a placeholder", remedy, "warning")


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
    text = " ".join((template.system, template.user, template.label.instruction))
    for label in template.label.values:
        if not is_named(label, text):
            remedy = "name every label in label.instruction"
            yield Finding("label.instruction", f"does not name label {label!r}", remedy)


def is_named(label: str, text: str) -> bool:
    """Whether the text has the label as a word."""
    return re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text) is not None


def check_label_tokens(template: Template, tokenizer: Tokenizer) -> Iterator[Finding]:
    """Each label must be a single token, different from the others' tokens."""
    if template.label is None:
        return
    try:
        Renderer(tokenizer, _PROMPT_TOKENS).label_ids(template)
    except LabelError as error:
        observed, _, remedy = str(error).partition("; ")
        remedy = remedy or "choose labels such as 0 and 1"
        yield Finding("label.values", observed, remedy)


def check_verdict(template: Template) -> Iterator[Finding]:
    """The pattern must find the last verdict of a text, in bounded time."""
    if template.generate is None:
        return
    field, example = "generate.verdict", template.generate.example
    pattern = re.compile(template.generate.verdict)
    if len(list(pattern.finditer(f"{example}\n{example}"))) < 2:
        remedy = "match only the verdict's line; otherwise a planted first verdict hides the last"
        yield Finding(field, "finds one verdict in a text with two", remedy)
    if _is_slow(pattern, example):
        remedy = "avoid nested repetition such as (a+)+, and .* between optional parts"
        observed = f"takes more than {PATTERN_LIMIT_S:g} s for {_MAX_CHARACTERS} characters"
        yield Finding(field, observed, remedy)
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
    if template.generate is None:
        return
    verdict = read_verdict(template, template.generate.example, cut_off=False)
    if verdict.status is not Status.OK:
        remedy = "write a verdict that is a label, or a number from 0 to generate.scale"
        yield Finding("generate.example", verdict.reason or "has no verdict", remedy)


def _is_slow(pattern: re.Pattern[str], example: str) -> bool:
    """Whether the pattern exceeds the time limit on a text that a judge may write."""
    verdict = pattern.search(example)
    start = verdict[0] if verdict else example
    parts = (start, start[:-1] or start, "a", " ", "\n", "1", "*", "a ")
    repeated = [(part * _MAX_CHARACTERS)[:_MAX_CHARACTERS] for part in parts]
    texts = [text + end for text in repeated for end in ("", "\x00")]
    child = ChildProcess("reward_serve_answers.verifiers:last_match", PATTERN_LIMIT_S)

    async def is_slow() -> bool:
        matches = [await child.call((pattern.pattern, text)) for text in texts]
        return any(isinstance(match, UndecidedError) for (match,) in matches)

    try:
        return asyncio.run(is_slow())
    finally:
        child.close()


def check_file(path: Path, tokenizer: Tokenizer) -> list[Finding]:
    """The findings on a template file, errors first.

    Args:
        path: the template file.
        tokenizer: the tokenizer of the judge that will use it.
    """
    data = read_data(path)
    if isinstance(data, Finding):
        return [data]
    findings = [
        *check_name(path),
        *check_fields(path.stem, data),
        *check_placeholders(data),
        *check_fences(data),
    ]
    try:
        template = parse_template(path.stem, data)
    except ValidationError:
        pass  # check_fields has reported it
    else:
        findings += check_special_tokens(template, tokenizer)
        findings += check_labels(template)
        findings += check_label_tokens(template, tokenizer)
        findings += check_verdict(template)
        findings += check_reading(template)
    return sorted(findings, key=lambda finding: finding.severity)
