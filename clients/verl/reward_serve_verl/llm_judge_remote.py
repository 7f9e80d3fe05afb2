"""Drop-in replacement for verl's ``llm_judge_remote``: synchronous, returns floats.

    reward.custom_reward_function.path=pkg://reward_serve_verl.llm_judge_remote
    reward.custom_reward_function.name=compute_score

For trainers that can neither read a dict nor await. A float cannot express a missing reward, so
undecided samples are scored 0.0 and counted in a warning; ``reward_serve_verl.compute_score``
leaves them out of training instead. If the service refuses a row, or the key or the model's name,
``ScoringError`` or ``RefusedRowError`` is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from reward_serve.client import Client, ScoringError
from reward_serve.client.rows import check_first_results
from reward_serve.schema import ScoreResult, Status
from reward_serve_verl.scoring import client_for, request_for

logger = logging.getLogger(__name__)

_undecided = count(1)


def compute_score(
    data_source: str | None = None,
    solution_str: str | None = None,
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    *,
    data_sources: Sequence[str] | None = None,
    solution_strs: Sequence[str] | None = None,
    ground_truths: Sequence[Any] | None = None,
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
) -> float | list[float]:
    """Score one response, or a batch if ``solution_strs`` is given.

    Args:
        data_source: not used.
        solution_str: the response.
        ground_truth: one or several gold answers or solutions.
        extra_info: the row's ``extra_info``; ``scoring.py`` lists the keys that are read.
        data_sources: not used.
        solution_strs: the responses.
        ground_truths: ``ground_truth`` of each response.
        extra_infos: ``extra_info`` of each response.

    Raises:
        ValueError: the lists differ in length, or there is no response.
        RefusedRowError: the service refuses all of this process's first rows.
        ScoringError: the service refuses a row, or all.
    """
    if solution_strs is not None:
        truths = [] if ground_truths is None else ground_truths
        return compute_score_batched(data_sources, solution_strs, truths, extra_infos)
    if solution_str is None:
        raise ValueError("solution_str: is missing; give it, or solution_strs and ground_truths")
    return compute_score_batched(None, [solution_str], [ground_truth], [extra_info])[0]


def compute_score_batched(
    data_sources: Sequence[str] | None,
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
) -> list[float]:
    """Score each response, in order, with one batch for each service; see ``compute_score``.

    Raises:
        ValueError: the lists differ in length.
        RefusedRowError: the service refuses all of this process's first rows.
        ScoringError: the service refuses a row, or all.
    """
    given = [None] * len(solution_strs) if extra_infos is None else extra_infos
    infos = [info or {} for info in given]
    if not len(solution_strs) == len(ground_truths) == len(infos):
        raise ValueError(
            f"solution_strs, ground_truths, extra_infos: {len(solution_strs)}, "
            f"{len(ground_truths)} and {len(infos)}; must be equally long"
        )
    by_client: dict[Client, list[int]] = {}
    for row, info in enumerate(infos):
        by_client.setdefault(client_for(info, {}), []).append(row)
    scores: dict[int, float] = {}
    for client, rows in by_client.items():
        asked = [request_for(solution_strs[row], ground_truths[row], infos[row]) for row in rows]
        results = client.score_batch(asked)
        check_first_results(client, results)
        scores.update(zip(rows, map(_as_float, results), strict=True))
    return [scores[row] for row in range(len(infos))]


def _as_float(result: ScoreResult) -> float:
    if result.score is not None:
        return result.score
    if result.status is Status.INVALID:
        raise ScoringError(result)
    undecided = next(_undecided)
    if undecided & (undecided - 1) == 0:  # the 1st, 2nd, 4th, 8th...
        logger.warning(
            "%d undecided samples so far were scored 0.0, like wrong answers; the last: %s: %s",
            undecided, result.status.value, result.reason,
        )  # fmt: skip
    return 0.0
