"""Answers in LaTeX, compared by math-verify."""

from __future__ import annotations

from importlib.metadata import version as installed_version

from reward_serve.schema import ScoreRequest
from reward_serve.verifiers.base import Grade, UnusableReferenceError, gold_answer
from reward_serve.verifiers.child_process import ChildProcess, UndecidedError

LIMIT_S = 2.0
TAIL_CHARACTERS = 5_000


class MathVerifier:
    r"""Right where math-verify finds the reference's value in the end of a response.

    The reference is read as LaTeX (``\frac{1}{2}``, with or without ``$`` or ``\boxed``), the
    response by math-verify's own extraction from its last 5,000 characters: a box before formulas
    before numbers. In a child process, for at most ``LIMIT_S`` seconds of CPU time; beyond it the
    verifier abstains.
    """

    needs_reference = True

    def __init__(self, version: str) -> None:
        library = installed_version("math-verify")
        self.fingerprint = f"verifier=math;version={version};math_verify={library}"
        self._child = ChildProcess("reward_serve.verifiers.math_comparison:compare", LIMIT_S)

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """The grade of a request's response by one reference.

        Raises:
            UnusableReferenceError: math-verify cannot read the reference.
            VerifierError: the child process failed.
        """
        gold = gold_answer(reference)
        visible = request.response.rpartition("</think>")[2]
        try:
            told = await self._child.call(visible[-TAIL_CHARACTERS:], gold)
        except UndecidedError as error:
            return Grade(None, error.rule)
        if told["rule"] == "reference_not_read":
            raise UnusableReferenceError(
                f"{reference[-64:]!a} is no formula that math-verify reads; send LaTeX, "
                "or serve rule.verifier: exact"
            )
        return Grade(told["score"], told["rule"], told["answer"])

    def close(self) -> None:
        """End the child process."""
        self._child.close()
