"""Rewards that TRL's environments own, scored by a ``reward_serve`` service.

    judge = EnvironmentJudge(url="http://127.0.0.1:8000")

    class Shop:
        async def get_reward(self):
            return await judge.ascore(response=self.receipt, reference=self.order)

TRL awaits ``get_reward`` of one environment after another; ``judge_reward`` scores the
conversations of all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reward_serve.client import Client, connect
from reward_serve.client.rows import check_first_results, conversation_of, request_of
from reward_serve.schema import ScoreResult
from reward_serve_trl import _schemas

__all__ = ["EnvironmentJudge"]


class EnvironmentJudge:
    """Scores what an environment shows; None without a verdict.

    GRPOTrainer and AsyncGRPOTrainer leave a sample whose only reward is None out of its group's
    baseline, and its advantage is 0. If reward functions gave it others, it is trained on those.
    It can be pickled, as AsyncGRPOTrainer does with an environment's factory.

    Args:
        **settings: settings of ``reward_serve.client.connect``; ``on_failure`` defaults to
            ``none``.

    Raises:
        TypeError, ValueError: a setting is unknown or invalid.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = {"on_failure": "none", **settings}
        connect(**self._settings)

    def score(self, **request: Any) -> float | None:
        """The reward, in ``def get_reward(self)``.

        Args:
            **request: ``response`` or ``messages``, with ``tools`` (functions or schemas) if the
                conversation has any; ``reference``, ``question`` and ``rubric``, as in a data set's
                row; and other fields of a request, such as ``template`` and ``metadata``.

        Raises:
            RefusedRowError: the service refuses all requests, or all of the first.
        """
        client = connect(**self._settings)
        return _reward(client, client.score(_request(**request)))

    async def ascore(self, **request: Any) -> float | None:
        """``score``, awaited, in ``async def get_reward(self)``."""
        client = connect(**self._settings)
        return _reward(client, await client.ascore(_request(**request)))


def _request(
    response: str = "",
    messages: Sequence[Mapping[str, Any]] = (),
    tools: Sequence[Any] = (),
    reference: Any = None,
    question: Any = None,
    rubric: Any = None,
    **fields: Any,
) -> dict[str, Any]:
    request = request_of(response, reference, question, rubric)
    return fields | (conversation_of(request, messages, _schemas(tools)) if messages else request)


def _reward(client: Client, result: ScoreResult) -> float | None:
    check_first_results(client, [result])
    return result.score
