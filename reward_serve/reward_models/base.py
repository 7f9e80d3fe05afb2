"""What every reward model is to the replica that serves it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from reward_serve.engines.base import TextOutput
from reward_serve.schema import ScoreRequest, ScoreResult, Source, Status, Usage
from reward_serve.verifiers import final_answer

if TYPE_CHECKING:
    from reward_serve.reward_models.findings import Findings


class InvalidRequestError(ValueError):
    """The request cannot be scored by this model as it is; names the field and the remedy."""


def check_references(references: Sequence[str]) -> None:
    """Every reference must hold an answer to compare with.

    Raises:
        InvalidRequestError: one does not.
    """
    for reference in references:
        try:
            answer = final_answer(reference)
        except ValueError:
            answer = ""
        if not answer.strip():
            raise InvalidRequestError(
                f"reference: {reference[-64:]!a} holds no answer; send the gold answer"
            )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reward model says of one request: a ``ScoreResult`` before it is addressed.

    Attributes:
        score: set exactly when ``status`` is ``ok``.
    """

    status: Status = Status.OK
    score: float | None = None
    source: Source | None = None
    label: str | None = None
    probabilities: dict[str, float] | None = None
    text: str | None = None
    reason: str | None = None
    template: str | None = None
    fingerprint: str | None = None
    details: dict[str, Any] | None = None
    usage: Usage = field(default_factory=Usage)


def best(verdicts: Sequence[Verdict], highest: float) -> Verdict:
    """The best match among the verdicts on one response, one a reference.

    A comparison that failed might have been the best: unless another earned the highest score
    there is, the failure stands.
    """
    chosen = max(verdicts, key=lambda v: -math.inf if v.score is None else v.score)
    if chosen.score is None or chosen.score < highest:
        chosen = next((v for v in verdicts if v.status is not Status.OK), chosen)
    return replace(chosen, usage=summed_usage(verdicts))


def summed_usage(answers: Sequence[Verdict | ScoreResult | TextOutput]) -> Usage:
    """The tokens of all the answers together."""
    counts = [answer.usage.model_dump() for answer in answers]
    return Usage(**{name: sum(count[name] for count in counts) for name in counts[0]})


class Scores(Protocol):
    """What scores requests; cancelling a call aborts its work."""

    async def score(self, request: ScoreRequest) -> Verdict:
        """The verdict on one request, whose ``timeout_s`` is what is left of its deadline.

        Raises:
            InvalidRequestError: the request is at fault.
            EngineError: the engine failed.
        """


class RewardModel(Scores, Protocol):
    """Scores requests and explains results. Knows neither Ray nor HTTP."""

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The verdict that ``score`` gives, with what led to it, and what else might have.

        Args:
            request: as for ``score``, which raises as this does.
            findings: filled on the way.
        """

    def describe(self) -> dict[str, Any]:
        """Kind, fingerprint, templates and start-up times, for ``/v1/models``."""

    async def failure(self) -> str | None:
        """Why this model can score no more; None while it can."""

    def close(self) -> None:
        """Release what the model holds."""
