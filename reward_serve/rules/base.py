"""The interface of verifiers for models of kind ``rule``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reward_serve.off_loop import off_loop
from reward_serve.rules.formulas import is_formula
from reward_serve.rules.grade import Grade
from reward_serve.rules.texts import final_answer
from reward_serve.schema import ScoreRequest

_LONG = 2**14  # characters of several references, or of a response for each of them
_LONG_RESPONSE = 2**16  # a thread costs more than the rules of a usual rollout, 0.6 ms in 32 KB
_GOLD = 200  # characters of an answer


class Verifier(Protocol):
    """Compares a response with a reference, independently of Ray and HTTP."""

    fingerprint: str
    needs_reference: bool = True

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """Grade a request's response by one reference, "" if the request has none.

        Raises:
            UnusableReferenceError: the reference cannot be used.
            VerifierError: the verifier failed.
        """

    def close(self) -> None:
        """Release the verifier's resources."""
        return


class TextVerifier(Verifier):
    """A verifier that calls a fast function of response and reference.

    Args:
        fingerprint: the verifier's name and version.
        grade: grades a response by a reference.
    """

    def __init__(self, fingerprint: str, grade: Callable[[str, str], Grade]) -> None:
        self.fingerprint = fingerprint
        self._grade = grade

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """Grade a request's response by one reference."""
        return await off_loop(takes_long(request), self._grade, request.response, reference)


def takes_long(request: ScoreRequest) -> bool:
    """Whether grading by rules could block the event loop for long.

    Long texts take up to 100 ms. A formula is compared in another process, which takes up to a
    second.
    """
    sizes, references = request.characters, len(request.references)
    repeated = sizes["response"] * references if references > 1 else 0
    if sizes["response"] > _LONG_RESPONSE or repeated + sizes["reference"] > _LONG:
        return True
    return any(is_formula(final_answer(each)[-_GOLD:]) for each in request.references)
