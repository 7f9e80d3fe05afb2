from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from reward_serve.schema import ScoreResult, Status, probability_right
from reward_serve_lab.evaluation.metrics import (
    BINS,
    Bin,
    auc,
    confusion_counts,
    expected_calibration_error,
    kappa,
    measure,
    reliability,
    reliability_of,
    wilson,
)
from tests.unit.lab.evaluation.fakes import failed, judged, pairs_of, ruled, run_of

FEW = run_of(
    (True, judged(0.9)),
    (True, judged(0.6)),
    (True, judged(0.2)),
    (False, judged(0.1)),
    (False, judged(0.7)),
    (False, ruled(False)),
)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(judged(0.9), 0.9, id="accepted"),
        pytest.param(judged(0.2), 0.2, id="rejected"),
        pytest.param(ruled(True), 1.0, id="rule right"),
        pytest.param(ruled(False), 0.0, id="rule wrong"),
        pytest.param(failed(), None, id="no score"),
        pytest.param(
            ScoreResult(
                status=Status.OK, score=0.0, label="no", probabilities={"no": 0.7, "yes": 0.3}
            ),
            0.3,
            id="labels of other names",
        ),
        pytest.param(
            ScoreResult(
                status=Status.OK, score=0.6, label="1", probabilities={"0": 0.2, "1": 0.4, "2": 0.4}
            ),
            0.6,
            id="graded",
        ),
        pytest.param(ScoreResult(status=Status.OK, score=1.0, text="VERDICT: 1"), 1.0, id="text"),
    ],
)
def test_the_probability_of_right_is_the_label_of_value_1s_else_the_score(
    result: ScoreResult, expected: float | None
) -> None:
    assert probability_right(result) == expected


def test_measures_match_a_hand_computation() -> None:
    measured = measure(pairs_of(FEW))
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
    rows = [*zip([row.correct for row in FEW.rows], FEW.results, strict=True)]
    measured = measure(pairs_of(FEW))
    with_failure = measure(pairs_of(run_of(*rows, (True, failed()), (False, failed()))))
    assert (with_failure["n"], with_failure["unscored"]) == (8, 2)
    assert with_failure["agreement"] == 4 / 8
    changed = {"n", "unscored", "agreement", "agreement_interval"}
    assert {k: v for k, v in with_failure.items() if k not in changed} == {
        k: v for k, v in measured.items() if k not in changed
    }


def test_a_row_without_a_label_is_not_measured() -> None:
    measured = measure(pairs_of(run_of((True, judged(0.9)), (None, judged(0.1)))))
    assert (measured["n"], measured["agreement"]) == (1, 1.0)
    assert sum(measured["confusion"].values()) == 1


@pytest.mark.parametrize("truth", [True, False])
def test_one_class_has_no_auc_and_no_rate_of_the_other(truth: bool) -> None:
    measured = measure(pairs_of(run_of((truth, judged(0.9)), (truth, judged(0.2)))))
    assert measured["auc"] is None
    other = "false_accept" if truth else "false_reject"
    assert (measured[f"{other}_rate"], measured[f"{other}_interval"]) == (None, None)
    assert measured["ece"] is not None


def test_without_rows_measures_are_none() -> None:
    measured = measure(pairs_of(run_of((True, failed()))))
    assert (measured["agreement"], measured["auc"], measured["kappa"], measured["ece"]) == (
        0.0,
        None,
        None,
        None,
    )
    assert set(measured["confusion"].values()) == {0}
    assert measure([])["agreement"] is None


@pytest.mark.parametrize(
    ("truths", "verdicts", "expected"),
    [
        # 20 and 15 of 50 agree, as in the textbook: (0.7 - 0.5) / 0.5.
        pytest.param(
            [True] * 25 + [False] * 25,
            [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15,
            0.4,
            id="textbook",
        ),
        pytest.param([True, False], [True, False], 1.0, id="perfect"),
        pytest.param([True, False], [False, True], -1.0, id="opposite"),
        pytest.param([True, True], [True, False], 0.0, id="one class of labels"),
        pytest.param([True, True], [True, True], None, id="one class of both"),
        pytest.param([], [], None, id="none"),
    ],
)
def test_kappa(truths: list[bool], verdicts: list[bool], expected: float | None) -> None:
    found = kappa(truths, verdicts)
    assert found == (None if expected is None else pytest.approx(expected))
    assert found is None or math.isfinite(found)


def test_equal_probabilities_share_the_auc() -> None:
    assert auc([True, False], [0.5, 0.5]) == 0.5
    assert auc([], []) is None


def test_confusion_of_verdicts_of_one_kind() -> None:
    assert confusion_counts([True, True], [True, True]) == {
        "true_accept": 2,
        "false_reject": 0,
        "true_reject": 0,
        "false_accept": 0,
    }


@pytest.mark.parametrize(
    ("truths", "predicted", "expected"),
    [
        # One bin, from 12/15 to 13/15: mean 0.82 against 0.75 found.
        pytest.param(
            [True, True, True, False], [0.81, 0.82, 0.82, 0.83], abs(0.82 - 0.75), id="one bin"
        ),
        # 3 of 4 rows with a gap of 0.9 - 2/3, one with none.
        pytest.param(
            [True, True, False, False], [0.9, 0.9, 0.9, 0.0], 0.75 * (0.9 - 2 / 3), id="weighted"
        ),
        pytest.param([True, False], [1.0, 0.0], 0.0, id="sure and right"),
        pytest.param([False, True], [1.0, 0.0], 1.0, id="sure and wrong"),
        # 0.5 and 0.54 fall on both sides of 8/15: gaps of 0.5 and 0.46 do not cancel.
        pytest.param([True, False], [0.5, 0.54], (0.5 + 0.54) / 2, id="apart"),
        pytest.param([], [], None, id="none"),
        pytest.param([True], [7.0], None, id="no probability"),
    ],
)
def test_expected_calibration_error(
    truths: list[bool], predicted: list[float], expected: float | None
) -> None:
    found = expected_calibration_error(truths, predicted)
    assert found == (None if expected is None else pytest.approx(expected))


def test_bins_are_15_of_equal_width_and_the_last_holds_1() -> None:
    middles = [(n + 0.5) / BINS for n in range(BINS)]
    bins = reliability([True] * BINS, middles)
    assert [b.predicted for b in bins] == pytest.approx(middles)
    assert len(bins) == 15
    (last,) = reliability([True, False], [1.0, 0.95])
    assert (last.n, last.right) == (2, 0.5)


def test_bins_of_a_run_hold_its_labelled_and_scored_rows() -> None:
    run = run_of((True, judged(0.9)), (None, judged(0.9)), (True, failed()), (False, ruled(False)))
    assert reliability_of(pairs_of(run)) == [Bin(1, 0.0, 0.0), Bin(1, 0.9, 1.0)]


@pytest.mark.parametrize(
    ("count", "of", "interval"),
    [
        (0, 10, [0.0, 0.2775]),
        (10, 10, [0.7225, 1.0]),
        (5, 10, [0.2366, 0.7634]),
        (1, 100, [0.0018, 0.0545]),
        (0, 0, None),
    ],
)
def test_wilson_intervals_are_the_known_ones(
    count: int, of: int, interval: Sequence[float] | None
) -> None:
    assert wilson(count, of) == (interval and pytest.approx(interval, abs=5e-5))
