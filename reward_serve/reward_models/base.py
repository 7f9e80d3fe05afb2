"""The interface between replicas and reward models."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from reward_serve.engines.base import TextOutput
from reward_serve.rules import final_answer
from reward_serve.schema import ScoreRequest, ScoreResult, Source, Status, Usage

T = TypeVar("T")

if TYPE_CHECKING:
    from reward_serve.reward_models.findings import Findings


class InvalidRequestError(ValueError):
    """This model cannot score the request; the message names the field and the remedy."""


def check_references(references: Sequence[str]) -> None:
    """Check that every reference contains an answer.

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
                f"reference: {reference[-64:]!a} contains no answer; send the gold answer"
            )


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reward model's verdict on a request; the replica adds the rest of the ``ScoreResult``.

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
    """The best of the verdicts on one response, one for each reference.

    A failed comparison might have been the best, so the result is the failure unless another
    verdict has the highest possible score.
    """
    chosen = max(verdicts, key=lambda v: -math.inf if v.score is None else v.score)
    if chosen.score is None or chosen.score < highest:
        chosen = next((v for v in verdicts if v.status is not Status.OK), chosen)
    return replace(chosen, usage=summed_usage(verdicts))


async def gathered(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of concurrent calls; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def summed_usage(answers: Sequence[Verdict | ScoreResult | TextOutput]) -> Usage:
    """The total usage of the answers."""
    counts = [answer.usage.model_dump() for answer in answers]
    return Usage(**{name: sum(count[name] for count in counts) for name in counts[0]})


class Scores(Protocol):
    """What scores requests; cancelling a call aborts its work."""

    async def score(self, request: ScoreRequest) -> Verdict:
        """Score one request; its ``timeout_s`` is the time left until its deadline.

        Raises:
            InvalidRequestError: the request is invalid.
            EngineError: the engine failed.
        """


class RewardModel(Scores, Protocol):
    """Scores requests and explains results, independently of Ray and HTTP."""

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The verdict of ``score``, recording how it came about and what the alternatives are.

        Args:
            request: as for ``score``, which raises as this does.
            findings: filled on the way.
        """

    def describe(self) -> dict[str, Any]:
        """Kind, fingerprint, templates and start-up times, for ``/v1/models``."""

    async def failure(self) -> str | None:
        """Why this model cannot score any more; None while it can."""

    def close(self) -> None:
        """Release the model's resources."""
