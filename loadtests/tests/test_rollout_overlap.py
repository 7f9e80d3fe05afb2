from __future__ import annotations

import pytest

from loadtests.rollout_overlap import PHASE_S, figures_of, stand_in, table
from reward_serve import HttpRewardClient


def verdicts(*waits_ms: float, ok: float = 1.0) -> list[dict[str, float]]:
    return [{"judge_wall_ms": wait, "judge_ok": ok} for wait in waits_ms]


def test_time_that_lengthens_the_phase_does_not_overlap() -> None:
    hidden = figures_of(verdicts(500, 500), PHASE_S)
    half = figures_of(verdicts(500, 500), PHASE_S + 0.5)
    serial = figures_of(verdicts(500, 500, ok=0.0), PHASE_S + 1.0)

    assert [one["overlap"] for one in (hidden, half, serial)] == pytest.approx([1.0, 0.5, 0.0])
    assert hidden["judge_s"] == 1.0
    assert (hidden["statuses"], serial["statuses"]) == ({"ok": 2}, {"failed": 2})


def test_rules_alone_have_no_verdicts() -> None:
    figures = figures_of([], 11.0)
    assert figures["verdicts"] == 0
    assert table({"rule": {"phase_s": 10.7, "ratio_to_rule": 1.0, **figures}}).row_count == 1


def test_the_stand_in_for_a_gpu_judge_scores_by_rules() -> None:
    with stand_in() as url, HttpRewardClient(url) as client:
        (result,) = client.score_batch([{"response": "#### 18", "reference": "18"}])

    assert (result.score, result.model) == (1.0, "stand-in")
