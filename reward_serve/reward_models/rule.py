"""Kind ``rule``: a verifier alone. What it cannot prove has no score."""

from __future__ import annotations

from typing import Any

from reward_serve.config import RuleModel
from reward_serve.reward_models.base import InvalidRequestError, Verdict, check_references
from reward_serve.schema import ScoreRequest, Status
from reward_serve.verifiers import VERIFIER_VERSION, Verification, verify_any

_SCORES = {"right": 1.0, "wrong": 0.0}


class RuleRewardModel:
    """Scores by ``verifiers.gsm8k``."""

    def __init__(self, config: RuleModel) -> None:
        self._fingerprint = f"verifier={config.rule.verifier};version={VERIFIER_VERSION}"

    async def score(self, request: ScoreRequest) -> Verdict:
        """1 or 0 where the verifier proves it, else ``unparseable``."""
        if not request.references:
            raise InvalidRequestError("reference: the rule compares with it; send the gold answer")
        check_references(request.references)
        verification = verify_any(request.response, request.references)
        details = rule_details(verification)
        if verification.outcome == "abstain":
            return Verdict(
                status=Status.UNPARSEABLE,
                reason=f"the verifier abstains: {verification.rule}",
                details=details,
                fingerprint=self._fingerprint,
            )
        return decided(verification, self._fingerprint)

    def describe(self) -> dict[str, Any]:
        """Kind and fingerprint."""
        return {"kind": "rule", "fingerprint": self._fingerprint}

    async def failure(self) -> str | None:
        """A rule has nothing that could fail."""
        return None

    def close(self) -> None:
        """Nothing to release."""


def decided(verification: Verification, fingerprint: str, template: str | None = None) -> Verdict:
    """The verdict of a verifier that did not abstain."""
    return Verdict(
        score=_SCORES[verification.outcome],
        source="rule",
        label=verification.outcome,
        details=rule_details(verification),
        template=template,
        fingerprint=fingerprint,
    )


def rule_details(verification: Verification) -> dict[str, Any]:
    """Which rule decided, on what text."""
    return {"rule": verification.rule, "answer": verification.answer}
