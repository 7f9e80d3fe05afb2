"""A reward function for TRL's GRPOTrainer, answered by a ``reward_serve`` service.

GRPOTrainer(..., reward_funcs=[judge_reward(url="http://127.0.0.1:8000")])

With ``log_completions=True`` TRL's table has the judge's status, source, label and probability.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from reward_serve.client import connect
from reward_serve.client.samples import count_steps, sample_of
from reward_serve.schema import ScoreResult, Status
from reward_serve.verifiers import verify_any

__all__ = ["judge_reward", "judge_rewards"]

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

    judged = _Judged(reference, question, settings)

    async def reward(
        prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """The service's score of each completion; None for a failed verdict."""
        results = await judged.results(completions, columns)
        return [result.score for result in results]

    reward.__name__ = name
    return reward


def judge_rewards(
    *,
    reference: str = "answer",
    question: str | None = "question",
    name: str = "judge_reward",
    **settings: Any,
) -> list[RewardFunction]:
    """Three reward functions from one call of the service, each a column of TRL's logs.

    ``judge_reward``; ``rule_agreement``, 1.0 where the rule verifier proves what the judge said and
    0.0 where it proves the opposite; ``length``, the completion's tokens. Set what they are worth
    by ``GRPOConfig(reward_weights=[1.0, 0.0, -0.001])``. A sample that the judge did not decide has
    None in all three, so that TRL leaves it out.

    Args:
        reference: as of ``judge_reward``.
        question: as of ``judge_reward``.
        name: of the first.
        **settings: as of ``judge_reward``.
    """
    judged = _Judged(reference, question, {"on_failure": "none", **settings})

    async def judge(
        prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """The service's score."""
        return [result.score for result in await judged.results(completions, columns)]

    async def rule_agreement(
        prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """Whether the rule verifier agrees; None where it abstains."""
        results = await judged.results(completions, columns)
        rows = zip(completions, columns[reference], results, strict=True)
        return [_agreement(_text(said), gold, result.score) for said, gold, result in rows]

    async def length(
        prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """The completion's tokens."""
        results = await judged.results(completions, columns)
        rows = zip(columns["completion_ids"], results, strict=True)
        return [None if r.score is None else float(len(tokens)) for tokens, r in rows]

    judge.__name__ = name
    return [judge, rule_agreement, length]


class _Judged:
    """The results of a batch of completions, asked for once."""

    def __init__(self, reference: str, question: str | None, settings: dict[str, Any]) -> None:
        self._reference, self._question, self._settings = reference, question, settings
        self._of: Sequence[Any] | None = None
        self._asking: asyncio.Future[list[ScoreResult]] | None = None

    async def results(
        self, completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[ScoreResult]:
        """Of TRL's batch, which it gives to every reward function as the same list."""
        if self._asking is None or self._of is not completions:
            self._of = completions
            self._asking = asyncio.ensure_future(self._ask(completions, columns))
        return await self._asking

    async def _ask(
        self, completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[ScoreResult]:
        if self._reference not in columns:
            raise KeyError(
                f"{self._reference!r} is no column of the data set, which has {sorted(columns)}; "
                "name the column of gold answers: judge_reward(reference=...)"
            )
        questions = columns.get(self._question) if self._question else None
        requests = [
            _request(completion, gold, questions[index] if questions else None)
            for index, (completion, gold) in enumerate(
                zip(completions, columns[self._reference], strict=True)
            )
        ]
        if (state := columns.get("trainer_state")) is not None:
            count_steps(lambda: int(state.global_step))
        results = await connect(**self._settings).ascore_batch(requests)
        _log(columns, results)
        return results


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


def _agreement(response: str, gold: Any, score: float | None) -> float | None:
    if score is None:
        return None
    proven = verify_any(response, [str(one) for one in (gold if _many(gold) else [gold])])
    right = {"right": True, "wrong": False}.get(proven.outcome)
    return None if right is None else float(right == (score >= 0.5))


def _log(columns: Mapping[str, Any], results: Sequence[ScoreResult]) -> None:
    """A metric, and columns of TRL's completions table, which it logs by ``log_completions``."""
    log_metric, log_extra = columns.get("log_metric"), columns.get("log_extra")
    if callable(log_metric) and results:
        ok = [result.status is Status.OK for result in results]
        log_metric("judge/ok", sum(ok) / len(ok))
    if callable(log_extra):
        samples = [sample_of({}, result) for result in results]
        for column in ("status", "source", "label", "probability"):
            log_extra(f"judge_{column}", [sample[column] for sample in samples])
