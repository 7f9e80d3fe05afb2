import io
from typing import Any

import pytest
from rich.console import Console

from reward_serve.schema import (
    Component,
    GroupComparison,
    GroupResult,
    ScoreResult,
    Status,
    Usage,
    failure,
    group_failure,
    probability_right,
)
from reward_serve_lab.evaluation.bulk import Row, Run
from reward_serve_lab.evaluation.metrics import coverage, expected_calibration_error, measure
from reward_serve_lab.evaluation.pairs import Pair, report_of_pairs
from reward_serve_lab.evaluation.report import by_criterion, format_of, stages
from reward_serve_lab.evaluation.tables import advice, disagreement_table
from tests.rows import rows
from tests.unit.lab.fakes import failed, judged, row, ruled, run_of

FEW = [
    (True, judged(0.9)),
    (True, judged(0.6)),
    (True, judged(0.2)),
    (False, judged(0.1)),
    (False, judged(0.7)),
    (False, ruled(False)),
]


def measured(*pairs: tuple[bool | None, ScoreResult]) -> dict[str, Any]:
    run = run_of(*pairs)
    return measure(list(zip(run.rows, run.results, strict=True)))


def test_the_probability_of_right_is_the_label_of_value_1s_else_the_score() -> None:
    named = {"score": 0.0, "label": "no", "probabilities": {"no": 0.7, "yes": 0.3}}
    graded = {"score": 0.6, "label": "1", "probabilities": {"0": 0.2, "1": 0.4, "2": 0.4}}
    results = [ScoreResult.model_validate({"status": "ok", **fields}) for fields in (named, graded)]
    results += [judged(0.2), ruled(True), failed()]
    assert [probability_right(result) for result in results] == [0.3, 0.6, 0.2, 1.0, None]


def test_measures_match_a_hand_computation() -> None:
    figures = measured(*FEW)
    assert figures["confusion"] == {
        "true_accept": 2,
        "false_reject": 1,
        "true_reject": 2,
        "false_accept": 1,
    }
    assert (figures["n"], figures["unscored"], figures["agreement"]) == (6, 0, 4 / 6)
    assert (figures["false_accept_rate"], figures["false_reject_rate"]) == (1 / 3, 1 / 3)
    # Of the 9 pairs of a right and a wrong row, 0.9 wins 3, 0.6 wins 2, 0.2 wins 2.
    assert figures["auc"] == pytest.approx(7 / 9)
    # Observed 4/6; by chance 1/2 * 1/2 + 1/2 * 1/2.
    assert figures["kappa"] == pytest.approx((4 / 6 - 1 / 2) / (1 - 1 / 2))
    # Every row has a bin of its own: the mean distance from its label.
    assert figures["ece"] == pytest.approx((0.1 + 0.4 + 0.8 + 0.1 + 0.7 + 0) / 6)


def test_a_row_without_a_score_disagrees_and_is_left_out_of_all_else() -> None:
    figures = measured(*FEW)
    more = measured(*FEW, (True, failed()), (False, failed()), (None, judged(1)))
    assert (more["n"], more["unscored"], more["agreement"]) == (8, 2, 4 / 8)
    changed = {"n", "unscored", "agreement", "agreement_interval"}
    assert {k: v for k, v in more.items() if k not in changed} == {
        k: v for k, v in figures.items() if k not in changed
    }
    nothing = measured((True, failed()))
    assert nothing["agreement"] == 0
    rates = ("auc", "kappa", "ece", "false_accept_rate", "false_reject_rate")
    assert {nothing[name] for name in rates} == {measured()["agreement"]} == {None}


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
def test_calibration(truths: list[bool], predicted: list[float], expected: float | None) -> None:
    error = expected_calibration_error(truths, predicted)
    assert error == (None if expected is None else pytest.approx(expected))


def test_errors_fall_as_less_sure_rows_are_left_without_a_score() -> None:
    thin = judged(0.97, details={"label_mass": 0.0009})
    rows = [*FEW, (False, thin), (True, failed()), (None, judged(0.99))]
    run = run_of(*rows)
    points = coverage(list(zip(run.rows, run.results, strict=True)))
    errors = {0.0: 3, 0.01: 2, 0.61: 2, 0.71: 1, 0.81: 0, 0.91: 0}
    assert {p["min_probability"]: p["error_rate"] * p["scored"] for p in points} == errors
    assert [p["scored"] for p in points] == [7, 6, 5, 4, 3, 1]
    assert [p["false_accepts"] for p in points] == [2, 1, 1, 0, 0, 0]
    assert [p["coverage"] for p in points] == [n / 8 for n in (7, 6, 5, 4, 3, 1)]
    assert advice(points, 0.25).startswith("judge.min_probability 0.71: 25.0% (")
    assert advice(points, 0.25).endswith("errors among the 50.0% of rows with a score")
    assert "judge.min_probability 0.81: 0.0%" in advice(points, 0.1)


def test_no_threshold_may_be_good_enough_and_a_rule_is_below_none() -> None:
    run = run_of((True, judged(0.9)), (False, ruled(True)))
    points = coverage(list(zip(run.rows, run.results, strict=True)))
    assert [p["scored"] for p in points] == [2, 1]
    assert advice(points, 0.01) == "no judge.min_probability has at most 1.00% errors"


