"""A reward function for TRL's GRPOTrainer, answered by a ``reward_serve`` service.

GRPOTrainer(..., reward_funcs=[judge_reward(url="http://127.0.0.1:8000")])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from reward_serve.client import connect

__all__ = ["judge_reward"]

RewardFunction = Callable[..., Awaitable[list[float | None]]]


def judge_reward(
    *,
    reference: str = "answer",
    question: str | None = "question",
    name: str = "judge_reward",
    **settings: Any,
) -> RewardFunction:
    """An ``async def`` reward function; TRL awaits it beside the other reward functions.

    Args:
        reference: the data set's column of gold answers or solutions.
        question: its column of questions, where it has one.
        name: what TRL calls the reward in its logs.
        **settings: of ``reward_serve.client.connect``; ``on_failure`` is ``none`` unless given,
            and TRL leaves out a sample whose reward is None.
    """
    settings = {"on_failure": "none", **settings}

    async def reward(
        prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """The service's score of each completion; None for a failed verdict."""
        if reference not in columns:
            raise KeyError(
                f"{reference!r} is no column of the data set, which has {sorted(columns)}; "
                "name the column of gold answers: judge_reward(reference=...)"
            )
        questions = columns.get(question) if question else None
        requests = [
            _request(completion, gold, questions[index] if questions else None)
            for index, (completion, gold) in enumerate(
                zip(completions, columns[reference], strict=True)
            )
        ]
        results = await connect(**settings).ascore_batch(requests)
        _log(columns.get("log_metric"), [result.status.value for result in results])
        return [result.score for result in results]

    reward.__name__ = name
    return reward


def _request(completion: Any, gold: Any, question: Any) -> dict[str, Any]:
    request = {"response": _text(completion), "reference": gold if _many(gold) else str(gold)}
    return {**request, "question": str(question)} if question else request


def _many(gold: Any) -> bool:
    return isinstance(gold, list)


def _text(completion: Any) -> str:
    """A plain completion, or the assistant's last turn of a conversation."""
    if isinstance(completion, str):
        return completion
    turns: Sequence[Mapping[str, Any]] = completion
    said = [turn.get("content") for turn in turns if turn.get("role", "assistant") == "assistant"]
    return str(said[-1] or "") if said else ""


def _log(log_metric: Any, statuses: Sequence[str]) -> None:
    if callable(log_metric) and statuses:
        log_metric("judge/ok", statuses.count("ok") / len(statuses))
