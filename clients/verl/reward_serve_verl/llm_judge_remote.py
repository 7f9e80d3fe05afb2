"""verl's ``llm_judge_remote`` by its own signatures: synchronous, and floats alone.

    reward.custom_reward_function.path=pkg://reward_serve_verl.llm_judge_remote
    reward.custom_reward_function.name=compute_score

For a trainer that cannot read a dict or await. A float cannot say that there is no reward: a sample
that neither the judge nor the rule verifier decides scores 0.0, and a warning counts it.
``reward_serve_verl.compute_score`` leaves it out of training instead. A row that the service
refuses, for example without a gold answer, raises ``ScoringError``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from reward_serve.client import ScoringError
from reward_serve.schema import ScoreResult, Status
from reward_serve_verl.scoring import results_of

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
    """What a response earns, or each of several; with ``solution_strs``, as a batch.

    Args:
        data_source: not used.
        solution_str: the response.
        ground_truth: the gold answer or solution, or several of them.
        extra_info: the row's; see ``requests.py`` for the keys that are read.
        data_sources: not used.
        solution_strs: the responses.
        ground_truths: of each response.
        extra_infos: of each response.

    Raises:
        ValueError: the lists differ in length, or there is no response.
        ScoringError: the service refuses the row.
    """
    if solution_strs is not None or ground_truths is not None:
        sources = data_sources or [""] * len(solution_strs or [])
        return compute_score_batched(sources, solution_strs or [], ground_truths or [], extra_infos)
    if solution_str is None:
        raise ValueError("solution_str: is missing; give it, or solution_strs and ground_truths")
    return compute_score_batched([""], [solution_str], [ground_truth], [extra_info])[0]


def compute_score_batched(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
) -> list[float]:
    """What each response earns, in order; see ``compute_score``.

    Raises:
        ValueError: the lists differ in length.
        ScoringError: the service refuses a row.
    """
    results = results_of(data_sources, solution_strs, ground_truths, extra_infos, {})
    return [_as_float(result) for result in results]


def _as_float(result: ScoreResult) -> float:
    if result.score is not None:
        return result.score
    if result.status is Status.INVALID:
        raise ScoringError(result)
    undecided = next(_undecided)
    if undecided & (undecided - 1) == 0:  # the 1st, 2nd, 4th, 8th...
        logger.warning(
            "%d undecided samples so far scored 0.0, which a float cannot tell from a wrong "
            "answer; this one: %s: %s",
            undecided, result.status.value, result.reason,
        )  # fmt: skip
    return 0.0
