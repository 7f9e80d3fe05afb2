"""Scores groups with one reward model: validation, admission, deadlines, typed failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import ValidationError

from reward_serve.groups.schema import GroupRequest, GroupResult, group_failure
from reward_serve.replica.admission import Admission, within_deadline
from reward_serve.replica.cohorts import Cohorts
from reward_serve.replica.observers import Observer, Times
from reward_serve.reward_models.base import InvalidRequestError, RewardModel, failure_of
from reward_serve.reward_models.group import Groups
from reward_serve.schema import (
    ScoreRequest,
    ScoreResult,
    Status,
    describe_errors,
    echoes,
    failure,
)


class GroupScorer:
    """Turns group requests into results, and never raises.

    Each call of the engine takes a place as an item does; those of one group take turns as one.

    Args:
        name: the reward model's name in results.
        model: the reward model.
        admission: limits the calls in progress and waiting.
        check: raises ``InvalidRequestError`` for fields, given by their sizes, that are too long.
        observers: notified of each response's result.
        clock: monotonic clock in seconds.
    """

    def __init__(
        self,
        name: str,
        model: RewardModel,
        admission: Admission,
        check: Callable[[Mapping[str, int]], object],
        observers: Sequence[Observer],
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._model = model
        self._admission = admission
        self._check = check
        self._observers = observers
        self._clock = clock
        wait = model.groups.wait if model.groups else 0.0
        self._cohorts = Cohorts(self._judged, wait, admission.capacity)

    async def score(self, request: object) -> dict[str, Any]:
        """The ``GroupResult`` of one ``GroupRequest``, both as plain data."""
        times = Times(self._clock())
        try:
            parsed = GroupRequest.model_validate(request)
        except ValidationError as error:
            invalid = group_failure(failure(Status.INVALID, describe_errors(error)), 0)
            return self._finished(invalid, times, echoes(request))
        try:
            result = await self._scored(parsed)
        except Exception as error:
            failed = failure_of(error, f"reward model {self._name}, group id={parsed.id!r}")
            result = group_failure(failed, len(parsed.responses))
        finished = self._finished(result, times, {"id": parsed.id, "metadata": parsed.metadata})
        for response, each in zip(parsed.responses, finished["results"], strict=True):
            shown = {"response": response, "question": parsed.question, "id": parsed.id}
            for observer in self._observers:
                observer.observe(shown, each, times)
        return finished

    async def member(self, request: ScoreRequest) -> ScoreResult:
        """The result of a request that waits for its group.

        Raises:
            InvalidRequestError: it has no group, or the model compares no responses.
            DeadlinePassedError: its deadline passed.
        """
        self._groups()
        if request.group is None:
            raise InvalidRequestError("group_size: needs group, the prompt's key; send both")
        async with within_deadline(request.timeout_s):
            return await self._cohorts.score(request)

    async def _judged(
        self, members: Sequence[ScoreRequest], within_s: float
    ) -> Sequence[ScoreResult]:
        first = members[0]
        request = GroupRequest(
            responses=[member.response for member in members],
            question=first.question,
            messages=first.messages,
            reference=next(iter(first.references), None),
            template=first.template,
            timeout_s=within_s,
        )
        return (await self._scored(request)).results

    async def _scored(self, request: GroupRequest) -> GroupResult:
        groups = self._groups()
        if request.model not in (None, self._name):
            raise InvalidRequestError(f"model: this deployment's is {self._name!r}; choose it")
        shared = request.as_single().characters
        for number, response in enumerate(request.responses):
            self._check({**shared, "response": 0, f"responses.{number}": len(response)})
        turns, party = asyncio.Semaphore(self._admission.slots), object()
        async with within_deadline(request.timeout_s) as deadline:

            @asynccontextmanager
            async def place() -> AsyncIterator[None]:
                async with turns:  # so that one group does not fill the queue
                    left_s = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
                    async with self._admission.place(left_s, party):
                        yield

            return await groups.score(request, place)

    def _groups(self) -> Groups:
        if self._model.groups is None:
            raise InvalidRequestError(
                f"model: {self._name!r} compares no responses; choose a judge with a group section"
            )
        return self._model.groups

    def _finished(
        self, result: GroupResult, times: Times, echoed: Mapping[str, Any]
    ) -> dict[str, Any]:
        times.ended = self._clock()
        about = {"model": self._name, "latency_ms": 1000 * times.total}
        results = [one.model_copy(update=about) for one in result.results]
        finished = result.model_copy(
            update={**echoed, "results": results, "latency_ms": about["latency_ms"]}
        )
        return finished.model_dump(mode="json")
