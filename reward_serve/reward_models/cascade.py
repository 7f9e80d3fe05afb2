"""Kind ``cascade``: asks a small model first, and a larger one where the small one is unsure.

A member's failure also passes the request on. The last member's answer is final: if it fails, the
result is its failure, never an unsure score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from reward_serve.config.models import CascadeModel
from reward_serve.explanation import Explanation
from reward_serve.reward_models.base import RewardModel, summed_usage
from reward_serve.reward_models.composite import Ask, body_for, digest_of
from reward_serve.reward_models.trace import Trace
from reward_serve.schema import ScoreRequest, ScoreResult, probability_right


class Cascade(RewardModel):
    """Asks its members in order until one is sure.

    Args:
        config: a model of kind ``cascade``.
        asks: one for each member, in order.
    """

    def __init__(self, config: CascadeModel, asks: Sequence[Ask]) -> None:
        self._config = config.cascade
        self._members = {member.name: member for member in self._config.members}
        self._asks = asks
        self.counts = dict.fromkeys(self._members, 0)
        """Requests that each member was asked."""

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """The first sure member's result, or the last one's; a trace has their explanations."""
        body = request.model_dump(mode="json", exclude_unset=True, exclude={"model", "id"})
        clock = asyncio.get_running_loop().time
        end = clock() + request.timeout_s
        answers: dict[str, Explanation] = {}
        if trace is not None:
            trace.members = answers
        for (name, member), ask in zip(self._members.items(), self._asks, strict=True):
            left = max(end - clock(), 0.001)
            is_last = len(answers) == len(self._asks) - 1
            own = body_for(member, body)
            own["timeout_s"] = left if is_last else left * self._config.member_deadline
            answers[name] = await ask(own, trace is not None)
            if trace is None:
                self.counts[name] += 1
            if self._is_sure(answers[name].result):
                break
        return self._result({name: answer.result for name, answer in answers.items()})

    def describe(self) -> dict[str, Any]:
        """Kind, members, settings and how many requests each member was asked."""
        return {
            "kind": "cascade",
            "members": list(self._members),
            "unsure": list(self._config.unsure),
            "cascade": dict(self.counts),
            "fingerprint": self._fingerprint(),
        }

    def _is_sure(self, result: ScoreResult) -> bool:
        right, (low, high) = probability_right(result), self._config.unsure
        return right is not None and (result.source == "rule" or not low <= right <= high)

    def _result(self, results: dict[str, ScoreResult]) -> ScoreResult:
        decisive = next(reversed(results))
        members = {
            name: {"status": r.status.value, "score": r.score, "probabilities": r.probabilities}
            for name, r in results.items()
        }
        last = results[decisive]
        return last.model_copy(
            update={
                "details": {**(last.details or {}), "decided_by": decisive, "members": members},
                "usage": summed_usage(list(results.values())),
                "fingerprint": self._fingerprint(results.values()),
            }
        )

    def _fingerprint(self, results: Iterable[ScoreResult] = ()) -> str:
        return f"cascade={','.join(self._members)};digest={digest_of(self._config, results)}"
