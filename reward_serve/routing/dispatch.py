"""Sends items to reward models by name and joins the results of a batch for several models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reward_serve.config.base import INGRESS_NAME
from reward_serve.explanation import Explanation
from reward_serve.routing.deployment_client import (
    REPLICA_GRACE_S,
    Chunks,
    DeploymentClient,
    NoAnswerError,
    handle_of,
    joined,
    merged,
)
from reward_serve.schema import ScoreResult, Status, echoes, failure, group_failure, size_of_group

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

_READY_TIMEOUT_S = 2.0
_LEARN_EVERY_S = 5.0


class UnknownModelError(LookupError):
    """No reward model has this name; the message lists the names."""


class Dispatcher:
    """Sends items to reward models.

    Args:
        models: the models' handles by name; items without ``model`` are sent to the first.
        aliases: alternative names of the models.
        grace_s: see ``DeploymentClient``.
        detached: see ``DeploymentClient``.
        upstream: for a gateway, the applications of its models.
    """

    def __init__(
        self,
        models: Mapping[str, DeploymentHandle],
        aliases: Mapping[str, str] | None = None,
        *,
        grace_s: float = REPLICA_GRACE_S,
        detached: bool = False,
        upstream: Collection[str] = (),
    ) -> None:
        self._models = {
            name: DeploymentClient(handle, grace_s, detached) for name, handle in models.items()
        }
        self._default = next(iter(models))
        self.aliases: Mapping[str, str] = aliases or {}
        """Alternative names of the models; ``learn`` adds to a gateway's."""
        self._upstream = upstream
        self._learning = asyncio.Lock()
        self._learned_at = float("-inf")
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

    async def find(self, name: object) -> str:
        """``pick``, after ``learn`` if the name is unknown."""
        await self.learn([name])
        return self.pick(name)

    async def learn(self, names: Iterable[object] | None = None) -> None:
        """Fetch the aliases of a gateway's applications, such as the hub ids of checkpoints.

        An alias of several models remains unknown.

        Args:
            names: if given, aliases are fetched only if one of these names is unknown.
        """
        if not self._upstream or (names is not None and all(map(self._known, names))):
            return
        async with self._learning:
            if time.monotonic() - self._learned_at > _LEARN_EVERY_S:
                abouts = await asyncio.gather(*map(self._about, self._upstream))
                found: dict[str, set[str]] = {}
                for application, about in zip(self._upstream, abouts, strict=True):
                    for alias, name in about.get("aliases", {}).items():
                        if self.applications.get(name) == application:
                            found.setdefault(alias, set()).add(name)
                sole = {a: next(iter(n)) for a, n in found.items() if len(n) == 1}
                self.aliases = {**sole, **self.aliases}
                self._learned_at = time.monotonic()

    def _known(self, name: object) -> bool:
        return not isinstance(name, str) or name in self._models or name in self.aliases

    async def _about(self, application: str) -> dict[str, Any]:
        try:
            ingress = DeploymentClient(handle_of(application, INGRESS_NAME))
            about: dict[str, Any] = await ingress.call("models", within_s=_READY_TIMEOUT_S)
        except NoAnswerError:  # it may start later
            return {}
        return about

    async def score_batch(self, items: list[Any]) -> list[dict[str, Any]]:
        """Score each item with the model that it names, in order."""
        parts, unknown = self._parts(items)
        calls = [
            self._models[model].score_batch(list(part.values())) for model, part in parts.items()
        ]
        answers = await asyncio.gather(_refused(items, unknown), *calls)
        return joined([list(unknown), *map(list, parts.values())], answers)

    def score_stream(self, items: list[Any]) -> Chunks:
        """The results of ``score_batch`` in chunks as they finish, each with its ``index``."""
        parts, unknown = self._parts(items)
        streams = [self._models[model].score_stream(part) for model, part in parts.items()]
        return merged([*streams, _refusals(items, unknown)] if unknown else streams)

    async def explain(self, body: dict[str, Any]) -> dict[str, Any]:
        """The explanation of a request's result, by the model that the request names."""
        answer = await self._single(body, DeploymentClient.explain)
        if isinstance(answer, ScoreResult):
            failed = answer.model_copy(update=echoes(body))
            return Explanation(result=failed).model_dump(mode="json")
        return answer

    async def score_group(self, body: dict[str, Any]) -> dict[str, Any]:
        """The result of a group, by the model that the request names."""
        answer = await self._single(body, DeploymentClient.score_group)
        if isinstance(answer, ScoreResult):
            failed = group_failure(answer, size_of_group(body), **echoes(body))
            return failed.model_dump(mode="json")
        return answer

    async def _single(
        self,
        body: dict[str, Any],
        ask: Callable[[DeploymentClient, Any], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any] | ScoreResult:
        """The answer of the model that a request names, or the failure to get one."""
        parts, unknown = self._parts([body])
        if unknown:
            return failure(Status.INVALID, unknown[0])
        ((model, part),) = parts.items()
        try:
            return await ask(self._models[model], part[0])
        except NoAnswerError as error:
            return failure(error.status, error.reason, model=model, details=error.details)

    async def complete(self, model: str, body: dict[str, Any], within_s: float) -> dict[str, Any]:
        """The model's chat completion.

        Raises:
            NoAnswerError: the model did not answer.
        """
        within_s += REPLICA_GRACE_S
        answer: dict[str, Any] = await self._models[model].call("complete", body, within_s=within_s)
        return answer

    async def describe(self) -> list[dict[str, Any]]:
        """Each model's description, and whether it is ready."""
        return await asyncio.gather(*map(self._describe, self._models))

    async def _describe(self, name: str) -> dict[str, Any]:
        try:
            description = await self._models[name].call("describe", within_s=_READY_TIMEOUT_S)
            return {**description, "ready": True}
        except NoAnswerError:
            return {"name": name, "ready": False}

    def _parts(self, items: list[Any]) -> tuple[dict[str, dict[int, Any]], dict[int, str]]:
        """Group the items by model: each model's items by index, and the other items' errors.

        An alias is replaced by the model's name, which the replicas expect. Items that are not
        objects, or whose model is not a string, go to the default model, which rejects them.
        """
        parts: dict[str, dict[int, Any]] = {}
        unknown: dict[int, str] = {}
        for i, item in enumerate(items):
            name = item.get("model") if isinstance(item, dict) else None
            name = name if isinstance(name, str) else None
            try:
                model = self.pick(name)
            except UnknownModelError as error:
                unknown[i] = str(error)
                continue
            addressed = item if name in (None, model) else {**item, "model": model}
            parts.setdefault(model, {})[i] = addressed
        return parts, unknown


async def _refused(items: list[Any], reasons: Mapping[int, str]) -> list[dict[str, Any]]:
    """The results of items whose model is unknown."""
    results = []
    for i, reason in reasons.items():
        result = failure(Status.INVALID, reason, **echoes(items[i]))
        results.append(result.model_dump(mode="json"))
        await asyncio.sleep(0)  # their metadata is validated
    return results


async def _refusals(items: list[Any], reasons: Mapping[int, str]) -> Chunks:
    results = await _refused(items, reasons)
    yield [{"index": i, **result} for i, result in zip(reasons, results, strict=True)]
