"""The reward functions that verl calls. Each reward is a dict of numbers with the same keys.

Undecided samples raise ``ScoringError``: verl's V1 trainer then stores no trajectory for them, and
the group's baseline excludes them (``training.py``).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

from reward_serve.client import Client, ScoringError, metrics_of
from reward_serve.client.outcomes import check_on_failure, components_of
from reward_serve.client.rows import check_first_results
from reward_serve.schema import ScoreResult
from reward_serve_verl.default_scoring import default_reward, is_judged
from reward_serve_verl.requests import client_for, request_for


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Score a response.

    Args:
        data_source: the row's data set; verl's own scoring is used if it matches none of the
            patterns in ``judged_data_sources``.
        solution_str: the response.
        ground_truth: a gold answer or solution, a list of them, or a mapping from names.
        extra_info: the row's ``extra_info``; ``requests.py`` lists the keys that are read.
        **settings: ``reward_kwargs``, ``data_sources``, and ``url``, ``app``, ``on_failure`` and
            others of ``reward_serve.client.connect``; ``group_size``, verl's ``rollout.n``, to
            judge the samples of a row (``extra_info.index``) against each other; and
            ``components``, names for ``as_reward``.

    Returns:
        ``score`` and metrics of the request; see ``as_reward``.

    Raises:
        ValueError: a setting is unknown or invalid.
        ScoringError: the sample is undecided; verl's V1 trainer then leaves it out.
    """
    info = extra_info or {}
    if not is_judged(data_source, settings):
        return await asyncio.to_thread(
            default_reward, data_source, solution_str, ground_truth, info
        )
    client = client_for(info, settings)
    request = request_for(solution_str, ground_truth, info, settings.get("group_size"))
    return as_reward(await client.ascore(request), settings.get("components") or ())


def compute_score_sync(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """``compute_score`` for callers that cannot await; verl runs it in a thread.

    Raises:
        ScoringError: the sample is undecided.
    """
    info = extra_info or {}
    if not is_judged(data_source, settings):
        return default_reward(data_source, solution_str, ground_truth, info)
    client = client_for(info, settings)
    request = request_for(solution_str, ground_truth, info, settings.get("group_size"))
    return as_reward(client.score(request), settings.get("components") or ())


def compute_score_batched(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    **settings: Any,
) -> list[dict[str, float]]:
    """The result of ``compute_score`` for each response, in order.

    Raises:
        ValueError: the lists differ in length, or ``on_failure`` is not a number: every sample of
            a batch needs a score.
        RefusedRowError: the service refuses a row of this process's first batch.
    """
    if not isinstance(check_on_failure(settings.get("on_failure", "rule")), float):
        raise ValueError(
            "compute_score_batched cannot leave undecided samples out; set their reward "
            "(on_failure=0.0), or use compute_score"
        )
    rows = _rows(data_sources, solution_strs, ground_truths, extra_infos)
    judged = [row for row in rows if is_judged(row[0], settings)]
    results = iter(_results(judged, settings))
    names = settings.get("components") or ()
    return [
        as_reward(next(results), names) if is_judged(row[0], settings) else default_reward(*row)
        for row in rows
    ]


def results_of(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None,
    settings: Mapping[str, Any],
) -> list[ScoreResult]:
    """A result for each response, in order; each client is sent one batch.

    Raises:
        ValueError: the lists differ in length.
        RefusedRowError: the service refuses a row of this process's first batch.
    """
    return _results(_rows(data_sources, solution_strs, ground_truths, extra_infos), settings)


def _rows(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None,
) -> list[tuple[str, str, Any, Mapping[str, Any]]]:
    given = [] if extra_infos is None else list(extra_infos)  # verl's columns are arrays
    infos = [info or {} for info in given or [None] * len(solution_strs)]
    lengths = {len(data_sources), len(solution_strs), len(ground_truths), len(infos)}
    if len(lengths) > 1:
        raise ValueError(
            f"data_sources, solution_strs, ground_truths, extra_infos: {len(data_sources)}, "
            f"{len(solution_strs)}, {len(ground_truths)} and {len(infos)}; must be equally long"
        )
    return list(zip(data_sources, solution_strs, ground_truths, infos, strict=True))


def _results(
    rows: Sequence[tuple[str, str, Any, Mapping[str, Any]]], settings: Mapping[str, Any]
) -> list[ScoreResult]:
    by_client: dict[Client, list[int]] = {}
    for index, (*_, info) in enumerate(rows):
        by_client.setdefault(client_for(info, settings), []).append(index)
    results: dict[int, ScoreResult] = {}
    for client, indices in by_client.items():
        size = settings.get("group_size")
        requests = [request_for(*rows[index][1:], size) for index in indices]
        scored = client.score_batch(requests)
        check_first_results(client, scored)
        results.update(zip(indices, scored, strict=True))
    return [results[index] for index in range(len(rows))]


def as_reward(result: ScoreResult, components: Sequence[str] = ()) -> dict[str, float]:
    """A result as verl's reward dict.

    Args:
        result: the result.
        components: names of criteria, or of a composite's members; verl needs the same keys for
            every sample, whatever its rubric.

    Returns:
        ``score``, ``acc``, ``judged`` (1.0), the metrics of ``reward_serve.client.metrics_of``,
        ``latency_ms``, the time in the service, and ``component_<name>`` for each name, NaN where
        it has no score.

    Raises:
        ScoringError: the result has no score.
    """
    if result.score is None:
        raise ScoringError(result)
    scores = components_of(result)
    return {
        "score": result.score,
        "acc": float(result.score >= 0.5),
        "judged": 1.0,
        **metrics_of(result),
        "latency_ms": result.latency_ms,
        **{f"component_{name}": scores.get(name, math.nan) for name in components},
    }
