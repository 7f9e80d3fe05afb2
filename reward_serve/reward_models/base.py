"""The interface between replicas and reward models."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from reward_serve.engines.base import (
    EndpointDownError,
    EngineError,
    FrozenModel,
    LabelOutput,
    OverloadedError,
    RefusedError,
    TextOutput,
    UnusableReplyError,
)
from reward_serve.explanation import Explanation, RuleOutcome, ShownPrompt, Span
from reward_serve.logprobs import LogprobsRequest, LogprobsResult
from reward_serve.reward_models.chat import ChatRequest, CompletionRequest
from reward_serve.schema import (
    DOWN_S,
    GroupRequest,
    GroupResult,
    ScoreRequest,
    ScoreResult,
    Status,
    Usage,
    failure,
)
from reward_serve_answers import Grade

T = TypeVar("T")
logger = logging.getLogger(__name__)

MODELS_SHARE = 0.9
"""Share of a deadline for the model's answers; the rest is for a result without the late ones."""
_HASHED_CHARACTERS = 4096

Place = Callable[[], AbstractAsyncContextManager[None]]
"""Limits the engine's concurrent calls."""
Places = Callable[[int], AbstractAsyncContextManager[None]]
"""Limits the sequences in the engine, each by the places that it takes."""
ScoreGroup = Callable[[GroupRequest, Place], Awaitable[GroupResult]]
Audited = Callable[[ScoreRequest, str | None, float, float], None]
"""Takes a request, its verdict's source, and its scores by the rules and by the model."""


class InvalidRequestError(ValueError):
    """This model cannot score the request; the message names the field and the remedy."""


class DeadlinePassedError(Exception):
    """The request's own deadline passed, as opposed to a timeout inside the reward model."""


class RewardModel(ABC):
    """Scores requests, independently of Ray and HTTP."""

    chat: Callable[[ChatRequest], Awaitable[dict[str, Any]]] | None = None
    """A chat completion with one answer, if the model generates text."""
    complete: Callable[[CompletionRequest], Awaitable[dict[str, Any]]] | None = None
    """A text completion with one answer, if the model does these."""
    logprobs: Callable[[LogprobsRequest, Places], Awaitable[LogprobsResult]] | None = None
    """The log-probabilities of a sequence's tokens, if the model is a teacher."""
    score_group: ScoreGroup | None = None
    """Compares the responses of a group with each other, if the model does."""
    group_wait: float = 0.0  # share of a deadline to wait for the rest of a group
    reads_rubric: bool = True  # if false, a request with a rubric is invalid
    scores_turns: bool = False  # if false, a request with ``turns`` is invalid
    engine: FrozenModel | None = None

    @abstractmethod
    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score one request; cancelling the call aborts its work.

        Args:
            request: its ``timeout_s`` is the time left until its deadline.
            trace: records how the result came about; None unless the result is explained.

        Returns:
            The result without ``id``, ``metadata``, ``model`` and ``latency_ms``, which the
            replica adds.

        Raises:
            InvalidRequestError: the request is invalid.
            EngineError: the engine failed.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Kind, fingerprint, templates and start-up times, for ``/v1/models``."""

    def report_audits(self, report: Audited) -> None:  # noqa: B027 for models that audit
        """Call ``report`` after each audit, if the model audits."""

    async def fatal_error(self) -> str | None:
        """Why this model cannot score any more; None while it can."""
        return None if self.engine is None else await self.engine.fatal_error()

    def close(self) -> None:
        """Release the model's resources."""
        if self.engine is not None:
            self.engine.close()


def failure_of(error: Exception, what: str) -> ScoreResult:
    """The result of a request that raised; an unexpected exception is logged, with ``what``."""
    match error:
        case InvalidRequestError() | RefusedError():
            return failure(Status.INVALID, str(error))
        case OverloadedError():
            pause = {"retry_after_s": error.retry_after_s}
            return failure(Status.OVERLOADED, str(error), details=pause)
        case DeadlinePassedError():
            return failure(Status.TIMEOUT, str(error))
        case UnusableReplyError():
            return failure(Status.UNPARSEABLE, str(error))
        case EndpointDownError():
            status = Status.INVALID if error.is_refusal else Status.ERROR
            return failure(status, str(error), details={DOWN_S: round(error.down_s, 1)})
        case EngineError():
            return failure(Status.ERROR, str(error))
    logger.error("%s failed", what, exc_info=error)
    return failure(Status.ERROR, f"{type(error).__name__}: {error}")


