from __future__ import annotations

import pytest

from loadtests.rollout_overlap import PHASE_S, figures_of


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
    assert figures_of([], 11.0)["verdicts"] == 0
