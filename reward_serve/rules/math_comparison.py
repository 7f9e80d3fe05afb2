"""The function that ``math_verified`` runs in its child process; importing it takes a second."""

from __future__ import annotations

from typing import Any

from math_verify import (  # type: ignore[import-untyped]
    ExprExtractionConfig,
    LatexExtractionConfig,
    parse,
    verify,
)


def compare(response: str, gold: str) -> dict[str, Any]:
    """Compare with math-verify, without its time limit, which needs signals in the main thread."""
    latex = LatexExtractionConfig()
    expected = parse(
        f"\\boxed{{{_bare(gold)}}}", [latex], fallback_mode="no_fallback", parsing_timeout=None
    )
    if not expected:
        return {"score": None, "rule": "reference_not_read", "answer": None}
    found = parse(response, [latex, ExprExtractionConfig()], parsing_timeout=None)
    if not found:
        return {"score": 0.0, "rule": "no_answer", "answer": None}
    right = verify(expected, found, timeout_seconds=None)
    rule = "math_equal" if right else "math_differs"
    return {"score": float(right), "rule": rule, "answer": str(found[-1])[:200]}


def _bare(gold: str) -> str:
    text = gold.strip().strip("$").strip()
    for opening, closing in (("\\(", "\\)"), ("\\[", "\\]")):
        text = text.removeprefix(opening).removesuffix(closing)
    return text.strip()
