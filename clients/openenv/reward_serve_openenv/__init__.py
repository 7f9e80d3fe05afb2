"""Rubrics for OpenEnv (RFC 004), scored by a ``reward_serve`` service; no verdict is no number.

    rubric = WeightedSum([Gate(Compiles()), ServiceRubric(request)], weights=[0.2, 0.8])

Set ``REWARD_SERVE_URL`` or ``REWARD_SERVE_APP`` to the service, or give ``url``.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from openenv.core.rubrics import ExponentialDiscountingTrajectoryRubric, Rubric, RubricDict

from reward_serve.client import Client, ScoringError, connect
from reward_serve.schema import ScoreResult

__all__ = [
    "AsyncServiceRubric",
    "AsyncServiceTrajectoryRubric",
    "ServiceRubric",
    "ServiceTrajectoryRubric",
    "Unscored",
]

Steps = Sequence[tuple[Any, Any]]


class _Component(Rubric):  # type: ignore[misc]  # openenv is untyped
    """A component's score, where OpenEnv looks for that of a rubric's part."""

    def __init__(self, score: float | None) -> None:
        super().__init__()
        self.last_score = score

    def forward(self, action: Any, observation: Any) -> Any:
        return self.last_score


class _Asking:
    """What the rubrics share: the request, the client, and the last result."""

    last_score: float | None
    last_result: ScoreResult | None = None

    def _set(self, request: Callable[..., Mapping[str, Any]], settings: Mapping[str, Any]) -> None:
        self._request = request
        self._settings = {"on_failure": "none", **settings}

    def _asked(self) -> Client:
        self.last_score = self.last_result = None  # of the step before
        self.components = RubricDict()
        return connect(**self._settings)

    def _score(self, result: ScoreResult) -> float:
        self.last_result = result
        parts = {name: _Component(part.score) for name, part in (result.components or {}).items()}
        self.components = RubricDict(parts)
        if result.score is None:
            raise ScoringError(result)
        return result.score


class ServiceRubric(_Asking, Rubric):  # type: ignore[misc]
    """Scores an action and the observation that it led to.

    Args:
        request: from action and observation to the fields of a ``ScoreRequest``.
        **settings: arguments of ``connect``, such as ``url``.

    Attributes:
        last_result: the last ``ScoreResult``; None before the first.
        components: the last result's components, as child rubrics with a ``last_score``.
    """

    def __init__(self, request: Callable[[Any, Any], Mapping[str, Any]], **settings: Any) -> None:
        super().__init__()
        self._set(request, settings)

    def forward(self, action: Any, observation: Any) -> Any:
        """The score.

        Raises:
            ScoringError: there is no verdict. Containers raise it too; the environment's server
                answers the step with ``EXECUTION_ERROR``, its client raises ``RuntimeError``.
        """
        return self._score(self._asked().score(self._request(action, observation)))


class AsyncServiceRubric(ServiceRubric):
    """``ServiceRubric`` for ``step_async``: awaited, and in a ``WeightedSum`` beside others."""

    async def forward(self, action: Any, observation: Any) -> float:
        """See ``ServiceRubric.forward``."""
        return self._score(await self._asked().ascore(self._request(action, observation)))


class ServiceTrajectoryRubric(_Asking, ExponentialDiscountingTrajectoryRubric):  # type: ignore[misc]
    """Scores an episode once its observation is ``done``, or each of its turns.

    Args:
        request: from the list of actions and observations to the fields of a ``ScoreRequest``;
            with ``turns``, each action is an assistant's turn in ``messages``.
        gamma: discount of the steps before the last, if the service scores no turns.
        intermediate_reward: the reward of steps before the last.
        **settings: arguments of ``connect``, such as ``url``.
    """

    def __init__(
        self,
        request: Callable[[Steps], Mapping[str, Any]],
        gamma: float = 0.99,
        intermediate_reward: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__(gamma, intermediate_reward)
        self._set(request, settings)

    def score_trajectory(self, trajectory: Steps) -> float:
        """The episode's score, for which the service is asked once.

        Raises:
            ScoringError: there is no verdict.
        """
        if self.last_result is None or self.last_result.score is None:
            return self._score(self._asked().score(self._request(trajectory)))
        return self.last_result.score

    def compute_step_rewards(self) -> list[float | None]:
        """The turns' scores, None for a turn without a verdict; without turns, discounted scores.

        Raises:
            ScoringError: there is no verdict on the episode.
            ValueError: there are more or fewer turns than steps.
        """
        if not self._trajectory:
            return []
        self.score_trajectory(self._trajectory)
        components = (self.last_result and self.last_result.components) or {}
        turns = [part.score for name, part in components.items() if name.startswith("turn_")]
        if turns and len(turns) != len(self._trajectory):
            raise ValueError(f"{len(turns)} turns, {len(self._trajectory)} steps; send one a step")
        discounted: list[float | None] = super().compute_step_rewards()
        return turns or discounted

    def reset(self) -> None:
        """Forget the episode and its result."""
        super().reset()
        self.last_result = None


class AsyncServiceTrajectoryRubric(ServiceTrajectoryRubric):
    """``ServiceTrajectoryRubric`` for ``step_async``."""

    async def forward(self, action: Any, observation: Any) -> float:
        """The intermediate reward, or the score if the observation is ``done``; see there."""
        self._trajectory.append((action, observation))
        if not getattr(observation, "done", False):
            return float(self.intermediate_reward)
        return self._score(await self._asked().ascore(self._request(self._trajectory)))


class Unscored(Rubric):  # type: ignore[misc]
    """None where ``rubric`` has no verdict, so that the observation's reward is None.

    Use it outermost, since OpenEnv's containers take numbers only, and only for a trainer that
    leaves out None: TRL does, verifiers' ``openenv`` taskset adds it up as 0.

    Args:
        rubric: any rubric, sync or async.
    """

    def __init__(self, rubric: Rubric) -> None:
        super().__init__()
        self.rubric = rubric

    def __call__(self, action: Any, observation: Any) -> Any:
        """As containers do: awaitable if the rubric is."""
        for part in self.rubrics():
            part.last_score = None  # a container that raises keeps that of the step before
        try:
            score = self.forward(action, observation)
        except ScoringError:
            score = None
        if inspect.isawaitable(score):
            return self._call_async(action, observation, _or_none(score))
        for hook in self._forward_pre_hooks:
            hook(self, action, observation)
        return self._call_sync(action, observation, score)

    def forward(self, action: Any, observation: Any) -> Any:
        """What the rubric returns."""
        return self.rubric(action, observation)


async def _or_none(score: Awaitable[float]) -> float | None:
    try:
        return await score
    except ScoringError:
        return None
