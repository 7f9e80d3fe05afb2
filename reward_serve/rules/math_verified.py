"""Compares LaTeX answers with math-verify."""

from __future__ import annotations

from importlib.metadata import version as installed_version

from reward_serve.rules.base import Verifier
from reward_serve.rules.child_process import ChildProcess
from reward_serve.rules.committed import without_thinking
from reward_serve.rules.grade import ABSTAINED, Grade, UndecidedError, UnusableReferenceError
from reward_serve.rules.texts import ends_without_answer, gold_answer
from reward_serve.schema import ScoreRequest

LIMIT_S = 1.0
TAIL_CHARACTERS = 5_000


class MathVerifier(Verifier):
    r"""Right if math-verify finds the reference's value at the end of a response.

    The reference is parsed as LaTeX (``\frac{1}{2}``, with or without ``$`` or ``\boxed``).
    math-verify extracts the answer from the response's last 5,000 characters, preferring boxes to
    formulas and formulas to numbers. It runs in child processes. The verifier abstains beyond
    ``LIMIT_S`` seconds of CPU time, where a power, factorial or binomial in the last box may be a
    number of tens of thousands of digits, and where the last marker has no answer.
    """

    def __init__(self, version: str) -> None:
        library = installed_version("math-verify")
        self.fingerprint = f"verifier=math;version={version};math_verify={library}"
        self._child = ChildProcess("reward_serve.rules.math_comparison:compare", LIMIT_S)

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """Grade a request's response by one reference.

        Raises:
            UnusableReferenceError: math-verify cannot parse the reference.
            VerifierError: the child process failed.
        """
        gold = gold_answer(reference)
        visible = without_thinking(request.response)
        if ends_without_answer(visible):
            return Grade(ABSTAINED, "cut_off")
        try:
            compared = await self._child.call(visible[-TAIL_CHARACTERS:], gold)
        except UndecidedError as error:
            return Grade(ABSTAINED, error.rule)
        if compared["rule"] == "reference_not_read":
            raise UnusableReferenceError(
                f"{reference[-64:]!a} is not a formula that math-verify can parse; send LaTeX, "
                "or set rule.verifier: exact"
            )
        return Grade(compared["score"], compared["rule"], compared["answer"])

    def close(self) -> None:
        """Kill the child process."""
        self._child.close()
