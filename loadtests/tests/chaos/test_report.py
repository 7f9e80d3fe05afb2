from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from loadtests.chaos.__main__ import NAMES, _run
from loadtests.chaos.report import aborted, table, with_bounds

FIGURES: dict[str, Any] = {
    "asked": 10, "right": 9, "absent": {"error": 1}, "wrong": 0, "silent_zeros": 0, "lost": 0,
    "hung": 0, "recovered_s": 1.5,
}  # fmt: skip


def test_a_report_within_its_bounds_misses_nothing() -> None:
    assert with_bounds(FIGURES, {"all is well": True})["missed"] == []


def test_a_wrong_score_and_a_broken_bound_are_missed() -> None:
    report = with_bounds({**FIGURES, "wrong": 2, "hung": 1}, {"all is well": False})
    assert report["missed"] == ["wrong: 2", "hung: 1", "bound: all is well"]


def test_an_aborted_scenario_is_a_miss_and_earlier_ones_are_kept() -> None:
    def run(names: Any) -> Any:
        yield names[0], dict(FIGURES, missed=[])
        raise RuntimeError("no cluster")

    reports = dict(_run(run, ["a", "b"]))
    assert reports["a"]["missed"] == []
    assert reports["b"]["missed"] == ["aborted: RuntimeError: no cluster"]


def test_the_table_has_a_row_for_each_scenario() -> None:
    shown = io.StringIO()
    report = {"faults": with_bounds(FIGURES, {}), "node_lost": aborted(RuntimeError("gone"))}
    Console(file=shown, width=200).print(table(report))
    assert "9 of 10" in shown.getvalue()
    assert "aborted: RuntimeError: gone" in shown.getvalue()


def test_scenario_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)
