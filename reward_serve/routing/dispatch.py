"""Puts items to reward models by name, and joins what several models answer to one batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reward_serve.config.base import INGRESS_NAME
from reward_serve.routing.calls import NoAnswerError
from reward_serve.routing.deployment import (
    GRACE_S,
    Chunks,
    DeploymentClient,
    handle_of,
    joined,
    merged,
)

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

_READY_TIMEOUT_S = 2.0
_LEARN_EVERY_S = 5.0


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
        upstream: for a gateway, the applications that its models are in.
    """

    def __init__(
        self,
        models: Mapping[str, DeploymentHandle],
        aliases: Mapping[str, str] | None = None,
        *,
        default: str | None = None,
        grace_s: float = GRACE_S,
        detached: bool = False,
        upstream: Collection[str] = (),
    ) -> None:
        self._models = {
            name: DeploymentClient(handle, grace_s, detached) for name, handle in models.items()
        }
        self._default = default or next(iter(models))
        self.aliases: Mapping[str, str] = aliases or {}
        """Other names of the models; a gateway's grow by ``learn``."""
        self._upstream = upstream
        self._learning = asyncio.Lock()
        self._learned_at = float("-inf")
        self.applications = {name: handle.app_name for name, handle in models.items()}
        """Each reward model's name and its application's."""

    def pick(self, name: object) -> str:
        """The model that is meant; the default where none is named.

        Raises:
            UnknownModelError: no model has the name.
        """
        if name is None:
            return self._default
        name = self.aliases.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in self._models:
            raise UnknownModelError(
                f"model: there is no {ascii(name)[:80]}; choose of {', '.join(self._models)}"
            )
        return name

    async def learn(self, names: Iterable[object]) -> None:
        """Where one of these names is unknown, take over the applications' own names for models.

        Among those are checkpoints' hub ids. A name of several applications stays unknown.
        """
        if not self._upstream or all(self._known(name) for name in names):
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
        except NoAnswerError:  # it may come
            return {}
        return about

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
        if not self.aliases:
            return items
        own = self.aliases
        return [
            {**item, "model": own[name]} if (name := self._named(item)) in own else item
            for item in items
        ]

    def _parts(self, items: list[Any]) -> dict[str, list[int]]:
        """Model to the indices of its items; an unknown model's go to the default's refusal."""
        parts: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            name = self.aliases.get(name := self._named(item), name)
            parts.setdefault(name if name in self._models else self._default, []).append(i)
        return parts

    @staticmethod
    def _named(item: Any) -> str:
        """The name of the model that the item asks for; empty where it names none."""
        name = item.get("model") if isinstance(item, dict) else None
        return name if isinstance(name, str) else ""
