"""The grade that a verifier gives a response, and the errors of verifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RIGHT, WRONG, ABSTAINED = 1.0, 0.0, None

Outcome = Literal["right", "wrong", "abstain", "graded"]

_OUTCOMES: dict[float | None, Outcome] = {RIGHT: "right", WRONG: "wrong", ABSTAINED: "abstain"}


@dataclass(frozen=True, slots=True)
class Grade:
    """A rule's result for a response.

    Attributes:
        score: ``RIGHT`` or ``WRONG`` where the rule proves it, ``ABSTAINED`` where it proves
            nothing; a custom function may return any finite number.
        rule: the deciding rule, such as "marker_matches" or "reference_absent", or the reason for
            abstaining.
        answer: the text that was found and compared.
        span: start and end of the rule's match in the response, in characters; None if unknown, or
            if ``spans.span_of`` can find it by the answer.
    """

    score: float | None
    rule: str
    answer: str | None = None
    span: tuple[int, int] | None = None

    @property
    def outcome(self) -> Outcome:
        """The score in a word; "graded" is a custom function's."""
        return _OUTCOMES.get(self.score, "graded")


class VerifierError(RuntimeError):
    """The verifier failed, so nothing is known about the response."""


class UndecidedError(RuntimeError):
    """The verifier failed deterministically; do not retry.

    Attributes:
        rule: "too_slow" if it exceeded its CPU time, "not_computed" if it raised.
    """

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


class UnusableReferenceError(ValueError):
    """The reference contains nothing that this verifier can compare with."""