def test_rows_that_the_deployed_threshold_left_undecided_are_on_the_curve() -> None:
    def deployed(least: float) -> list[tuple[Row, ScoreResult]]:
        left = [max((r.probabilities or {"": 1.0}).values()) < least for _, r in FEW]
        absent = {"score": None, "status": Status.UNPARSEABLE, "source": None}
        results = [
            result.model_copy(update=absent) if undecided else result
            for (_, result), undecided in zip(FEW, left, strict=True)
        ]
        run = run_of(*((truth, r) for (truth, _), r in zip(FEW, results, strict=True)))
        return list(zip(run.rows, run.results, strict=True))

    assert coverage(deployed(0.75)) == coverage(deployed(0.0))
    assert measure(deployed(0.75))["unscored"] == 2


@pytest.mark.parametrize(("response", "expected"), rows(__file__, "formats"))
def test_a_format_is_detected_if_the_row_names_none(response: str, expected: str) -> None:
    assert format_of(row(1, response=response)) == expected
    assert format_of(row(1, response=response, format="pirate")) == "pirate"


def test_each_stage_has_its_share_its_agreement_and_its_cost() -> None:
    by_stage = stages(
        [
            (row(1, True), judged(0.9, latency_ms=100, usage=Usage(prompt_tokens=150))),
            (row(2, True), judged(0.2, latency_ms=200, usage=Usage(prompt_tokens=250))),
            (row(3, False), ruled(False, "marker_differs")),
            (row(4, None), ruled(False, "marker_differs")),
            (row(5, True), failed()),
        ]
    )
    assert {
        name: (stage["share"], stage["agreement"], stage["unscored"])
        for name, stage in by_stage.items()
    } == {
        "judge": (0.5, 0.5, 0),
        "rule: marker_differs": (0.25, 1.0, 0),
        "unscored": (0.25, 0.0, 1),
    }
    cost = [(stage["mean_latency_ms"], stage["mean_prompt_tokens"]) for stage in by_stage.values()]
    assert cost[:2] == [(150, 200), (1, 0)]


def criteria_of(*pairs: tuple[dict[str, float], dict[str, float | None]]) -> dict[str, Any]:
    """The criteria's metrics, given each row's labels and scores."""
    rows, results = [], []
    for line, (labels, scores) in enumerate(pairs, 1):
        parts = {
            name: Component(status=Status.ERROR if score is None else Status.OK, score=score)
            for name, score in scores.items()
        }
        rows.append(Row(line, {}, criteria=labels))
        results.append(ScoreResult(status=Status.TIMEOUT, components=parts))
    return by_criterion(list(zip(rows, results, strict=True)))


def test_each_criterion_agrees_with_its_own_labels() -> None:
    criteria = criteria_of(
        ({"brief": 1, "rude": 0}, {"brief": 0.9, "rude": 1.0}),
        ({"brief": 0}, {"brief": 0.8, "rude": 1.0}),
        ({"brief": 1}, {"brief": 0.1}),
        ({"brief": 1}, {"brief": None}),
        ({"breif": 1}, {"brief": 1.0}),
    )
    brief, rude = criteria["brief"], criteria["rude"]
    assert (brief["n"], brief["unscored"], brief["agreement"]) == (4, 1, 1 / 4)
    assert (brief["false_accept_rate"], brief["false_reject_rate"]) == (1.0, 0.5)
    assert (rude["n"], rude["agreement"], rude["false_accept_rate"]) == (1, 0.0, 1.0)
    assert criteria["breif"]["unscored"] == 1

    graded = [(1, 0.8), (0.5, 0.7), (0, 0.3), (0, None)]  # the nearest label counts
    clear = criteria_of(*(({"clear": label}, {"clear": score}) for label, score in graded))["clear"]
    assert (clear["n"], clear["unscored"], clear["agreement"]) == (4, 1, 2 / 4)


def compared(forward: float, backward: float) -> GroupResult:
    p = (forward + 1 - backward) / 2
    return GroupResult.of(
        [ScoreResult(status=Status.OK, score=score) for score in (p, 1 - p)],
        comparisons=[GroupComparison(a=0, b=1, forward=forward, backward=backward, probability=p)],
    )


def test_a_tie_and_an_unscored_pair_are_not_right_and_a_flip_is_no_agreement() -> None:
    preferred, results = zip(
        (0, compared(0.9, 0.2)),  # right
        (1, compared(0.3, 0.9)),  # right
        (1, compared(0.9, 0.1)),  # wrong
        (0, compared(0.9, 0.8)),  # right on the whole, though the orders disagree
        (1, compared(0.7, 0.7)),  # a judge that prefers the first place
        (0, group_failure(failure(Status.ERROR, "the engine is gone"), 2)),
        strict=True,
    )
    report = report_of_pairs([Pair({}, place) for place in preferred], results)
    low, high = report["accuracy_interval"]
    assert (report["n"], report["accuracy"], report["ties"], report["unscored"]) == (6, 0.5, 1, 1)
    assert low < 0.5 < high
    assert (report["flips"], report["order_agreement"]) == (2, pytest.approx(3 / 5))
    assert report["statuses"] == {"ok": 5, "error": 1}
    assert report["reasons"] == {"error": "the engine is gone"}


def test_a_response_cannot_write_to_the_terminal() -> None:
    response = "x" * 100 + "[red]a[/red]\x1b[2J\n\u202ecba\ud800\x9b"
    run = Run([row(1, False, response, id="[bold]\x1b")], [judged(0.9)])
    out = io.StringIO()
    Console(file=out, width=300, no_color=True).print(disagreement_table(run, 1))
    assert r"xx[red]a[/red]\x1b[2J\n\u202ecba\ud800\x9b" in out.getvalue()
    assert r"[bold]\x1b" in out.getvalue()
