"""Scores each assistant turn of a conversation beside the whole.

A turn is scored in the state that it left: the conversation up to the next assistant turn, with
what the tools answered. Each state extends the last, so that their prompts share one cached prefix.
A turn without a verdict is a component without a score, and so is a mean over the turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from statistics import fmean
from typing import Any

from reward_serve.reward_models.base import (
    MODELS_SHARE,
    InvalidRequestError,
    Trace,
    gathered,
    in_time,
    summed_usage,
)
from reward_serve.reward_models.composite import component_of, no_score
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure, retry_details

MAX_SCORES = 512  # of the states of a request by its references
_CALLS = "the turn calls tools and states no answer"


async def scored_states(
    request: ScoreRequest,
    score: Callable[..., Awaitable[ScoreResult]],
    trace: Trace | None,
    reads_answers: bool = False,
    with_task: bool = False,
) -> list[ScoreResult]:
    """The result of the state after each assistant turn; that of the last is the whole's.

    Args:
        request: the request.
        score: scores a request; takes a trace too.
        trace: of the whole.
        reads_answers: whether only a turn's text is read, so that a turn that calls tools and is
            not the last has no verdict.
        with_task: whether the first result is of the task, before any assistant turn.

    Raises:
        InvalidRequestError: there are too many turns for the number of references.
    """
    *states, _ = request.states if with_task else request.states[1:]
    if (asked := (len(states) + 1) * len(request.references)) > MAX_SCORES:
        raise InvalidRequestError(
            f"turns: by {len(request.references)} references they need {asked} scores, and the "
            f"limit is {MAX_SCORES}; send fewer references"
        )
    within_s = MODELS_SHARE * request.timeout_s

    async def of(state: ScoreRequest) -> ScoreResult:
        spoken = (t.tool_calls for t in reversed(state.messages or ()) if t.role == "assistant")
        if reads_answers and next(spoken, None):
            return failure(Status.UNPARSEABLE, _CALLS)
        return await in_time(score(state), within_s, "a turn")

    # The whole comes first: its prompt has those of all states.
    whole = in_time(score(request, trace), within_s, "the whole")
    last, *before = await gathered([whole, *map(of, states)])
    return [*before, last]


def with_turns(
    results: Sequence[ScoreResult],
    value: Callable[[ScoreResult], ScoreResult] = lambda result: result,
    is_mean: bool = False,
) -> ScoreResult:
    """The whole's result, with a component for each assistant turn.

    Args:
        results: those of the states.
        value: the turn's result for that of its state.
        is_mean: whether the whole's score is the mean of its turns' scores, and absent without
            one of them.

    Raises:
        InvalidRequestError: a component of the whole has the name of a turn.
    """
    whole = results[-1]
    parts = {f"turn_{n}": component_of(value(result)) for n, result in enumerate(results, 1)}
    if twice := parts.keys() & (whole.components or {}):
        raise InvalidRequestError(f"rubric: {min(twice)!r} names a turn; rename the criterion")
    update: dict[str, Any] = {"usage": summed_usage(results)}
    update["components"] = (whole.components or {}) | parts
    if is_mean:
        update |= {"label": None, "probabilities": None}
        scores = [part.score for part in parts.values() if part.score is not None]
        if len(scores) == len(parts):
            update |= {"score": fmean(scores)}
        else:
            status, reason = no_score(parts, len(parts), "turns")
            update |= {"score": None, "status": status, "reason": reason, "source": None}
            update["details"] = {**(whole.details or {}), **retry_details(results)} or None
    return whole.model_copy(update=update)
