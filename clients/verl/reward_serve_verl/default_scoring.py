"""Scores rows without the judge; ``reward_kwargs.judged_data_sources`` selects the judged rows.

    +reward.custom_reward_function.reward_kwargs.judged_data_sources=['llm_judge_remote_*']

Other rows are scored by verl's own ``default_compute_score``, without the service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from reward_serve.client import metrics_of
from reward_serve.schema import ScoreResult, Status

_ZEROS = dict.fromkeys(metrics_of(ScoreResult(status=Status.OK, score=0.0)), 0.0)


def is_judged(data_source: str, settings: Mapping[str, Any]) -> bool:
    """Whether the judge scores rows of ``data_source``: all, if no patterns are set.

    Raises:
        ValueError: ``judged_data_sources`` is neither a pattern nor a list of patterns.
    """
    given = settings.get("judged_data_sources")
    if given is None:
        return True
    patterns = [given] if isinstance(given, str) else given
    # Hydra's lists are sequences, but not lists.
    if not isinstance(patterns, Sequence) or not all(isinstance(each, str) for each in patterns):
        raise ValueError(
            f"reward_kwargs.judged_data_sources: {given!r} must be a pattern or a list of them, "
            "such as ['llm_judge_remote_*']"
        )
    return any(fnmatchcase(data_source, pattern) for pattern in patterns)


def default_reward(
    data_source: str, solution: str, ground_truth: Any, info: Mapping[str, Any]
) -> dict[str, float]:
    """The reward by verl itself, with the keys of a judged row; the metrics of requests are 0.

    Raises:
        NotImplementedError: verl has no scoring for ``data_source``.
    """
    from verl.utils.reward_score import default_compute_score

    scored = default_compute_score(data_source, solution, ground_truth, dict(info))
    found = scored if isinstance(scored, Mapping) else {"score": scored}
    score = float(found["score"])
    accuracy = float(found.get("acc", score >= 0.5))
    return {"score": score, "acc": accuracy, "judged": 0.0, **_ZEROS, "latency_ms": 0.0}
