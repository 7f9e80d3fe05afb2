from __future__ import annotations

from pathlib import Path

import pytest

from reward_serve.schema import ScoreResult, probability_right
from reward_serve_lab.evaluation.metrics import (
    BINS,
    Bin,
    expected_calibration_error,
    measure,
    reliability,
    reliability_of,
    wilson,
)
from reward_serve_lab.evaluation.tables import plot_reliability
from tests.unit.lab.evaluation.fakes import failed, judged, pairs_of, ruled, run_of

FEW = [
    (True, judged(0.9)),
    (True, judged(0.6)),
    (True, judged(0.2)),
    (False, judged(0.1)),
    (False, judged(0.7)),
    (False, ruled(False)),
]


def test_the_probability_of_right_is_the_label_of_value_1s_else_the_score() -> None:
    named = {"score": 0.0, "label": "no", "probabilities": {"no": 0.7, "yes": 0.3}}
    graded = {"score": 0.6, "label": "1", "probabilities": {"0": 0.2, "1": 0.4, "2": 0.4}}
    results = [ScoreResult.model_validate({"status": "ok", **each}) for each in (named, graded)]
    results += [judged(0.2), ruled(True), failed()]
    assert [probability_right(result) for result in results] == [0.3, 0.6, 0.2, 1.0, None]


def test_measures_match_a_hand_computation() -> None:
    measured = measure(pairs_of(run_of(*FEW)))
    assert measured["confusion"] == {
        "true_accept": 2,
        "false_reject": 1,
        "true_reject": 2,
        "false_accept": 1,
    }
    assert (measured["n"], measured["unscored"]) == (6, 0)
    assert measured["agreement"] == 4 / 6
    assert measured["false_accept_rate"] == 1 / 3
    assert measured["false_reject_rate"] == 1 / 3
    # Of the 9 pairs of a right and a wrong row, 0.9 wins 3, 0.6 wins 2, 0.2 wins 2.
    assert measured["auc"] == pytest.approx(7 / 9)
    # Observed 4/6; by chance 1/2 * 1/2 + 1/2 * 1/2.
    assert measured["kappa"] == pytest.approx((4 / 6 - 1 / 2) / (1 - 1 / 2))
    # Every row has a bin of its own: the mean distance from its label.
    assert measured["ece"] == pytest.approx((0.1 + 0.4 + 0.8 + 0.1 + 0.7 + 0) / 6)


def test_a_row_without_a_score_disagrees_and_is_left_out_of_all_else() -> None:
    measured = measure(pairs_of(run_of(*FEW)))
    more = measure(pairs_of(run_of(*FEW, (True, failed()), (False, failed()), (None, judged(1)))))
    assert (more["n"], more["unscored"], more["agreement"]) == (8, 2, 4 / 8)
    changed = {"n", "unscored", "agreement", "agreement_interval"}
    assert {k: v for k, v in more.items() if k not in changed} == {
        k: v for k, v in measured.items() if k not in changed
    }


@pytest.mark.parametrize("truth", [True, False])
def test_one_class_has_no_auc_and_no_rate_of_the_other(truth: bool) -> None:
    measured = measure(pairs_of(run_of((truth, judged(0.9)), (truth, judged(0.2)))))
    assert measured["auc"] is None
    other = "false_accept" if truth else "false_reject"
    assert (measured[f"{other}_rate"], measured[f"{other}_interval"]) == (None, None)
    assert measured["ece"] is not None


def test_without_scores_measures_are_none() -> None:
    measured = measure(pairs_of(run_of((True, failed()))))
    assert measured["agreement"] == 0
    assert {measured[name] for name in ("auc", "kappa", "ece")} == {None}
    assert measure([])["agreement"] is None


@pytest.mark.parametrize(
    ("truths", "predicted", "expected"),
    [
        # One bin, from 12/15 to 13/15: mean 0.82 against 0.75 found.
        ([True, True, True, False], [0.81, 0.82, 0.82, 0.83], abs(0.82 - 0.75)),
        # 3 of 4 rows with a gap of 0.9 - 2/3, one with none.
        ([True, True, False, False], [0.9, 0.9, 0.9, 0.0], 0.75 * (0.9 - 2 / 3)),
        # 0.5 and 0.54 fall on both sides of 8/15: gaps of 0.5 and 0.46 do not cancel.
        ([True, False], [0.5, 0.54], (0.5 + 0.54) / 2),
        ([True], [7.0], None),
    ],
)
def test_expected_calibration_error(
    truths: list[bool], predicted: list[float], expected: float | None
) -> None:
    found = expected_calibration_error(truths, predicted)
    assert found == (None if expected is None else pytest.approx(expected))


def test_bins_are_15_of_equal_width_and_hold_labelled_and_scored_rows() -> None:
    middles = [(n + 0.5) / BINS for n in range(BINS)]
    assert [b.predicted for b in reliability([True] * 15, middles)] == pytest.approx(middles)
    assert [b.n for b in reliability([True, False], [1.0, 0.95])] == [2]
    run = run_of((True, judged(0.9)), (None, judged(0.9)), (True, failed()), (False, ruled(False)))
    assert reliability_of(pairs_of(run)) == [Bin(1, 0.0, 0.0), Bin(1, 0.9, 1.0)]


@pytest.mark.parametrize(
    ("count", "of", "interval"),
    [(0, 10, [0.0, 0.2775]), (5, 10, [0.2366, 0.7634]), (1, 100, [0.0018, 0.0545]), (0, 0, None)],
)
def test_wilson_intervals_are_the_known_ones(
    count: int, of: int, interval: list[float] | None
) -> None:
    assert wilson(count, of) == (interval and pytest.approx(interval, abs=5e-5))


def test_the_diagram_is_a_png_whatever_the_runs_are_called(tmp_path: Path) -> None:
    path = tmp_path / "plot"
    plot_reliability({r"$\nonsense{$": [Bin(10, 0.1, 0.2), Bin(100, 0.9, 0.7)], "b": []}, path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
