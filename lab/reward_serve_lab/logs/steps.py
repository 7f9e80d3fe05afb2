"""A run by its trainer's steps: reward, who decided, groups, length, audits and teachers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reward_serve_lab.logs.table import VerdictTable

MAX_STEPS = 1000
"""Maximum number of steps, the newest."""
_MAX_RUNS = 100

_RUNS = f"""
SELECT run, model FROM verdicts WHERE step IS NOT NULL
GROUP BY ALL ORDER BY max(time) DESC LIMIT {_MAX_RUNS}
"""
_STEPS = f"""
WITH chosen AS (
    SELECT step, "group", score, characters,
        CASE WHEN score IS NULL THEN 'absent'
             WHEN source IN ('rule', 'judge', 'cache') THEN source ELSE 'other' END AS decided
    FROM verdicts WHERE run IS NOT DISTINCT FROM $1 AND model = $2 AND step IS NOT NULL
        AND source <> 'teacher'
), by_group AS (
    SELECT step, coalesce(min(score) = max(score), true) AS flat
    FROM chosen WHERE "group" IS NOT NULL GROUP BY step, "group" HAVING count(*) > 1
), grouped AS (
    SELECT step, count(*) AS groups, avg(flat::INT) AS flat FROM by_group GROUP BY step
), audited AS (
    SELECT step, count(*) AS audits, avg((NOT agreed)::INT) AS disagreed
    FROM audits WHERE run IS NOT DISTINCT FROM $1 AND model = $2 GROUP BY step
)
SELECT * FROM (
    SELECT step, count(*), avg(score), histogram(decided), avg(characters),
        quantile_cont(characters, 0.9)
    FROM chosen GROUP BY step ORDER BY step DESC LIMIT {MAX_STEPS}
) LEFT JOIN (SELECT step, groups, flat FROM grouped) USING (step)
LEFT JOIN (SELECT step, audits, disagreed FROM audited) USING (step) ORDER BY step
"""
_TEACHER = f"""
SELECT * FROM (
    SELECT step, count(*), count(*) FILTER (status <> 'ok'),
        coalesce(sum(tokens) FILTER (status = 'ok'), 0)::BIGINT AS scored,
        round(sum(tokens * mean_logprob) FILTER (status = 'ok') / nullif(scored, 0), 4)
    FROM verdicts WHERE run IS NOT DISTINCT FROM $1 AND model = $2 AND step IS NOT NULL
        AND source = 'teacher'
    GROUP BY step ORDER BY step DESC LIMIT {MAX_STEPS}
) ORDER BY step
"""


@dataclass(frozen=True)
class Step:
    """A step's verdicts.

    Attributes:
        number: the trainer's number of the step.
        verdicts: number of verdicts in the log.
        reward: mean score of the decided; None if all are absent.
        decided: number of verdicts by ``rule``, ``judge``, ``cache``, ``other`` and ``absent``.
        characters: mean length of the responses.
        p90_characters: their 90th percentile.
        groups: number of groups with two verdicts or more; None without groups.
        flat: share of these groups whose decided samples have the same score, so that they give
            no gradient.
        audits: number of audits; None without audits.
        disagreed: share of the audits where both sides disagree.
    """

    number: float
    verdicts: int
    reward: float | None
    decided: Mapping[str, int]
    characters: float
    p90_characters: float
    groups: int | None
    flat: float | None
    audits: int | None
    disagreed: float | None


def runs(table: VerdictTable) -> list[tuple[str | None, str]]:
    """Runs and models of the verdicts that have a step, the newest first.

    Raises:
        duckdb.Error: the table cannot be read.
    """
    return [(run, model) for run, model in table.rows(_RUNS)]


def by_step(table: VerdictTable, run: str | None, model: str) -> list[Step]:
    """A run's newest steps, in order.

    Args:
        table: the verdicts.
        run: the run; None for verdicts without one.
        model: the reward model.

    Raises:
        duckdb.Error: the table cannot be read.
    """
    return [Step(*row) for row in table.rows(_STEPS, [run, model])]


def teacher_by_step(table: VerdictTable, run: str | None, model: str) -> list[tuple[Any, ...]]:
    """Step, sequences, absent, tokens and mean log-probability of a teacher; as ``by_step``."""
    return table.rows(_TEACHER, [run, model])
