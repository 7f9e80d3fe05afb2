from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from loadtests.chaos.__main__ import NAMES, _run
from loadtests.chaos.report import broken, reported, table

FIGURES: dict[str, Any] = {
    "asked": 10, "right": 9, "absent": {"error": 1}, "wrong": 0, "silent_zeros": 0, "lost": 0,
    "hung": 0, "recovered_s": 1.5,
}  # fmt: skip


def test_what_is_as_it_must_be_misses_nothing() -> None:
    assert reported(FIGURES, {"all is well": True})["missed"] == []


def test_a_wrong_score_or_a_bound_that_does_not_hold_is_missed() -> None:
    report = reported({**FIGURES, "wrong": 2, "hung": 1}, {"all is well": False})
    assert report["missed"] == ["wrong: 2", "hung: 1", "not so: all is well"]


def test_a_scenario_that_breaks_off_is_a_miss_and_the_ones_before_it_stay() -> None:
    def run(names: Any) -> Any:
        yield names[0], dict(FIGURES, missed=[])
        raise RuntimeError("no cluster")

    told = dict(_run(run, ["a", "b"]))
    assert told["a"]["missed"] == []
    assert told["b"]["missed"] == ["broke off: RuntimeError: no cluster"]


def test_the_table_has_a_row_for_each_scenario() -> None:
    shown = io.StringIO()
    report = {"faults": reported(FIGURES, {}), "node_lost": broken(RuntimeError("gone"))}
    Console(file=shown, width=200).print(table(report))
    assert "9 of 10" in shown.getvalue()
    assert "broke off: RuntimeError: gone" in shown.getvalue()


def test_no_scenario_has_the_name_of_another() -> None:
    assert len(set(NAMES)) == len(NAMES)
