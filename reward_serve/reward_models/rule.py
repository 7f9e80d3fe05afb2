"""Kind ``rule``: a verifier alone. What it cannot prove has no score."""

from __future__ import annotations

import asyncio
from typing import Any

from reward_serve.config.models import RuleModel
from reward_serve.explanation import RuleOutcome
from reward_serve.reward_models.base import InvalidRequestError, Verdict, best
from reward_serve.reward_models.findings import Findings, rule_outcome
from reward_serve.schema import ScoreRequest, Status
from reward_serve.verifiers import Verification
from reward_serve.verifiers.base import Grade, UnusableReferenceError, VerifierError
from reward_serve.verifiers.registry import make_verifier
from reward_serve.verifiers.spans import located, span_of

_SCORES = {"right": 1.0, "wrong": 0.0}
_LABELS = {score: label for label, score in _SCORES.items()}


class RuleRewardModel:
    """Scores by one verifier.

    Raises:
        ConfigError: ``rule.function`` cannot be imported.
    """

    def __init__(self, config: RuleModel) -> None:
        self._name = config.rule.verifier
        self._verifier = make_verifier(config.rule)

    async def score(self, request: ScoreRequest) -> Verdict:
        """What the verifier proves, else ``unparseable``; of several references, the best match."""
        verdict, _ = await self._graded(request)
        return verdict

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The same, and what the verifier matched."""
        with findings.timed("rules"):
            verdict, grade = await self._graded(request)
        if grade is not None:
            span = grade.span or span_of(request.response, grade.rule, grade.answer)
            findings.rule = rule_outcome(grade.score, grade.rule, grade.answer, span)
        return verdict

    async def _graded(self, request: ScoreRequest) -> tuple[Verdict, Grade | None]:
        """The verdict, and the grade that it is of; None where the verifier failed."""
        references = request.references
        if not references:
            if self._verifier.needs_reference:
                raise InvalidRequestError(
                    "reference: the rule compares with it; send the gold answer"
                )
            references = [""]
        try:
            grades = await asyncio.gather(
                *(self._verifier.verify(request, reference) for reference in references)
            )
        except UnusableReferenceError as error:
            raise InvalidRequestError(f"reference: {error}") from None
        except VerifierError as error:
            fingerprint = self._verifier.fingerprint
            failed = Verdict(status=Status.ERROR, reason=str(error), fingerprint=fingerprint)
            return failed, None
        verdict = best([self._verdict(grade) for grade in grades], highest=1.0)
        return verdict, next(grade for grade in grades if grade.score == verdict.score)

    def describe(self) -> dict[str, Any]:
        """Kind, verifier and fingerprint."""
        return {
            "kind": "rule",
            "verifier": self._name,
            "fingerprint": self._verifier.fingerprint,
        }

    async def failure(self) -> str | None:
        """A rule has nothing that could fail."""
        return None

    def close(self) -> None:
        """Release what the verifier holds."""
        self._verifier.close()

    def _verdict(self, grade: Grade) -> Verdict:
        details = {"rule": grade.rule, "answer": grade.answer}
        fingerprint = self._verifier.fingerprint
        if grade.score is None:
            return Verdict(
                status=Status.UNPARSEABLE,
                reason=f"the verifier abstains: {grade.rule}",
                details=details,
                fingerprint=fingerprint,
            )
        return Verdict(
            score=grade.score,
            source="rule",
            label=_LABELS.get(grade.score),
            details=details,
            fingerprint=fingerprint,
        )


def verified(verification: Verification, response: str) -> RuleOutcome:
    """A verification as explanations have it."""
    found = located(response, verification)
    return rule_outcome(_SCORES.get(found.outcome), found.rule, found.answer, found.span)


def decided(verification: Verification, fingerprint: str, template: str | None = None) -> Verdict:
    """The verdict of a verifier that did not abstain."""
    return Verdict(
        score=_SCORES[verification.outcome],
        source="rule",
        label=verification.outcome,
        details={"rule": verification.rule, "answer": verification.answer},
        template=template,
        fingerprint=fingerprint,
    )
