"""Scores each assistant turn of a conversation beside the whole.

A turn is scored in the state that it left: the conversation up to the next assistant turn, with
what the tools answered. Each state extends the last, so that their prompts share one cached prefix.
A turn without a verdict is a component without a score, and so is a mean over the turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from reward_serve.reward_models.base import (
    MODELS_SHARE,
    InvalidRequestError,
    gathered,
    in_time,
    summed_usage,
)
from reward_serve.reward_models.composite import component_of, no_score
from reward_serve.schema import Component, ScoreRequest, ScoreResult, Status, failure

Score = Callable[[ScoreRequest], Awaitable[ScoreResult]]
_CALLS = "the turn calls tools and states no answer"


def own_value(result: ScoreResult) -> ScoreResult:
    """A turn's result as it is."""
    return result


async def by_turn(
    request: ScoreRequest,
    score: Score,
    *,
    whole: Callable[[], Awaitable[ScoreResult]],
    reads_answers: bool = False,
    is_mean: bool = False,
    value: Callable[[ScoreResult], ScoreResult] = own_value,
) -> ScoreResult:
    """The result of the whole, with a component for each assistant turn.

    Args:
        request: the request.
        score: scores one state.
        whole: scores the whole, which is the last state.
        reads_answers: whether only a turn's text is read, so that a turn that calls tools and is
            not the last has no verdict.
        is_mean: whether the whole's score is the mean of its turns' scores, and absent without
            one of them.
        value: the turn's result to report for that of its state.

    Raises:
        InvalidRequestError: a component of the whole has the name of a turn.
    """
    *states, _ = request.states
    within_s = MODELS_SHARE * request.timeout_s

    async def of(state: ScoreRequest) -> ScoreResult:
        called = next(t.tool_calls for t in reversed(state.messages or ()) if t.role == "assistant")
        if reads_answers and called:
            return failure(Status.UNPARSEABLE, _CALLS)
        return await in_time(score(state), within_s, "a turn")

    last, *before = await gathered([in_time(whole(), within_s, "the whole"), *map(of, states)])
    results = [*before, last]
    parts = {f"turn_{n}": component_of(value(r)) for n, r in enumerate(results, 1)}
    if twice := parts.keys() & (last.components or {}):
        raise InvalidRequestError(f"rubric: {min(twice)!r} names a turn; rename the criterion")
    update: dict[str, Any] = {
        "components": (last.components or {}) | parts,
        "usage": summed_usage(results),
    }
    if is_mean:
        update |= _mean(parts)
    return last.model_copy(update=update)


def _mean(parts: dict[str, Component]) -> dict[str, Any]:
    scores = [part.score for part in parts.values() if part.score is not None]
    no_label = {"label": None, "probabilities": None}
    if len(scores) == len(parts):
        return {"score": sum(scores) / len(scores), "status": Status.OK, **no_label}
    status, reason = no_score(parts, len(parts), "turns")
    return {"score": None, "status": status, "reason": reason, "source": None, **no_label}
