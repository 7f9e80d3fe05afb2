"""Checks of the prompt: placeholders, fences and special tokens."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from reward_serve.engines.base import Tokenizer
from reward_serve.templates import (
    ALIASES,
    FIELDS,
    INSTRUCTION,
    PLACEHOLDER,
    Template,
    unaliased,
)
from reward_serve_lab.linting.finding import Finding

# Not LaTeX's \boxed{response}, \frac{a}{b}, x_{max}.
_BRACED = re.compile(r"(?<![\\\w}^{])\{([A-Za-z_][\w .!:\[\]-]{2,40})\}(?!\})")
_SYNTAX = re.compile(
    r"\{\{.{0,60}?\}\}|\{%.{0,60}?%\}|\{#.{0,60}?#\}|\$\{\w+\}|%\(\w+\)s", re.DOTALL
)
_NAMES = (*FIELDS, *ALIASES)
_UNTRUSTED = ("question", "response")


def check_placeholders(data: dict[str, Any]) -> Iterator[Finding]:
    """``user`` must show the reference, and no other text may look like a placeholder."""
    system, user = _text(data, "system"), _text(data, "user")
    if user and "{reference}" not in user:
        remedy = "show {reference}: a judge without one is easier to fool"
        yield Finding("user", "does not contain {reference}", remedy, "warning")
    if "{question}" in user:
        remedy = "remove it if the reference is enough: a judge that sees it may solve it"
        yield Finding("user", "shows the {question}", remedy, "warning")
    if INSTRUCTION in user:
        remedy = "remove it (the instruction is then appended), or move it to system"
        yield Finding("user", "contains {instruction}, which is not filled in here", remedy)
    for field, text in (("system", system), ("user", user)):
        for found in _SYNTAX.finditer(text):
            remedy = "write {response}, {reference} or {question}: no template syntax is evaluated"
            yield Finding(field, f"{found[0]!r} is not filled in", remedy)
        for found in _BRACED.finditer(text):
            if found[0] != INSTRUCTION and not PLACEHOLDER.fullmatch(found[0]):
                yield _unknown(field, found[0], found[1])


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
            found = f"the fence <{fence[1]}> can be closed by the text inside it"
            yield Finding("user", found, remedy, severity)


def check_special_tokens(template: Template, tokenizer: Tokenizer) -> Iterator[Finding]:
    """Template texts must not contain the tokenizer's special tokens."""
    texts = {"system": template.system, "user": template.user}
    texts["generate.instruction"] = template.generate.instruction
    if template.label:
        texts["label.instruction"] = template.label.instruction
    for field, text in texts.items():
        if tokenizer.encode_control(text) != tokenizer.encode_plain(text)[0]:
            remedy = "remove it: the chat template adds the control tokens"
            yield Finding(field, "contains a special token of this tokenizer", remedy)


def _text(data: dict[str, Any], field: str) -> str:
    """A field's text; "" if it is missing or not text."""
    value = data.get(field)
    return unaliased(value) if isinstance(value, str) else ""


def _unknown(field: str, found: str, name: str) -> Finding:
    known = {one.lower(): one for one in _NAMES}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    if near:
        return Finding(field, f"{found} is not a placeholder", f"write {{{known[near[0]]}}}")
    remedy = f"it is not filled in; placeholders are {', '.join(f'{{{one}}}' for one in _NAMES)}"
    return Finding(field, f"{found} is not a placeholder", remedy, "warning")
