"""Explains requests with one reward model, a few at a time, for interactive use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from reward_serve.explanation import ExplainRequest, Explanation, Seconds
from reward_serve.replica.admission import Admission
from reward_serve.replica.observing.base import Times
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import RewardModel, Verdict
from reward_serve.reward_models.findings import Findings
from reward_serve.schema import ScoreRequest, ScoreResult, Status, describe_errors, echoes, failure

_PAUSE_S = 1.0


class Explainer:
    """Scores a request as the ``Scorer`` does, and explains the result.

    Explanations are not counted or logged as verdicts. They wait for admission like the replica's
    other items.

    Args:
        name: the reward model's name in results.
        model: the reward model.
        admission: shared with the ``Scorer``.
        max_item_chars: as for the ``Scorer``.
        at_once: maximum explanations in progress or waiting; 0 turns them off.
    """

    def __init__(
        self,
        name: str,
        model: RewardModel,
        admission: Admission,
        max_item_chars: int,
        at_once: int,
    ) -> None:
        self._name = name
        self._model = model
        self._admission = admission
        self._max_item_chars = max_item_chars
        self._at_once = at_once
        self._running = 0

    async def explain(self, request: object) -> dict[str, Any]:
        """The ``Explanation`` of one ``ExplainRequest``, both as plain data; never raises."""
        if not self._at_once:
            return self._refused(
                request,
                Status.INVALID,
                "explain: is off in this deployment; set server.explain: true",
            )
        if self._running >= self._at_once:
            return self._refused(
                request,
                Status.OVERLOADED,
                f"{self._running} explanations are in progress in this replica; the limit is "
                f"server.max_concurrent_explanations: {self._at_once}; retry after a pause",
                details={"retry_after_s": _PAUSE_S},
            )
        try:
            tokens = ExplainRequest.model_validate(request).tokens
        except ValidationError as error:
            return self._refused(request, Status.INVALID, describe_errors(error))
        self._running += 1
        try:
            return await self._explained(request, Findings(tokens))
        finally:
            self._running -= 1

    async def _explained(self, request: Any, findings: Findings) -> dict[str, Any]:
        watch = _Stopwatch()
        explained = _Explained(self._model, findings)
        scorer = Scorer(
            self._name, explained, self._admission, 1, self._max_item_chars, observers=(watch,)
        )
        body = {name: value for name, value in request.items() if name != "tokens"}
        result = await scorer.score(body)
        prompts = await asyncio.to_thread(lambda: [shown() for shown in findings.prompts])
        explanation = Explanation(
            result=ScoreResult.model_validate(result),
            rule=findings.rule,
            model=self._of_model(findings.model, result),
            prompts=prompts,
            cached=findings.cached,
            seconds=Seconds(total=watch.times.total, queue=watch.times.queue, **findings.seconds),
            members=findings.members,
        )
        return explanation.model_dump(mode="json")

    def _of_model(self, verdict: Verdict | None, result: Mapping[str, Any]) -> ScoreResult | None:
        if verdict is None:
            return None
        return ScoreResult(
            **{name: getattr(verdict, name) for name in Verdict.__slots__},
            id=result["id"],
            metadata=result["metadata"],
            model=self._name,
        )

    def _refused(
        self, request: object, status: Status, reason: str, **fields: Any
    ) -> dict[str, Any]:
        result = failure(status, reason, model=self._name, **fields, **echoes(request))
        return Explanation(result=result).model_dump(mode="json")


class _Explained:
    """The reward model for a ``Scorer``, recording its findings."""

    def __init__(self, model: RewardModel, findings: Findings) -> None:
        self._model = model
        self._findings = findings

    async def score(self, request: ScoreRequest) -> Verdict:
        return await self._model.explain(request, self._findings)


class _Stopwatch:
    """Records the times of one request."""

    def __init__(self) -> None:
        self.times = Times(0.0)

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        self.times = times

    def cancelled(self, request: object, times: Times) -> None: ...

    def flush(self) -> None: ...
