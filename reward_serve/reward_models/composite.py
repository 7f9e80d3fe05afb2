"""Kind ``composite``: combines the scores of several reward models.

Failed members are excluded. If fewer members than the quorum have a score, the composite has none.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from reward_serve.config.judge import RubricAggregate
from reward_serve.config.models import (
    CascadeConfig,
    CascadeModel,
    CompositeConfig,
    CompositeModel,
    MemberConfig,
)
from reward_serve.explanation import Explanation
from reward_serve.reward_models.base import MODELS_SHARE, RewardModel, Trace, summed_usage
from reward_serve.schema import (
    Component,
    ScoreRequest,
    ScoreResult,
    Status,
    failure,
    probability_right,
    retry_details,
)

Scores = Sequence[tuple[float, float]]

_CASCADE_DEADLINE = 0.5  # of the time left, for all members but the last

_ABOUT_MEMBER = {"status", "score", "source", "label", "fingerprint"}


def weighted(scores: Scores) -> float | None:
    """The points earned as a share of the points possible, clipped to 0..1.

    ``clip(sum(w * s) / sum(w for w > 0))``, as in HealthBench (Arora et al. 2025,
    arXiv:2505.08775). None without a positive weight.
    """
    possible = math.fsum(weight for _, weight in scores if weight > 0)
    if not possible:
        return None
    return min(1.0, max(0.0, total(scores) / possible))


def total(scores: Scores) -> float:
    """``sum(w * s)``."""
    return math.fsum(score * weight for score, weight in scores)


def mean(scores: Scores) -> float:
    """``sum(w * s) / sum(w)``, for positive weights; never outside the range of the scores."""
    values = [score for score, _ in scores]
    return min(max(total(scores) / math.fsum(w for _, w in scores), min(values)), max(values))


def vote(scores: Scores, threshold: float) -> tuple[bool, float]:
    """Whether parts with more than half of the weight reach ``threshold``, and their share.

    A tie is not a majority, also if rounding puts its share slightly above 0.5.
    """
    share = mean([(float(score >= threshold), weight) for score, weight in scores])
    return share > 0.5 and not math.isclose(share, 0.5), share


def _met(scores: Scores) -> list[float]:
    """How well each criterion is met: its score, or 1 - score if its weight is negative."""
    return [score if weight > 0 else 1.0 - score for score, weight in scores]


RUBRIC_AGGREGATES: Mapping[RubricAggregate, Callable[[Scores], float | None]] = {
    "weighted": weighted,
    "all": lambda scores: float(all(met > 0.5 for met in _met(scores))),
    "min": lambda scores: min(_met(scores)),
    "mean": lambda scores: fmean(_met(scores)),
}
"""``all``: 1 if every criterion is met by more than half, else 0. ``min`` and ``mean``: the lowest
and the mean degree to which criteria are met."""

NEED_EVERY_PART: frozenset[RubricAggregate] = frozenset(["all", "min"])
"""Aggregates that a missing criterion could lower: without it, only a 0 is certain."""


def no_score(
    parts: Mapping[str, Component], needed: int, what: str, required: Sequence[Component] = ()
) -> tuple[Status, str]:
    """Status and reason of an aggregate without a score; retryable if a retry could produce it.

    Of all ``parts``, called ``what``, ``needed`` must have a score, the ``required`` among them.
    """
    failed = {name: part for name, part in parts.items() if part.score is None}
    statuses = [part.status for part in failed.values()]
    lasting = [status for status in statuses if not status.is_passing]
    hopeless = len(parts) - len(lasting) < needed or any(p.status in lasting for p in required)
    status = next(s for s in reversed(Status) if s in (lasting if hopeless else statuses))
    first = [f"{name}: {part.status.value}: {part.reason}" for name, part in failed.items()][:3]
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    have = f"{len(parts) - len(failed)} of {len(parts)} {what} have a score, {needed} are needed"
    return status, f"{have}: {'; '.join(first)}{more}"


def component_of(result: ScoreResult) -> Component:
    """The result of a part asked on its own."""
    return Component(**{name: getattr(result, name) for name in Component.model_fields})


Ask = Callable[[dict[str, Any], bool], Awaitable[Explanation]]
"""Sends a member a request and never raises; without the flag, the answer is only a result."""


async def length(body: dict[str, Any], explains: bool) -> Explanation:
    """The member ``length``: the number of characters of the response."""
    score = float(len(ScoreRequest.model_validate(body).judged))
    return Explanation(result=ScoreResult(status=Status.OK, score=score, source="rule"))


class Composite(RewardModel):
    """Combines its members' scores; ``asks`` has one for each, in order."""

    def __init__(self, config: CompositeModel, asks: Sequence[Ask]) -> None:
        self._config = config.composite
        self._members = {member.name: member for member in self._config.members}
        self.reads_rubric = config.reads_rubric
        self._asks = asks
        self._quorum = self._config.quorum or 1
        self.counts = {"agreed": 0, "disagreed": 0, "summed": 0, "failed": 0}
        """Requests on which all scored members agreed or not, or whose scores were added up;
        ``failed`` without a quorum."""

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score one request by the members' scores; a trace has their explanations."""
        within_s = MODELS_SHARE * request.timeout_s
        pairs = zip(self._members.values(), self._asks, strict=True)
        calls = (_answer(ask, _body(request, m, within_s), trace is not None) for m, ask in pairs)
        named = dict(zip(self._members, await asyncio.gather(*calls), strict=True))
        result = self._result({name: answer.result for name, answer in named.items()})
        if trace is not None:
            trace.members = named
        elif result.score is None:
            self.counts["failed"] += 1
        else:
            disagreement = (result.details or {}).get("disagreement")
            outcome = "disagreed" if disagreement else "agreed"
            self.counts["summed" if disagreement is None else outcome] += 1
        return result

    def _result(self, results: Mapping[str, ScoreResult]) -> ScoreResult:
        clipped = {name: _clipped(self._members[name], r) for name, r in results.items()}
        parts = {name: _gated(self._members[name], name, clipped) for name in clipped}
        nested = {
            f"{name}/{inner}": part
            for name, result in results.items()
            for inner, part in (result.components or {}).items()
        }
        details: dict[str, Any] = {"members": _shown(results, _ABOUT_MEMBER)}
        fields: dict[str, Any] = {
            "components": parts | nested,
            "details": details,
            "usage": summed_usage(list(results.values())),
            "fingerprint": self._fingerprint(results.values()),
            "critique": next((r.critique for r in results.values() if r.critique), None),
        }
        scored = ((self._members[name].weight, part.score) for name, part in parts.items())
        scores = [(score, weight) for weight, score in scored if score is not None]
        if len(scores) < self._quorum:
            status, reason = no_score(parts, self._quorum, "members")
            details |= retry_details(results.values())
            return failure(status, reason, **fields)
        score, label, disagreement = self._aggregate(scores)
        if disagreement is not None:
            details["disagreement"] = disagreement
        return ScoreResult(status=Status.OK, score=score, source="composite", label=label, **fields)

    def describe(self) -> dict[str, Any]:
        """Kind, members and settings."""
        return {
            "kind": "composite",
            "members": list(self._members),
            "aggregate": self._config.aggregate,
            "quorum": self._quorum,
            "composite": dict(self.counts),
            "fingerprint": self._fingerprint(),
        }

    def _aggregate(self, scores: Scores) -> tuple[float, str | None, float | None]:
        """Score, label and disagreement: the outvoted fraction of weight, or the scores' range."""
        if self._config.aggregate == "sum":
            return total(scores), None, None
        if self._config.aggregate == "mean":
            values = [score for score, _ in scores]
            return mean(scores), None, max(values) - min(values)
        right, share = vote(scores, self._config.threshold)
        return float(right), "right" if right else "wrong", min(share, 1 - share)

    def _fingerprint(self, results: Iterable[ScoreResult] = ()) -> str:
        names, digest = ",".join(self._members), _digest(self._config, results)
        return f"composite={self._config.aggregate};members={names};digest={digest}"


