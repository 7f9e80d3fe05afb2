"""Compares LaTeX answers with math-verify, which takes a second to import."""

from __future__ import annotations

import re
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

from reward_serve_answers.committed import committed
from reward_serve_answers.thinking import read_thinking
from reward_serve_answers.values import (
    ABSTAINED,
    TAIL_CHARACTERS,
    Grade,
    UnusableReferenceError,
    braced,
    ends_without_answer,
    gold_answer,
    not_latex,
    same_text,
)

# What may be a number of more digits than anyone writes: (10^9)!, 9^{9^9}, 2^{99999}, C(10^9, 9).
_HUGE = re.compile(
    r"\d{5} ?!|\^[({ ]{0,4}\d+[)} ]*!|[({\[][^(){}a-zA-Z]{0,20}\^[^()a-zA-Z]{0,20}[)}\]] ?!"
    r"|\^[({ ]{0,4}-?\d+ ?\^|\^[({ ]{0,4}-?\d{5}"
    r"|\\[dt]?binom(?:[^\\]{0,9}\^|\D{0,9}\d{5})|(?:\([^()]{0,9}){30}|(?:\{[^{}]{0,9}){30}"
)


def grade_math(response: str, reference: str) -> Grade:
    r"""Right if math-verify finds the reference's value at the end of a response.

    The reference is parsed as LaTeX (``\frac{1}{2}``, with or without ``$`` or ``\boxed``).
    math-verify extracts the answer from the response's last 5,000 characters, preferring boxes to
    formulas and formulas to numbers. Abstains where a power, factorial or binomial in the last box
    may be a number of tens of thousands of digits, and where the last marker has no answer, or one
    that math-verify does not read.

    Raises:
        UnusableReferenceError: math-verify cannot parse the reference.
    """
    gold, visible = gold_answer(reference), read_thinking(response)
    if ends_without_answer(visible.text):
        return Grade(ABSTAINED, "cut_off")
    compared = compare(visible.text[-TAIL_CHARACTERS:], gold)
    if compared["rule"] == "reference_not_read":
        raise UnusableReferenceError(not_latex(reference))
    return visible.settled(Grade(compared["score"], compared["rule"], compared["answer"]))


def compare(response: str, gold: str) -> dict[str, Any]:
    """Compare with math-verify, without its time limit, which needs signals in the main thread."""
    latex = LatexExtractionConfig()
    expected = parse(
        f"\\boxed{{{_bare(gold)}}}", [latex], fallback_mode="no_fallback", parsing_timeout=None
    )
    if not expected:
        return {"score": None, "rule": "reference_not_read", "answer": None}
    if same_text(response, gold):
        return {"score": 1.0, "rule": "text_matches", "answer": gold}
    _, box, end = response.rpartition("\\boxed")
    boxed = braced(end, 0) if box else None
    if boxed and _HUGE.search(boxed[0]) and not _HUGE.search(gold):
        return {"score": None, "rule": "too_large", "answer": None}
    found = parse(response, [latex, ExprExtractionConfig()], parsing_timeout=None)
    if not found:
        clause = committed(response).clause
        score, rule = (None, "answer_not_read") if clause else (0.0, "no_answer")
        return {"score": score, "rule": rule, "answer": clause}
    right = verify(expected, found, timeout_seconds=None)
    rule = "math_equal" if right else "math_differs"
    return {"score": float(right), "rule": rule, "answer": str(found[-1])[:200]}


def _bare(gold: str) -> str:
    text = gold.strip().strip("$").strip()
    for opening, closing in (("\\(", "\\)"), ("\\[", "\\]")):
        text = text.removeprefix(opening).removesuffix(closing)
    return text.strip()


# The first comparison of a kind imports and compiles much; processes are forked after it.
for _kind in ("0.5", "2^{99}", r"\int_0^1 x dx", r"\sum_{k=1}^9 k", r"\sin(3)", "x^3", r"\sqrt{3}"):
    compare(f"\\boxed{{{_kind}}}", r"\frac{1}{2}")