async def in_time(call: Awaitable[ScoreResult], within_s: float, what: str) -> ScoreResult:
    """A call's result; a typed failure if it raises or is late."""
    try:
        async with asyncio.timeout(within_s):
            return await call
    except TimeoutError:
        return failure(Status.TIMEOUT, f"no answer within {within_s:.1f} s")
    except Exception as error:
        return failure_of(error, what)


def best_match(results: Sequence[ScoreResult], highest: float) -> ScoreResult:
    """The best of the results for one response, one for each reference, with the usage of all.

    A failed comparison might have been the best, so the result is the failure unless another one
    has the highest possible score.
    """
    if len(results) == 1:
        return results[0]
    match = max(results, key=lambda r: -math.inf if r.score is None else r.score)
    if match.score is None or match.score < highest:
        match = next((r for r in results if r.score is None), match)
    return match.model_copy(update={"usage": summed_usage(results)})


async def gathered(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of concurrent calls; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def summed_usage(answers: Sequence[ScoreResult | TextOutput | LabelOutput]) -> Usage:
    """The total usage of the answers."""
    counts = [answer.usage.model_dump() for answer in answers]
    return Usage(**{name: sum(count[name] for count in counts) for name in Usage.model_fields})


Part = Literal["rules", "rendering", "engine"]


@dataclass
class Trace:
    """Filled by a reward model step by step, so that a failure keeps the earlier steps."""

    rule: RuleOutcome | None = None
    model: ScoreResult | None = None
    prompts: list[Callable[[], ShownPrompt]] = field(default_factory=list)  # called after scoring
    cached: bool | None = None  # whether all answers came from the cache; None without answers
    seconds: dict[Part, float] = field(default_factory=dict)  # first call's begin to last one's end
    members: dict[str, Explanation] | None = None
    began: dict[Part, float] = field(default_factory=dict)

    def graded(self, grade: Grade, request: ScoreRequest) -> None:
        """Record the rules' grade, with the answer's last place in the response."""
        span, response = grade.span, request.judged
        if span is None and grade.answer and (start := response.rfind(grade.answer)) >= 0:
            span = (start, start + len(grade.answer))
        self.rule = RuleOutcome(
            outcome=grade.outcome,
            score=grade.score,
            rule=grade.rule,
            answer=grade.answer,
            span=Span(start=span[0], end=span[1]) if span else None,
        )


@contextmanager
def timed(trace: Trace | None, part: Part) -> Iterator[None]:
    """Time the block as one of the part's calls, if there is a trace."""
    if trace is None:
        yield
        return
    began = trace.began.setdefault(part, time.perf_counter())
    try:
        yield
    finally:
        trace.seconds[part] = time.perf_counter() - began


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


def request_hash(request: object) -> str:
    """A hash of response, messages, reference, question, template and tokens, as 16 hex digits.

    Only the length and the end of a long text are hashed.
    """
    fields = request if isinstance(request, Mapping) else getattr(request, "__dict__", {})
    digest = hashlib.sha256()
    for name in ("response", "reference", "question", "template"):
        value = fields.get(name)
        try:
            text = value if isinstance(value, str) else repr(value)
        except Exception:  # of an invalid request: an integer of 5,000 digits has no repr
            text = type(value).__name__
        digest.update(f"{len(text)}:{text[-_HASHED_CHARACTERS:]}".encode("utf-8", "surrogatepass"))
    if isinstance(request, LogprobsRequest):
        ids = request.token_ids or request.response_token_ids or []
        digest.update(array("i", ids[-_HASHED_CHARACTERS:]).tobytes())
    for turn in getattr(request, "messages", None) or ():
        digest.update(turn.shown[-_HASHED_CHARACTERS:].encode())
    return digest.hexdigest()[:16]


def chosen(request_hash: str, rate: float) -> bool:
    """Whether a request belongs to a sample; the same in every replica and at any time."""
    return int(request_hash[:8], 16) < rate * 2**32
