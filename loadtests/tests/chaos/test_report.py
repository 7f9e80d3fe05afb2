from __future__ import annotations

from typing import Any

from loadtests.chaos.__main__ import _run
from loadtests.chaos.report import all_right, recovers, table, with_bounds

FIGURES: dict[str, Any] = {
    "asked": 10, "right": 9, "absent": {"error": 1}, "wrong": 0, "silent_zeros": 0, "lost": 0,
    "hung": 0, "recovered_s": 1.5, "healed_s": 2.0,
}  # fmt: skip


def test_a_wrong_score_and_a_broken_bound_are_missed() -> None:
    assert with_bounds(FIGURES, {"all is well": True})["missed"] == []
    report = with_bounds({**FIGURES, "wrong": 2, "hung": 1}, all_right(FIGURES))
    assert report["missed"] == ["wrong: 2", "hung: 1", "bound: every request has its score"]


def test_a_part_that_recovers_late_or_is_not_replaced_misses_its_bounds() -> None:
    figures = {**FIGURES, "right": 10}
    assert all(recovers(figures).values())
    assert list(recovers(figures, 1.0).values()) == [True, False, True]
    gone = {**figures, "recovered_s": None, "healed_s": None}
    assert list(recovers(gone).values()) == [True, False, False]


def test_an_aborted_scenario_is_a_miss_and_earlier_ones_are_kept() -> None:
    def run(names: Any) -> Any:
        yield names[0], dict(FIGURES, missed=[])
        raise RuntimeError("no cluster")

    reports = dict(_run(run, ["a", "b"]))
    assert reports["a"]["missed"] == []
    assert reports["b"]["missed"] == ["aborted: RuntimeError: no cluster"]
    assert table(reports).row_count == 2
