"""Scores requests with one reward model: validation, admission, deadlines, typed failures.

This is the work of a replica, without Ray. A request that fails, whatever it contains, gets a
result with a status and a reason.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from statistics import fmean
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from reward_serve.explanation import Explanation, Seconds
from reward_serve.logprobs import LogprobsRequest, LogprobsResult
from reward_serve.messages import utf8_bytes
from reward_serve.off_loop import off_loop
from reward_serve.replica.admission import Admission, within_deadline
from reward_serve.replica.groups import Cohorts
from reward_serve.replica.observers import CANCELLED, Asked, Observer, Times
from reward_serve.reward_models.base import (
    InvalidRequestError,
    RewardModel,
    ScoreGroup,
    Trace,
    failure_of,
    gathered,
)
from reward_serve.reward_models.chat import ChatRequest, CompletionRequest, merged
from reward_serve.routing.dispatch import UNKNOWN, Origin
from reward_serve.schema import (
    MAX_ITEM_BYTES,
    GroupRequest,
    GroupResult,
    ScoreRequest,
    ScoreResult,
    Status,
    describe_errors,
    echoes,
    failure,
    group_failure,
)

logger = logging.getLogger(__name__)

Body = TypeVar("Body", bound=BaseModel)

_COMPLETION = {**dict.fromkeys(("id", "template", "reason", "details")), "source": "chat"}
"""What observers read of a result, for a completion."""
_OF_TEACHER = {"source": "teacher", "template": None}

_FIRST_S = 0.02  # a stream's first results; those of most rules take less
_TOGETHER_S = 0.002
_SHORT_BYTES = 2**10  # of an item whose rules and prompt take some 0.1 ms


class Scorer:
    """Turns requests into results, explanations and completions; failures are results too.

    Args:
        name: the reward model's name in results.
        model: the reward model.
        admission: limits the items in progress and waiting.
        max_item_bytes: an item with more bytes of UTF-8 in total is invalid.
        observers: notified of the end of every request, except explanations.
        explains: whether ``explain`` explains results.
    """

    def __init__(
        self,
        name: str,
        model: RewardModel,
        admission: Admission,
        max_item_bytes: int = MAX_ITEM_BYTES,
        observers: Sequence[Observer] = (),
        explains: bool = True,
    ) -> None:
        self._name = name
        self._model = model
        self._admission = admission
        self._observers = observers
        self._max_item_bytes = max_item_bytes
        self._turn = asyncio.Lock()
        self._explains = explains
        self._cohorts = Cohorts(self._cohort, model.group_wait, admission.capacity)

    async def score(self, request: object, origin: Origin = UNKNOWN) -> dict[str, Any]:
        """Score one request, a ``ScoreRequest`` as plain data; its deadline starts now."""
        return await self._result(request, Times(time.monotonic()), origin)

    async def score_group(self, request: object, origin: Origin = UNKNOWN) -> dict[str, Any]:
        """The ``GroupResult`` of one ``GroupRequest``, both as plain data."""
        times, parsed = Times(time.monotonic()), None
        try:
            parsed = _validated(GroupRequest, request)
            self._check_model(parsed.model)
            result = await self._group(parsed, origin[1])
        except Exception as error:
            what = f"reward model {self._name}, group id={parsed and parsed.id!r}"
            size = 0 if parsed is None else len(parsed.responses)
            result = group_failure(failure_of(error, what), size)
        finished = self._finished(result, times, parsed or request)
        if parsed is not None:
            shared = parsed.as_single()
            pairs = zip(parsed.responses, finished["results"], strict=True)
            for place, (response, member) in enumerate(pairs):
                key = {"sample": f"{parsed.group}-{place}"} if parsed.group else {}
                fields = {"response": response, "metadata": {**(parsed.metadata or {}), **key}}
                self._observe(shared.model_copy(update=fields), member, times)
        return finished

    async def _group(self, request: GroupRequest, key: str | None = None) -> GroupResult:
        """Judge a group; each of its calls of the engine is admitted as an item is."""
        score_group = self._score_group()
        shared = request.as_single().sizes
        for number, response in enumerate(request.responses):
            self._checked_length(
                {**shared, "response": 0, f"responses.{number}": utf8_bytes(response)}
            )
        calls, batch = asyncio.Semaphore(self._admission.slots), object()
        async with within_deadline(request.timeout_s) as deadline:

            @asynccontextmanager
            async def place() -> AsyncIterator[None]:
                async with calls:  # so that one group does not fill the queue
                    left_s = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
                    async with self._admission.place(left_s, batch, key):
                        yield

            return await score_group(request, place)

    async def _cohort(
        self, members: Sequence[ScoreRequest], within_s: float, key: str | None
    ) -> Sequence[ScoreResult]:
        """The results of a group's requests, which came one by one."""
        first = members[0]
        request = GroupRequest(
            responses=[member.judged for member in members],
            question=first.question,
            messages=first.messages,
            reference="\n\nor\n\n".join(first.references) or None,
            template=first.template,
            timeout_s=within_s,
        )
        return (await self._group(request, key)).results

    def _score_group(self) -> ScoreGroup:
        if self._model.score_group is None:
            raise InvalidRequestError(
                f"model: {self._name!r} compares no responses; choose a judge with a group section"
            )
        return self._model.score_group

    async def explain(self, request: object, origin: Origin = UNKNOWN) -> dict[str, Any]:
        """The ``Explanation`` of one ``ScoreRequest``, both as plain data.

        It is scored as by ``score``, and waits for admission like other items.
        """
        times, trace = Times(time.monotonic()), Trace()
        result = await self._result(request, times, origin, trace)
        prompts = await off_loop(math.inf, lambda: [prompt() for prompt in trace.prompts])
        echoed = {name: result[name] for name in ("id", "metadata", "model")}
        explanation = Explanation(
            result=ScoreResult.model_validate(result),
            rule=trace.rule,
            model=trace.model and trace.model.model_copy(update=echoed),
            prompts=prompts,
            cached=trace.cached,
            seconds=Seconds(total=times.total, queue=times.queue, **trace.seconds),
            members=trace.members,
        )
        return explanation.model_dump(mode="json")

    async def _result(
        self, request: object, times: Times, origin: Origin, trace: Trace | None = None
    ) -> dict[str, Any]:
        parsed = None
        try:
            if isinstance(request, Mapping) and request.get("metadata"):
                await self._own_iteration()  # validation takes up to 20 ms
            parsed = _validated(ScoreRequest, request)
            result = await self._scored(parsed, times, origin, trace)
        except Exception as error:
            what = f"reward model {self._name}, request id={parsed and parsed.id!r}"
            result = failure_of(error, what)
        except asyncio.CancelledError:
            left = self._finished(failure(Status.ERROR, CANCELLED), times, parsed or request)
            if trace is None:
                self._observe(parsed, {**left, "status": CANCELLED}, times)
            raise
        finished = self._finished(result, times, parsed or request)
        if trace is None:
            self._observe(parsed, finished, times)
        return finished

    def _observe(self, request: Asked, result: Mapping[str, Any], times: Times) -> None:
        for observer in self._observers:
            observer.observe(request, result, times)

    def _finished(
        self, result: ScoreResult | GroupResult | LogprobsResult, times: Times, request: object
    ) -> dict[str, Any]:
        """The result as plain data, with the request's id and metadata, model and latency."""
        times.ended = time.monotonic()
        finished = (
            result.plain() if isinstance(result, LogprobsResult) else result.model_dump(mode="json")
        )
        finished |= echoes(request)
        finished["latency_ms"] = 1000 * times.total
        for item in finished.get("results", [finished]):
            item |= {"model": self._name, "latency_ms": finished["latency_ms"]}
        return finished

    async def logprobs(self, request: object, origin: Origin = UNKNOWN) -> dict[str, Any]:
        """The ``LogprobsResult`` of one ``LogprobsRequest``, both as plain data."""
        times, parsed = Times(time.monotonic()), None
        try:
            parsed = _validated(LogprobsRequest, request)
            result = await self._token_logprobs(parsed, origin, times)
        except Exception as error:
            failed = failure_of(
                error, f"reward model {self._name}, tokens, id={parsed and parsed.id!r}"
            )
            result = LogprobsResult(**failed.model_dump(include={"status", "reason", "details"}))
        except asyncio.CancelledError:
            self._observe(parsed, {**_COMPLETION, **_OF_TEACHER, "status": CANCELLED}, times)
            raise
        finished = self._finished(result, times, parsed or request)
        self._observe(parsed, {**finished, **_OF_TEACHER}, times)
        return finished

    async def _token_logprobs(
        self, request: LogprobsRequest, origin: Origin, times: Times
    ) -> LogprobsResult:
        if self._model.logprobs is None:
            raise InvalidRequestError(
                f"model: {self._name!r} gives no log-probabilities; ask a model of kind teacher, "
                "or set teacher: true where a judge has an engine"
            )
        self._check_model(request.model)
        self._checked_length({"messages": sum(turn.size for turn in request.messages or ())})
        async with within_deadline(request.timeout_s) as deadline:

            @asynccontextmanager
            async def place(places: int) -> AsyncIterator[None]:
                left_s = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
                async with self._admission.place(left_s, *origin, size=places):
                    times.placed = time.monotonic()
                    yield

            return await self._model.logprobs(request, place)

    async def complete(self, body: object, origin: Origin = UNKNOWN) -> dict[str, Any]:
        """A chat or text completion, for a ``ChatRequest`` or a ``CompletionRequest``.

        Returns:
            ``status``, with ``completion`` if it is ``ok``, else with ``reason`` and ``details``.
        """
        times, answer = Times(time.monotonic()), {**_COMPLETION, "status": CANCELLED}
        try:
            completion = await self._completed(body, origin, times)
            answer |= {"status": Status.OK.value, "completion": completion}
            if scored := _of_prompts(completion):
                answer |= {**_OF_TEACHER, "details": scored}
        except Exception as error:
            failed = failure_of(error, f"reward model {self._name}, chat completion")
            answer |= failed.model_dump(mode="json", include={"status", "reason", "details"})
        finally:
            times.ended = time.monotonic()
            self._observe(None, answer, times)
        return answer

    async def _completed(self, body: object, origin: Origin, times: Times) -> dict[str, Any]:
        """The completion, each answer of which is admitted as an item is."""
        answer: Callable[[Any], Awaitable[dict[str, Any]]] | None
        asked: type[Any]
        if isinstance(body, Mapping) and "prompt" in body:
            asked, answer, remedy = CompletionRequest, self._model.complete, "set teacher: true"
        else:
            asked, answer, remedy = ChatRequest, self._model.chat, "use /v1/score"
        if answer is None:
            raise InvalidRequestError(
                f"model: {self._name!r} does not generate text here; choose a judge, or {remedy}"
            )
        request: Any = _validated(asked, body)
        self._checked_length({"request": request.size})
        batch = origin[0] or object()

        async def answered(number: int) -> dict[str, Any]:
            place = self._admission.place(request.timeout_s, batch, origin[1], request.places)
            async with place:
                times.placed = times.placed or time.monotonic()
                return await answer(request.numbered(number))

        async with within_deadline(request.timeout_s):
            return merged(await gathered(map(answered, range(request.n or 1))))

    async def _scored(
        self, request: ScoreRequest, times: Times, origin: Origin, trace: Trace | None
    ) -> ScoreResult:
        if trace is not None and not self._explains:
            raise InvalidRequestError(
                "explain: is off in this deployment; set server.explain: true"
            )
        self._check_model(request.model)
        if request.rubric is not None and not self._model.reads_rubric:
            raise self._unread("rubric", "reads no rubric", "rubric or a composite of one")
        if request.turns and not self._model.scores_turns:
            raise self._unread("turns", "scores no turns", "judge, rubric, rule or classifier")
        size = self._checked_length(request.sizes)
        if request.group_size is not None:
            self._score_group()
            if any(value is not None for _, value in request.options):
                raise InvalidRequestError("options: a group is judged without them; remove them")
            if request.group is None:
                raise InvalidRequestError("group_size: needs group, the prompt's key; send both")
            if request.response is None or request.turns:
                raise InvalidRequestError(
                    "group_size: whole responses are compared; send response, without turns"
                )
            async with within_deadline(request.timeout_s):
                return await self._cohorts.score(request, origin[1])
        place = self._admission.place(request.timeout_s, *origin)
        async with within_deadline(request.timeout_s) as deadline, place:
            times.placed = time.monotonic()
            if size > _SHORT_BYTES:
                await self._own_iteration()
            request.timeout_s = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
            return await self._model.score(request, trace)

    async def score_batch(
        self, requests: Sequence[object], origin: Origin = UNKNOWN
    ) -> list[dict[str, Any]]:
        """Score each request, in order; one item's failure does not affect the others.

        Args:
            requests: the batch, or a part of it.
            origin: the parts of a batch have its id, and are admitted as one.
        """
        origin = (origin[0] or object(), origin[1])
        return await gathered(self.score(item, origin) for item in requests)

    async def score_stream(
        self, requests: Sequence[object], origin: Origin = UNKNOWN
    ) -> AsyncGenerator[list[tuple[int, dict[str, Any]]], None]:
        """Each result of ``score_batch`` with its index, some milliseconds after it is final.

        A list of results costs a tenth of a call, so results wait for others.
        """
        origin = (origin[0] or object(), origin[1])
        indices = {asyncio.create_task(self.score(r, origin)): i for i, r in enumerate(requests)}
        try:
            final, left = await asyncio.wait(indices, timeout=_FIRST_S)
            while True:
                if final:
                    yield [(indices[task], task.result()) for task in final]
                if not left:
                    return
                await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                final, left = await asyncio.wait(left, timeout=_TOGETHER_S)
        finally:
            for task in indices:
                task.cancel()

    def _unread(self, field: str, lack: str, kinds: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"{field}: model {self._name!r} has kind {self._model.describe()['kind']}, which "
            f"{lack}; ask a model of kind {kinds}, or leave it out"
        )

    async def _own_iteration(self) -> None:
        """Wait for an iteration of the event loop in which no other long item begins."""
        async with self._turn:
            await asyncio.sleep(0)

    def _check_model(self, name: str | None) -> None:
        if name not in (None, self._name):
            asked = ascii((name or "")[:64])
            raise InvalidRequestError(
                f"model: no model is named {asked} in this deployment; choose {self._name!r}"
            )

    def _checked_length(self, sizes: Mapping[str, int]) -> int:
        """The total bytes of the fields of these sizes, if they are not too many."""
        total, longest = sum(sizes.values()), max(sizes, key=sizes.__getitem__)
        if total > self._max_item_bytes:
            raise InvalidRequestError(
                f"{longest}: has {sizes[longest]} of the item's {total} bytes; the limit is "
                f"max_item_bytes: {self._max_item_bytes}, so send less, such as its end"
            )
        return total


def _of_prompts(completion: Mapping[str, Any]) -> dict[str, Any] | None:
    """What observers count of a completion with ``prompt_logprobs``, each token's own first."""
    prompts = (choice.get("prompt_logprobs") or () for choice in completion["choices"])
    rows = [row for prompt in prompts for row in prompt[1:]]
    values = [next(iter(row.values()))["logprob"] for row in rows if isinstance(row, dict)]
    return {"tokens": len(values), "mean_logprob": fmean(values)} if values else None


def _validated(contract: type[Body], body: object) -> Body:
    """The request; raises ``InvalidRequestError`` with the fields that are wrong."""
    try:
        return contract.model_validate(body)
    except ValidationError as error:
        raise InvalidRequestError(describe_errors(error, contract)) from None
