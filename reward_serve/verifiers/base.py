"""What every verifier of the kind ``rule`` is to the reward model that asks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reward_serve.schema import ScoreRequest
from reward_serve.verifiers.gsm8k import final_answer


class VerifierError(RuntimeError):
    """The verifier itself failed; says nothing of the response."""


class UnusableReferenceError(ValueError):
    """The reference holds nothing that this verifier could compare with."""


@dataclass(frozen=True, slots=True)
class Grade:
    """What a verifier says of a response and one reference.

    Attributes:
        score: 1.0 right, 0.0 wrong, of a function of one's own any finite number; None abstains.
        rule: what decided, or why nothing did.
        answer: the text that was found and compared.
        span: where the response holds what the rule matched, start and end in characters; None
            too where ``spans.span_of`` finds it by the answer.
    """

    score: float | None
    rule: str
    answer: str | None = None
    span: tuple[int, int] | None = None


class Verifier(Protocol):
    """Compares a response with a reference. Knows neither Ray nor HTTP."""

    fingerprint: str
    needs_reference: bool

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """The grade of a request's response by one reference, "" where it has none.

        Raises:
            UnusableReferenceError: the reference is at fault.
            VerifierError: the verifier failed.
        """

    def close(self) -> None:
        """Release what the verifier holds."""


class TextVerifier:
    """A verifier that is a function of two texts, quick whatever they say.

    Args:
        fingerprint: its name and version.
        grade: of a response and a reference.
    """

    needs_reference = True

    def __init__(self, fingerprint: str, grade: Callable[[str, str], Grade]) -> None:
        self.fingerprint = fingerprint
        self._grade = grade

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """The grade of a request's response by one reference."""
        return self._grade(request.response, reference)

    def close(self) -> None:
        """Nothing to release."""


def gold_answer(reference: str) -> str:
    """The answer that a reference holds: what follows its last ``####``, else all of it.

    Raises:
        UnusableReferenceError: it holds none.
    """
    answer = final_answer(reference)
    if not answer:
        raise UnusableReferenceError(f"{reference[-64:]!a} holds no answer; send the gold answer")
    return answer
