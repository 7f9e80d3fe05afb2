"""Judges groups with one reward model, within the replica's admission and the groups' deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from reward_serve.groups.schema import GroupRequest, GroupResult
from reward_serve.replica.admission import Admission, within_deadline
from reward_serve.replica.cohorts import Cohorts
from reward_serve.reward_models.base import InvalidRequestError, RewardModel
from reward_serve.reward_models.group import GroupJudge
from reward_serve.schema import ScoreRequest, ScoreResult, utf8_bytes


class GroupScorer:
    """Judges groups that are sent as one request, or sample by sample.

    Each call of the engine is admitted as an item is; those of a group are one batch.

    Args:
        name: the reward model's name, for messages.
        model: the reward model.
        admission: limits the calls in progress and waiting.
        check: takes the bytes of each field; raises ``InvalidRequestError`` if they
            are too many.
    """

    def __init__(
        self,
        name: str,
        model: RewardModel,
        admission: Admission,
        check: Callable[[Mapping[str, int]], object],
    ) -> None:
        self._name = name
        self._model = model
        self._admission = admission
        self._check = check
        wait = model.groups.wait if model.groups else 0.0
        self._cohorts = Cohorts(self._judged, wait, admission.capacity)

    async def score(self, request: GroupRequest) -> GroupResult:
        """Judge one group.

        Raises:
            InvalidRequestError: a response is too long, or the model compares no responses.
            DeadlinePassedError: its deadline passed.
        """
        groups = self._groups()
        shared = request.as_single().sizes
        for number, response in enumerate(request.responses):
            self._check({**shared, "response": 0, f"responses.{number}": utf8_bytes(response)})
        calls, batch = asyncio.Semaphore(self._admission.slots), object()
        async with within_deadline(request.timeout_s) as deadline:

            @asynccontextmanager
            async def place() -> AsyncIterator[None]:
                async with calls:  # so that one group does not fill the queue
                    left_s = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
                    async with self._admission.place(left_s, batch):
                        yield

            return await groups.score(request, place)

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
        return (await self.score(request)).results

    def _groups(self) -> GroupJudge:
        if self._model.groups is None:
            raise InvalidRequestError(
                f"model: {self._name!r} compares no responses; choose a judge with a group section"
            )
        return self._model.groups
