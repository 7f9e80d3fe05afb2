"""Kind ``rule``: scores with a verifier, without a model. If it abstains, there is no score."""

from __future__ import annotations

from typing import Any

from reward_serve.config.models import RuleModel
from reward_serve.reward_models.base import InvalidRequestError, RewardModel, best, gathered
from reward_serve.reward_models.trace import Trace, timed
from reward_serve.reward_models.verifiers import make_verifier
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure
from reward_serve_answers import Grade, UnusableReferenceError, VerifierError
from reward_serve_answers.grade import RIGHT


class RuleRewardModel(RewardModel):
    """Scores with one verifier.

    Raises:
        ConfigError: ``rule.function`` cannot be imported.
    """

    def __init__(self, config: RuleModel) -> None:
        self._name = config.rule.verifier
        self._verifier = make_verifier(config.rule)

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score one request; ``unparseable`` if the verifier abstains.

        With several references, the best match is used.
        """
        references = request.references
        if not references:
            if self._verifier.needs_reference:
                raise InvalidRequestError(
                    "reference: is missing, but the rule needs one; send the gold answer"
                )
            references = [""]
        fingerprint = self._verifier.fingerprint
        try:
            with timed(trace, "rules"):
                grades = await gathered(
                    self._verifier.verify(request, reference)
                    for reference in dict.fromkeys(references)
                )
        except UnusableReferenceError as error:
            raise InvalidRequestError(f"reference: {error}") from None
        except VerifierError as error:
            return failure(Status.ERROR, str(error), fingerprint=fingerprint)
        result = best([result_of(grade, fingerprint) for grade in grades], highest=RIGHT)
        if trace is not None:
            chosen = next(grade for grade in grades if grade.score == result.score)
            trace.graded(chosen, request)
        return result

    def describe(self) -> dict[str, Any]:
        """Kind, verifier and fingerprint."""
        return {
            "kind": "rule",
            "verifier": self._name,
            "fingerprint": self._verifier.fingerprint,
        }

    def close(self) -> None:
        """Release the verifier's resources."""
        self._verifier.close()


def result_of(grade: Grade, fingerprint: str, template: str | None = None) -> ScoreResult:
    """The result of a grade; ``unparseable`` if it abstains."""
    abstained = grade.score is None
    return ScoreResult(
        status=Status.UNPARSEABLE if abstained else Status.OK,
        reason=f"the verifier abstains: {grade.rule}" if abstained else None,
        score=grade.score,
        source=None if abstained else "rule",
        label=grade.outcome if grade.outcome in ("right", "wrong") else None,
        details={"rule": grade.rule, "answer": grade.answer},
        template=template,
        fingerprint=fingerprint,
    )
