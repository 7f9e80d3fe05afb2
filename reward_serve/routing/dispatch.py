"""Sends items to reward models by name and joins the results of a batch for several models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reward_serve.explanation import Explanation
from reward_serve.routing.deployment_client import (
    REPLICA_GRACE_S,
    DeploymentClient,
    NoAnswerError,
    Result,
)
from reward_serve.schema import ScoreResult, Status, echoes, failure, group_failure, size_of_group

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

_READY_TIMEOUT_S = 2.0


class UnknownModelError(LookupError):
    """No reward model has this name; the message lists the names."""


class Dispatcher:
    """Sends items to reward models.

    Args:
        models: the models' handles by name; items without ``model`` are sent to the first.
        aliases: alternative names of the models.
        grace_s: see ``DeploymentClient``.
        detached: see ``DeploymentClient``.
    """

    def __init__(
        self,
        models: Mapping[str, DeploymentHandle],
        aliases: Mapping[str, str] | None = None,
        *,
        grace_s: float = REPLICA_GRACE_S,
        detached: bool = False,
    ) -> None:
        self._models = {
            name: DeploymentClient(handle, grace_s, detached) for name, handle in models.items()
        }
        self._default = next(iter(models))
        self.aliases: Mapping[str, str] = aliases or {}
        """Alternative names of the models."""
        self.applications = {name: handle.app_name for name, handle in models.items()}
        """Reward model name to Serve application name."""

    def pick(self, name: object) -> str:
        """Resolve a model name or alias; None is the default model.

        Raises:
            UnknownModelError: no model has this name.
        """
        if name is None:
            return self._default
        name = self.aliases.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in self._models:
            raise UnknownModelError(
                f"model: no model is named {ascii(name)[:80]}; choose from "
                f"{', '.join(self._models)}"
            )
        return name

    async def score_batch(self, items: list[Any], batch: str | None = None) -> list[Result]:
        """Score each item with the model that it names, in order.

        Args:
            items: score requests as plain data.
            batch: an id, if the items are only a part of a batch.
        """
        parts, refused = self._parts(items)
        answers = await asyncio.gather(
            *(
                self._models[name].score_batch([*part.values()], batch)
                for name, part in parts.items()
            )
        )
        found = {
            index: result.model_dump(mode="json") | echoes(items[index])
            for index, result in refused.items()
        }
        for part, results in zip(parts.values(), answers, strict=True):
            found.update(zip(part, results, strict=True))
        return [found[index] for index in range(len(items))]

    async def score_stream(self, items: list[Any]) -> AsyncGenerator[Result, None]:
        """Each result of ``score_batch`` as soon as it is there, with its ``index``."""
        batch = uuid4().hex

        async def scored(index: int) -> Result:
            (result,) = await self.score_batch([items[index]], batch)
            return {"index": index, **result}

        tasks = [asyncio.create_task(scored(index)) for index in range(len(items))]
        try:
            for task in asyncio.as_completed(tasks):
                yield await task
        finally:
            for left in tasks:
                left.cancel()

    async def explain(self, body: dict[str, Any]) -> Result:
        """The explanation of a request's result, by the model that the request names."""
        answer = await self._ask("explain", body)
        if isinstance(answer, ScoreResult):
            failed = answer.model_copy(update=echoes(body))
            return Explanation(result=failed).model_dump(mode="json")
        return answer

    async def score_group(self, body: dict[str, Any]) -> Result:
        """The result of a group, by the model that the request names."""
        answer = await self._ask("score_group", body)
        if isinstance(answer, ScoreResult):
            failed = group_failure(answer, size_of_group(body), **echoes(body))
            return failed.model_dump(mode="json")
        return answer

    async def _ask(self, method: str, body: dict[str, Any]) -> Result | ScoreResult:
        """The answer of the model that a request names, or the failure to get one."""
        parts, refused = self._parts([body])
        if refused:
            return refused[0]
        ((model, part),) = parts.items()
        try:
            return await self._models[model].ask(method, part[0])
        except NoAnswerError as error:
            return failure(error.status, error.reason, model=model, details=error.details)

    async def complete(self, model: str, body: dict[str, Any], within_s: float) -> Result:
        """The model's chat completion.

        Raises:
            NoAnswerError: the model did not answer.
        """
        within_s += REPLICA_GRACE_S
        answer: Result = await self._models[model].call("complete", body, within_s=within_s)
        return answer

    async def describe(self) -> list[Result]:
        """Each model's description, and whether it is ready."""
        return await asyncio.gather(*map(self._describe, self._models))

    async def _describe(self, name: str) -> Result:
        try:
            description = await self._models[name].call("describe", within_s=_READY_TIMEOUT_S)
            return {**description, "ready": True}
        except NoAnswerError:
            return {"name": name, "ready": False}

    def _parts(self, items: list[Any]) -> tuple[dict[str, dict[int, Any]], dict[int, ScoreResult]]:
        """Group the items by model: each model's items by index, and the other items' results.

        An alias is replaced by the model's name, which the replicas expect. Items that are not
        objects, or whose model is not a string, go to the default model, which rejects them.
        """
        parts: dict[str, dict[int, Any]] = {}
        refused: dict[int, ScoreResult] = {}
        for index, item in enumerate(items):
            name = item.get("model") if isinstance(item, dict) else None
            name = name if isinstance(name, str) else None
            try:
                model = self.pick(name)
            except UnknownModelError as error:
                refused[index] = failure(Status.INVALID, str(error))
                continue
            addressed = item if name in (None, model) else {**item, "model": model}
            parts.setdefault(model, {})[index] = addressed
        return parts, refused