def _body(request: ScoreRequest, member: MemberConfig, within_s: float) -> dict[str, Any]:
    """The request for this member: with its template, and a rubric only if it reads one."""
    others = {"model", "id"} | ({"rubric"} if member.rubric is False else set())
    body = request.model_dump(mode="json", exclude_unset=True, exclude=others)
    changed = {"template": member.template} if member.template else {}
    return {**body, **changed, "timeout_s": within_s}


def _digest(config: CompositeConfig | CascadeConfig, results: Iterable[ScoreResult]) -> str:
    fingerprints = (result.fingerprint or "" for result in results)
    text = "\n".join([config.model_dump_json(), *fingerprints])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def _answer(ask: Ask, body: dict[str, Any], explains: bool) -> Explanation:
    """The member's answer, or a timeout if it exceeds its deadline."""
    try:
        async with asyncio.timeout(body["timeout_s"]):
            return await ask(body, explains)
    except TimeoutError:
        reason = f"no answer within {body['timeout_s']:.1f} s"
        return Explanation(result=failure(Status.TIMEOUT, reason))


def _clipped(member: MemberConfig, result: ScoreResult) -> Component:
    part = component_of(result)
    if part.score is not None and member.clip is not None:
        low, high = member.clip
        part.score = min(high, max(low, part.score))
    return part


def _gated(member: MemberConfig, name: str, parts: Mapping[str, Component]) -> Component:
    """The member's part; its score is 0 if its gate is closed, null if the gate has no score."""
    part, gate = parts[name], member.gate
    if gate is None or part.score is None:
        return part
    other = parts[gate.member]
    if other.score is None:
        reason = f"its gate, {gate.member}, has no score: {other.reason}"
        return Component(status=other.status, reason=reason)
    return part.model_copy(update={"score": 0.0}) if other.score < gate.below else part


def _shown(results: Mapping[str, ScoreResult], fields: set[str]) -> dict[str, Any]:
    return {name: r.model_dump(mode="json", include=fields) for name, r in results.items()}


class Cascade(RewardModel):
    """Asks its members in order until one is sure; ``asks`` has one for each."""

    def __init__(self, config: CascadeModel, asks: Sequence[Ask]) -> None:
        self._config = config.cascade
        self._members = {member.name: member for member in self._config.members}
        self.reads_rubric = config.reads_rubric
        self._asks = asks
        self.counts = dict.fromkeys(self._members, 0)  # requests that each was asked

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """The first sure member's result, or the last one's; a trace has their explanations."""
        clock = asyncio.get_running_loop().time
        end = clock() + request.timeout_s
        answers: dict[str, Explanation] = {}
        if trace is not None:
            trace.members = answers
        for (name, member), ask in zip(self._members.items(), self._asks, strict=True):
            left = max(end - clock(), 0.001)
            is_last = len(answers) == len(self._asks) - 1
            within_s = left if is_last else left * _CASCADE_DEADLINE
            answers[name] = await ask(_body(request, member, within_s), trace is not None)
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
        members = _shown(results, {"status", "score", "probabilities"})
        last = results[decisive]
        return last.model_copy(
            update={
                "details": {**(last.details or {}), "decided_by": decisive, "members": members},
                "usage": summed_usage(list(results.values())),
                "fingerprint": self._fingerprint(results.values()),
            }
        )

    def _fingerprint(self, results: Iterable[ScoreResult] = ()) -> str:
        return f"cascade={','.join(self._members)};digest={_digest(self._config, results)}"
