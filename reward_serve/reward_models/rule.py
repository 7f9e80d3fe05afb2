"""Kind ``rule``: scores with a verifier, without a model. If it abstains, there is no score."""

from __future__ import annotations

from typing import Any

from reward_serve.config.models import RuleModel
from reward_serve.off_loop import off_loop
from reward_serve.reward_models.base import InvalidRequestError, Verdict, best, gathered
from reward_serve.reward_models.findings import Findings, rule_outcome
from reward_serve.rules.base import UnusableReferenceError, VerifierError, takes_long
from reward_serve.rules.grade import RIGHT, Grade
from reward_serve.rules.registry import make_verifier
from reward_serve.rules.spans import located
from reward_serve.schema import ScoreRequest, Status


class RuleRewardModel:
    """Scores with one verifier.

    Raises:
        ConfigError: ``rule.function`` cannot be imported.
    """

    def __init__(self, config: RuleModel) -> None:
        self._name = config.rule.verifier
        self._verifier = make_verifier(config.rule)

    async def score(self, request: ScoreRequest) -> Verdict:
        """Score one request; ``unparseable`` if the verifier abstains.

        With several references, the best match is used.
        """
        verdict, _ = await self._graded(request)
        return verdict

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The same, and what the verifier matched."""
        with findings.timed("rules"):
            verdict, grade = await self._graded(request)
        if grade is not None:
            grade = await off_loop(takes_long(request), located, request.response, grade)
            findings.rule = rule_outcome(grade)
        return verdict

    async def _graded(self, request: ScoreRequest) -> tuple[Verdict, Grade | None]:
        """The verdict, and the grade that it is of; None where the verifier failed."""
        references = request.references
        if not references:
            if self._verifier.needs_reference:
                raise InvalidRequestError(
                    "reference: is missing, but the rule needs one; send the gold answer"
                )
            references = [""]
        try:
            grades = await gathered(
                self._verifier.verify(request, reference) for reference in dict.fromkeys(references)
            )
        except UnusableReferenceError as error:
            raise InvalidRequestError(f"reference: {error}") from None
        except VerifierError as error:
            fingerprint = self._verifier.fingerprint
            failed = Verdict(status=Status.ERROR, reason=str(error), fingerprint=fingerprint)
            return failed, None
        verdict = best([self._verdict(grade) for grade in grades], highest=RIGHT)
        return verdict, next(grade for grade in grades if grade.score == verdict.score)

    def describe(self) -> dict[str, Any]:
        """Kind, verifier and fingerprint."""
        return {
            "kind": "rule",
            "verifier": self._name,
            "fingerprint": self._verifier.fingerprint,
        }

    async def failure(self) -> str | None:
        """None: a rule cannot fail as a whole."""
        return None

    def close(self) -> None:
        """Release the verifier's resources."""
        self._verifier.close()

    def _verdict(self, grade: Grade) -> Verdict:
        fingerprint = self._verifier.fingerprint
        if grade.score is None:
            return Verdict(
                status=Status.UNPARSEABLE,
                reason=f"the verifier abstains: {grade.rule}",
                details={"rule": grade.rule, "answer": grade.answer},
                fingerprint=fingerprint,
            )
        return decided(grade, fingerprint)


def decided(grade: Grade, fingerprint: str, template: str | None = None) -> Verdict:
    """The verdict of a rule that did not abstain."""
    return Verdict(
        score=grade.score,
        source="rule",
        label=None if grade.outcome == "graded" else grade.outcome,
        details={"rule": grade.rule, "answer": grade.answer},
        template=template,
        fingerprint=fingerprint,
    )
