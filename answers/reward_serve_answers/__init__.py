r"""What a response committed to, and whether it equals a reference.

    from reward_serve_answers import verify

    verify("So she makes 9 * 2 = 18 dollars.\n#### 18", "18").score               # 1.0
    verify("The answer is (B).", "B", "choice").outcome                            # "right"

A verifier proves an answer right or wrong, or abstains (``score`` is None).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from reward_serve_answers.choice import grade_choice
from reward_serve_answers.gsm8k import best, verify_any
from reward_serve_answers.values import (
    Grade,
    UndecidedError,
    UnusableReferenceError,
    VerifierError,
    final_answer,
)
from reward_serve_answers.verifiers import (
    grade_exact,
    grade_numeric,
    grade_strict_first,
    grade_strict_last,
    verify_strict_any,
)

VERSION = "18"
"""Incremented when a rule's decisions change; part of fingerprints."""

VerifierName = Literal[
    "gsm8k", "gsm8k_strict", "gsm8k_strict_first", "gsm8k_strict_last",
    "numeric", "math", "exact", "choice",
]  # fmt: skip

TEXT_VERIFIERS: dict[str, Callable[[str, str], Grade]] = {
    "gsm8k": lambda response, reference: verify_any(response, [reference]),
    "gsm8k_strict": lambda response, reference: verify_strict_any(response, [reference]),
    "gsm8k_strict_first": grade_strict_first,
    "gsm8k_strict_last": grade_strict_last,
    "numeric": grade_numeric,
    "exact": grade_exact,
}
"""The verifiers that take a response and a reference, and microseconds."""

__all__ = [
    "TEXT_VERIFIERS",
    "VERSION",
    "Grade",
    "UndecidedError",
    "UnusableReferenceError",
    "VerifierError",
    "VerifierName",
    "final_answer",
    "grade_choice",
    "verify",
    "verify_any",
    "verify_strict_any",
]


def verify(
    response: str,
    reference: str | Sequence[str],
    verifier: VerifierName = "gsm8k",
    *,
    question: str = "",
) -> Grade:
    """Compare a response with a reference.

    Args:
        response: any text.
        reference: the gold solution or answer, or several, any of which makes a response right.
        verifier: how to compare. ``math`` needs math-verify, and has no limit of time or memory
            here; the service runs it in a child process.
        question: for ``choice``, the question with its options.

    Returns:
        Right if right by any reference, wrong if wrong by all, else the first abstention.

    Raises:
        UnusableReferenceError: a reference contains no answer for this verifier.
        ValueError: there is no reference, or no such verifier.
        TypeError: a response or reference is not a text.
    """
    if not isinstance(response, str) or isinstance(reference, int | float):
        raise TypeError(f"response, reference: {response!a:.40}, {reference!a:.40} must be texts")
    references = [reference] if isinstance(reference, str) else list(dict.fromkeys(reference))
    if not references:
        raise ValueError("reference: is an empty list; send at least one")
    if verifier == "choice":
        grades = [grade_choice(response, gold, question) for gold in references]
    elif verifier == "math":
        from reward_serve_answers.formulas import grade_math  # importing it takes a second

        grades = [grade_math(response, gold) for gold in references]
    elif verifier in TEXT_VERIFIERS:
        grades = [TEXT_VERIFIERS[verifier](response, gold) for gold in references]
    else:
        known = ", ".join(get_args(VerifierName))
        raise ValueError(f"verifier: {verifier!r} is unknown; choose from {known}")
    return best(grades)
