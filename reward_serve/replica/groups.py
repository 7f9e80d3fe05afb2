"""Cohorts: the requests of groups that are sent sample by sample, which wait for each other.

A cohort is judged when it is complete, or when one of its members has waited for a fraction of its
deadline, without the missing ones. Late requests get no score: the scores of two comparisons have
different scales.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field

from reward_serve.engines.base import OverloadedError
from reward_serve.reward_models.base import failure_of
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure

JudgeGroup = Callable[[Sequence[ScoreRequest], float, str | None], Awaitable[Sequence[ScoreResult]]]
"""Judges the requests of one group and API key within seconds; returns their results, in order."""
_Key = tuple[str | None, int]  # the API key's name, and a hash of what the members have in common

_PAUSE_S = 1.0
_SHARED = {"group", "group_size", "template", "question", "messages", "reference"}
"""Fields that all members of a group have in common: they are judged by those of the first."""


@dataclass(eq=False)
class _Member:
    request: ScoreRequest
    ends: float
    answer: asyncio.Future[ScoreResult]
    waiting: int = 0  # callers; a request that was sent twice has two


@dataclass(eq=False)
class _Cohort:
    size: int
    members: dict[Hashable, _Member] = field(default_factory=dict)
    judging: asyncio.Task[None] | None = None
    late: set[Hashable] = field(default_factory=set)  # names of the requests refused as late


class Cohorts:
    """Collects the requests of groups. Pure asyncio, for one event loop.

    At most ``limit`` requests wait for others, and a key's share of it whatever other keys have
    waiting; each waits for the share ``wait`` of its deadline.
    """

    def __init__(self, judge: JudgeGroup, wait: float, limit: int) -> None:
        self._judge = judge
        self._wait = wait
        self._limit = limit
        self._cohorts: dict[_Key, _Cohort] = {}
        self._waiting: Counter[str | None] = Counter()  # requests, by API key

    async def score(self, request: ScoreRequest, api_key: str | None = None) -> ScoreResult:
        """The result of a request with ``group`` and ``group_size``, judged with its group.

        A request with the ``id`` and response of a member is a retry and gets that member's result.

        Raises:
            OverloadedError: too many requests wait.
        """
        waiting, share = self._waiting.total(), self._limit / len({*self._waiting, api_key})
        if waiting >= self._limit and self._waiting[api_key] >= share:
            raise OverloadedError(
                f"{waiting} requests wait for their groups in this replica", _PAUSE_S
            )
        key = api_key, hash(request.model_dump_json(include=_SHARED))
        name = object() if request.id is None else (request.id, hash(request.judged))
        cohort = self._cohort(key, name, request.group_size or 0)
        if cohort is None:
            reason = f"group: {request.group!r} was judged before this response arrived"
            return failure(Status.TIMEOUT, f"{reason}; send its members sooner, or raise timeout_s")
        member = self._joined(key, cohort, name, request)
        self._waiting[api_key] += 1
        member.waiting += 1
        try:
            return await asyncio.shield(member.answer)
        finally:
            self._waiting[api_key] -= 1
            self._waiting += Counter()  # without keys of none
            member.waiting -= 1
            if not member.waiting and not member.answer.done():
                self._leave(key, cohort, name)

    def _cohort(self, key: _Key, name: Hashable, size: int) -> _Cohort | None:
        """The cohort to join; None if the group was judged without this request.

        A judged cohort is kept until its deadlines, for retries of its members and for late ones.
        More requests than are missing start a new cohort: the group is sent again.
        """
        cohort = self._cohorts.get(key)
        if cohort is not None:
            if cohort.judging is None or name in cohort.members:
                return cohort
            if len(cohort.members) + len(cohort.late | {name}) <= cohort.size:
                cohort.late.add(name)
                return None
        self._cohorts[key] = _Cohort(size)
        return self._cohorts[key]

    def _joined(self, key: _Key, cohort: _Cohort, name: Hashable, request: ScoreRequest) -> _Member:
        if name in cohort.members:
            return cohort.members[name]
        loop = asyncio.get_running_loop()
        member = _Member(request, loop.time() + request.timeout_s, loop.create_future())
        cohort.members[name] = member
        if len(cohort.members) == cohort.size:
            self._close(key, cohort)
        else:
            loop.call_later(self._wait * request.timeout_s, self._close, key, cohort)
        return member

    def _leave(self, key: _Key, cohort: _Cohort, name: Hashable) -> None:
        """Remove a member without callers; cancel the judging when no member has any."""
        if cohort.judging is None:
            del cohort.members[name]
            if not cohort.members:
                self._drop(key, cohort)
        elif not any(member.waiting for member in cohort.members.values()):
            cohort.judging.cancel()
            self._drop(key, cohort)

    def _drop(self, key: _Key, cohort: _Cohort) -> None:
        if self._cohorts.get(key) is cohort:
            del self._cohorts[key]

    def _close(self, key: _Key, cohort: _Cohort) -> None:
        """Judge the cohort, unless an earlier member's time was up or all have left."""
        if cohort.judging is None and cohort.members:
            loop = asyncio.get_running_loop()
            ends = max(member.ends for member in cohort.members.values())
            loop.call_at(ends, self._drop, key, cohort)
            cohort.judging = loop.create_task(self._judged(key, cohort))

    async def _judged(self, key: _Key, cohort: _Cohort) -> None:
        members = list(cohort.members.values())
        left_s = min(member.ends for member in members) - asyncio.get_running_loop().time()
        results: Sequence[ScoreResult]
        if len(members) == 1:
            reason = f"group: the other {cohort.size - 1} requests did not arrive in time"
            results = [failure(Status.TIMEOUT, reason)]
        else:
            try:
                results = await self._judge([each.request for each in members], left_s, key[0])
            except Exception as error:
                results = [failure_of(error, "a cohort")] * len(members)
        if any(result.score is not None for result in results):
            results = [_final(result) for result in results]
        elif any(result.status.is_retried for result in results):
            self._drop(key, cohort)  # retries form a new cohort
        for member, result in zip(members, results, strict=True):
            del member.request  # the cohort is kept for retries, which need only the result
            if not member.answer.done():
                member.answer.set_result(result)


def _final(result: ScoreResult) -> ScoreResult:
    """Make a member's failure final if others were scored: a retry could not be compared."""
    final = {"status": Status.TIMEOUT} if result.status.is_retried else {}
    return result.model_copy(update=final)
