"""The reward function that verl calls. Each reward is a dict of numbers with the same keys.

Undecided samples raise ``ScoringError``: verl's V1 trainer then stores no trajectory for them, and
the group's baseline excludes them (``training.py``). Rows whose ``data_source`` matches none of the
patterns in ``reward_kwargs.judged_data_sources`` are scored by verl's own
``default_compute_score``, without the service.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from reward_serve.client import ScoringError, metrics_of
from reward_serve.client.outcomes import components_of
from reward_serve.client.rows import PROBE_RESPONSE, check_rows
from reward_serve.schema import ScoreResult, Status
from reward_serve_verl.requests import client_for, request_for

logger = logging.getLogger(__name__)

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


def check_first_rows(rows: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]) -> None:
    """Score each row once, with a wrong response; if the service does not answer, log a warning.

    Args:
        rows: rows of the training data; ``data_source``, ``reward_model.ground_truth`` and
            ``extra_info`` are read. Rows that verl scores itself are left out.
        settings: ``reward_kwargs``.

    Raises:
        RefusedRowError: the service refuses a row; the message has the reason.
        ValueError: a setting is invalid.
    """
    settings = {**settings, "on_failure": "none", "max_attempts": 1}

    def probe(row: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        info = row.get("extra_info") or {}
        truth = (row.get("reward_model") or {}).get("ground_truth")
        return client_for(info, settings), request_for(PROBE_RESPONSE, truth, info)

    judged = (row for row in rows if is_judged(str(row.get("data_source")), settings))
    failed = check_rows(map(probe, judged))
    if failed is not None:
        logger.warning("a probe had no verdict: %s: %s", failed.status.value, failed.reason)
