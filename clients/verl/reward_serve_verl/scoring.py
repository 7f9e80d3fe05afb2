"""The reward functions that verl calls. Each reward is a dict of numbers with the same keys.

A sample that nobody could decide raises: verl's V1 trainer stores no trajectory for it, and its
siblings' baseline never hears of it (``training.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reward_serve.client import Client, ScoringError, metrics_of
from reward_serve.client.fallback import check_on_failure
from reward_serve.schema import ScoreResult
from reward_serve_verl.requests import client_for, request_for


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """What a response earns.

    Args:
        data_source: the row's data set; not used.
        solution_str: the response.
        ground_truth: the gold answer or solution, several of them, or several by name.
        extra_info: the row's; see ``requests.py`` for the keys that are read.
        **settings: ``reward_kwargs``: ``url``, ``app``, ``on_failure`` and the like, of
            ``reward_serve.client.connect``.

    Returns:
        ``score``, and metrics of the request: see ``as_reward``.

    Raises:
        ValueError: a setting is unknown or wrong.
        ScoringError: nobody could decide; verl's V1 trainer then leaves the sample out.
    """
    info = extra_info or {}
    client = client_for(info, settings)
    return as_reward(await client.ascore(request_for(solution_str, ground_truth, info)))


def compute_score_sync(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """``compute_score`` for callers that cannot await; verl runs it in a thread.

    Raises:
        ScoringError: nobody could decide.
    """
    info = extra_info or {}
    client = client_for(info, settings)
    return as_reward(client.score(request_for(solution_str, ground_truth, info)))


def compute_score_batched(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    **settings: Any,
) -> list[dict[str, float]]:
    """A dict of ``compute_score`` for each response, in order.

    Raises:
        ValueError: the lists differ in length, or ``on_failure`` is no number: a batch of scores
            has no place for an undecided sample.
    """
    if not isinstance(check_on_failure(settings.get("on_failure", "rule")), float):
        raise ValueError(
            "compute_score_batched returns a number for every response and cannot leave an "
            "undecided one out: name its reward (on_failure=0.0), or use compute_score"
        )
    results = results_of(data_sources, solution_strs, ground_truths, extra_infos, settings)
    return [as_reward(result) for result in results]


def results_of(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None,
    settings: Mapping[str, Any],
) -> list[ScoreResult]:
    """A result for each response, in order; one batch for each client that the rows ask through.

    Raises:
        ValueError: the lists differ in length.
    """
    infos = [info or {} for info in extra_infos or [None] * len(solution_strs)]
    lengths = {len(data_sources), len(solution_strs), len(ground_truths), len(infos)}
    if len(lengths) > 1:
        raise ValueError(
            f"data_sources, solution_strs, ground_truths, extra_infos: {len(data_sources)}, "
            f"{len(solution_strs)}, {len(ground_truths)} and {len(infos)} of them; as many of each"
        )
    asked: dict[Client, list[int]] = {}
    for index, info in enumerate(infos):
        asked.setdefault(client_for(info, settings), []).append(index)
    results: dict[int, ScoreResult] = {}
    for client, indices in asked.items():
        requests = [request_for(solution_strs[i], ground_truths[i], infos[i]) for i in indices]
        results.update(zip(indices, client.score_batch(requests), strict=True))
    return [results[index] for index in range(len(infos))]


def as_reward(result: ScoreResult) -> dict[str, float]:
    """A result as verl's metrics take it.

    Returns:
        ``score``; ``acc``; what ``reward_serve.client.metrics_of`` tells; ``latency_ms`` in the
        service.

    Raises:
        ScoringError: the result has no score.
    """
    if result.score is None:
        raise ScoringError(result)
    return {
        "score": result.score,
        "acc": float(result.score >= 0.5),
        **metrics_of(result),
        "latency_ms": result.latency_ms,
    }
