"""Sentences from GSM8K's solutions and questions, reused as wording for drafts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

_ANNOTATION = re.compile(r"<<[^>]*>>")
_EXPRESSION = re.compile(r"<<([^=>]*)=([^>]*)>>")
_WORKED = re.compile(r"[$(]*\d[\d\s+\-–−*/().,$%x×÷]*=\s*(?=[$\d])")
_SENTENCE = re.compile(r"[^.!?]+[.!](?=\s|$)")
_RESULT = re.compile(r"\$?(?<![\d.,/*+x\-])\d[\d,]*(?:\.\d+)?(?=[\s.,!;:)]|$)(?![.,]\d)")
_COUNTED = re.compile(
    r"[)\s]*(?:%|percent|dozen|hundred|thousand|million|cents?\b|and (?:a|one)\b|times\b|more\b"
    r"|less\b|fewer\b|[-+*/x=]|of the\b)"
)
_UNSURE = re.compile(
    r"\b(?:at least|at most|than|about|approximately|around|up to|over|under|nearly|almost|between"
    r"|or|if|half|twice|wants?|plans?|hopes?|wonders?|likes?|not|never|maximum|minimum|limit)\b"
)
_OPERAND = re.compile(r"(?:[-+*/×÷–−(\d]|\bx)\s*\$?$")
_FEWEST_WORDS = 4


def bare(text: str) -> str:
    """The text without GSM8K's calculator annotations."""
    return _ANNOTATION.sub("", text)


def prose(text: str) -> str:
    """The text with equations replaced by their results: "She makes $18 a day"."""
    return _WORKED.sub("", bare(text))


def equations(text: str) -> list[str]:
    """The text's calculations, such as "9*2 = 18"."""
    return [f"{left} = {right}" for left, right in _EXPRESSION.findall(text)]


def statements(question: str) -> list[str]:
    """The sentences of a question that state something."""
    sentences = (sentence.strip() for sentence in _SENTENCE.findall(question))
    return [
        sentence for sentence in sentences if sentence[0].isupper()
    ]  # not "50 each." from "$1.50 each."


@cache
def carriers(lines: Sequence[str]) -> list[tuple[str, str]]:
    """The sentences whose last number is a result, split into the text before and after it."""
    return [carrier for line in lines if (carrier := _carrier(line))]


@cache
def givens(question: str) -> list[tuple[str, str]]:
    """Like ``carriers``, for a question's sentences with a single number."""
    frames = carriers(tuple(statements(question)))
    return [(before, after) for before, after in frames if not re.search(r"\d", before)]


def is_operand(before: str) -> bool:
    """Whether a number is an operand, not a result: "139 - 19", "6 trolls * 24"."""
    return bool(_OPERAND.search(before))


def _carrier(line: str) -> tuple[str, str] | None:
    text = prose(line)
    if "=" in text or len(text.split()) < _FEWEST_WORDS or _UNSURE.search(text):
        return None
    results = list(_RESULT.finditer(text))
    if not results:
        return None
    before, after = text[: results[-1].start()], text[results[-1].end() :]
    if re.search(r"\d", after) or _COUNTED.match(after) or is_operand(before):
        return None
    return before, after
