"""Drop-in replacement for verl's ``llm_judge_remote``: synchronous, returns floats.

    reward.custom_reward_function.path=pkg://reward_serve_verl.llm_judge_remote
    reward.custom_reward_function.name=compute_score

Rows whose ``data_source`` begins with ``llm_judge_remote``, or that have none, are judged; verl
scores the others, unless ``reward_kwargs.judged_data_sources`` has other patterns. A float cannot
express a missing reward, so undecided samples are scored 0.0 and counted in a warning;
``reward_serve_verl.compute_score`` leaves them out of training instead.

``python -m reward_serve_verl.llm_judge_remote`` checks the service and times this module.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from reward_serve.client import Client, ScoringError, check
from reward_serve.client.rows import check_first_results
from reward_serve.schema import ScoreResult, Status
from reward_serve_verl.scoring import (
    client_for,
    default_reward,
    is_judged,
    note_unused,
    request_for,
)

logger = logging.getLogger(__name__)

JUDGED = {"judged_data_sources": "llm_judge_remote*"}
_NOT_FLOATS = {"components", "critique", "group_size", "turns"}
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
    **settings: Any,
) -> float | list[float]:
    """Score one response, or a batch if ``solution_strs`` is given, with ``reward_kwargs``.

    Raises:
        ValueError: the lists differ in length, there is no response, or a setting is invalid.
        NotImplementedError: verl has no scoring for a row that is not judged.
        RefusedRowError: the service refuses all of this process's first rows.
        ScoringError: the service refuses a row, or all.
    """
    if solution_strs is not None:
        truths = [] if ground_truths is None else ground_truths
        return compute_score_batched(data_sources, solution_strs, truths, extra_infos, **settings)
    if solution_str is None:
        raise ValueError("solution_str: is missing; give it, or solution_strs and ground_truths")
    row = [data_source], [solution_str], [ground_truth], [extra_info]
    return compute_score_batched(*row, **settings)[0]


def compute_score_batched(
    data_sources: Sequence[str | None] | None,
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    **settings: Any,
) -> list[float]:
    """Score each response, in order, with one batch for each service; see ``compute_score``."""
    if unused := sorted(_NOT_FLOATS & settings.keys()):
        raise ValueError(f"reward_kwargs.{unused[0]}: needs path=pkg://reward_serve_verl")
    settings, none = JUDGED | settings, [None] * len(solution_strs)
    sources = none if data_sources is None else data_sources
    infos = [info or {} for info in (none if extra_infos is None else extra_infos)]
    lengths = [len(column) for column in (solution_strs, ground_truths, infos, sources)]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"solution_strs, ground_truths, extra_infos, data_sources: have {lengths} rows; must "
            "be equally long"
        )
    by_client: dict[Client, list[int]] = {}
    scores: dict[int, float] = {}
    for row, (source, info) in enumerate(zip(sources, infos, strict=True)):
        if source is None or is_judged(source, settings):
            by_client.setdefault(client_for(info, settings), []).append(row)
        else:
            reward = default_reward(source, solution_strs[row], ground_truths[row], info)
            scores[row] = reward["score"]
    for client, rows in by_client.items():
        asked = [
            request_for(
                solution_strs[row], ground_truths[row], infos[row], data_source=sources[row]
            )
            for row in rows
        ]
        results = client.score_batch(asked)
        check_first_results(client, results)
        for row, result in zip(rows, results, strict=True):
            note_unused(infos[row], result)
            scores[row] = _as_float(result)
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


def timed(url: str, rows: int) -> check.Finding:
    """Score one new text and a batch, about which no rule decides, by the service at ``url``."""
    os.environ["LLM_JUDGE_SERVER_URL"] = url
    words = ["".join(random.choices("bcdfghklmnprst", k=12)) for _ in range(rows + 1)]
    first, *texts = [f"The answer is eighteen, {word}." for word in words]
    began = time.perf_counter()
    compute_score(None, first, "18")
    after_one = time.perf_counter()
    compute_score_batched(None, texts, ["18"] * rows)
    rate, ms = rows / (time.perf_counter() - after_one), 1000 * (after_one - began)
    ok = client_for({}, JUDGED).counters.snapshot()["ok"]
    observed = f"{ms:.0f} ms for one, {rate:.0f} verdicts/s in a batch, {ok} of {rows + 1} ok"
    return check.Finding("compute_score", observed)


if __name__ == "__main__":
    for name in ("URL", "API_KEY"):
        if given := os.environ.get(f"LLM_JUDGE_SERVER_{name}"):
            os.environ[f"REWARD_SERVE_{name}"] = given
    check.main(timed)
