"""Puts items to reward models by name, and joins what several models answer to one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reward_serve.explanation import Explanation
from reward_serve.routing.calls import NoAnswerError
from reward_serve.routing.deployment import GRACE_S, Chunks, DeploymentClient, joined, merged
from reward_serve.schema import Status, echoes, failure, longest_timeout_s

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

_READY_TIMEOUT_S = 2.0
_NO_METHOD = "Tried to call a method 'explain' that does not exist"


class UnknownModelError(LookupError):
    """No reward model of that name; says which there are."""


class Dispatcher:
    """Asks reward models.

    Args:
        models: their handles, by name.
        aliases: other names by which callers know them.
        default: the model of items that name none; by default the first.
        grace_s: of ``DeploymentClient``.
        detached: of ``DeploymentClient``.
    """

    def __init__(
        self,
        models: Mapping[str, DeploymentHandle],
        aliases: Mapping[str, str] | None = None,
        *,
        default: str | None = None,
        grace_s: float = GRACE_S,
        detached: bool = False,
    ) -> None:
        self._models = {
            name: DeploymentClient(handle, grace_s, detached) for name, handle in models.items()
        }
        self._default = default or next(iter(models))
        self._aliases = aliases or {}
        self.applications = {name: handle.app_name for name, handle in models.items()}
        """Each reward model's name and its application's."""

    def pick(self, name: object) -> str:
        """The model that is meant; the default where none is named.

        Raises:
            UnknownModelError: no model has the name.
        """
        if name is None:
            return self._default
        name = self._aliases.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in self._models:
            raise UnknownModelError(
                f"model: there is no {ascii(name)[:80]}; choose of {', '.join(self._models)}"
            )
        return name

    async def answers(self, model: str, items: list[Any]) -> list[dict[str, Any]]:
        """The model's result for each item."""
        return await self._models[model].score_batch(self._addressed(items))

    async def batch(self, items: list[Any]) -> list[dict[str, Any]]:
        """Each item's result from the model that it names."""
        parts = self._parts(items)
        calls = (self.answers(model, [items[i] for i in part]) for model, part in parts.items())
        return joined(parts.values(), await asyncio.gather(*calls))

    def stream(self, items: list[Any]) -> Chunks:
        """The results of ``batch`` as they finish, in chunks, each result with its ``index``."""
        parts, items = self._parts(items), self._addressed(items)
        return merged(
            self._models[model].stream({i: items[i] for i in part}) for model, part in parts.items()
        )

    async def explain(self, body: dict[str, Any]) -> dict[str, Any]:
        """The explanation of a request's result by the model that it names."""
        (model,) = self._parts([body])
        (asked,) = self._addressed([body])
        within_s = longest_timeout_s([body]) + GRACE_S
        try:
            told: dict[str, Any] = await self._models[model].call(
                "explain", asked, within_s=within_s
            )
        except NoAnswerError as error:
            status, reason = error.status, error.reason
            if _NO_METHOD in str(error.__cause__):  # its application may be older than ours
                status = Status.INVALID
                reason = f"model: {model!r} runs a version that explains nothing; update it"
            result = failure(status, reason, model=model, **echoes(body))
            return Explanation(result=result).model_dump(mode="json")
        return told

    async def complete(self, model: str, body: dict[str, Any], within_s: float) -> dict[str, Any]:
        """The model's answer to a conversation; NoAnswerError where there is none."""
        within_s += GRACE_S
        answer: dict[str, Any] = await self._models[model].call("complete", body, within_s=within_s)
        return answer

    async def describe(self) -> list[dict[str, Any]]:
        """Each model's description of itself, and whether it answers."""
        return await asyncio.gather(*map(self._describe, self._models))

    async def _describe(self, name: str) -> dict[str, Any]:
        try:
            told = await self._models[name].call("describe", within_s=_READY_TIMEOUT_S)
            return {**told, "ready": True}
        except NoAnswerError:
            return {"name": name, "ready": False}

    def _addressed(self, items: list[Any]) -> list[Any]:
        """The items with their models' own names, to which the replicas answer."""
        if not self._aliases:
            return items
        own = self._aliases
        return [
            {**item, "model": own[name]} if (name := self._named(item)) in own else item
            for item in items
        ]

    def _parts(self, items: list[Any]) -> dict[str, list[int]]:
        """Model to the indices of its items; an unknown model's go to the default's refusal."""
        parts: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            name = self._aliases.get(name := self._named(item), name)
            parts.setdefault(name if name in self._models else self._default, []).append(i)
        return parts

    @staticmethod
    def _named(item: Any) -> str:
        """The name of the model that the item asks for; empty where it names none."""
        name = item.get("model") if isinstance(item, dict) else None
        return name if isinstance(name, str) else ""
