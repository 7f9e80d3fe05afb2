from __future__ import annotations

import json
from typing import Any

import pytest

from reward_serve.schema import Component, ScoreResult, Status
from reward_serve_lab.evaluation.bulk import Row
from reward_serve_lab.evaluation.report import (
    by_criterion,
    by_format,
    by_length,
    format_of,
    report_of,
    stages,
)
from tests.unit.lab.evaluation.fakes import failed, judged, row, ruled, run_of, tokens


def test_a_report_is_json_with_the_keys_machines_rely_on() -> None:
    run = run_of(
        (True, judged(0.9, fingerprint="f")),
        (False, judged(0.8)),
        (None, ruled(True)),
        (True, failed()),
    )
    report = report_of(run, "solution", "label")
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert set(report) >= {
        *("n", "agreement", "auc", "kappa", "ece", "false_accept_rate", "false_reject_rate"),
        *("statuses", "sources", "confusion", "by_format", "by_length", "stages"),
        *("agreement_interval", "false_accept_interval", "false_reject_interval"),
        *("verdicts_per_s", "latency_ms", "fingerprints", "template", "mode", "ece_bins"),
    }
    assert (report["n"], report["labelled"], report["unscored"]) == (4, 3, 1)
    assert (report["agreement"], report["statuses"]) == (1 / 3, {"ok": 3, "timeout": 1})
    assert (report["template"], report["mode"]) == ("solution", "label")
    assert (report["fingerprints"], report["ece_bins"]) == (["f"], 15)
    assert report["reasons"] == {"timeout": "timeout_s passed"}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("So she has 18.\n#### 18", "hash"),
        ("### Step 1\nshe has 18", "prose"),
        (r"So \boxed{18}.", "boxed"),
        ("Q: how many?\nA: 18", "A: n"),
        ("DNA: 18 strands", "prose"),
        ("**Answer:** 18", "the answer is"),
        ("The answers differ", "prose"),
        (" $1,800.50 ", "bare number"),
        (" \n", "empty"),
    ],
)
def test_a_format_is_detected_if_the_row_names_none(response: str, expected: str) -> None:
    assert format_of(row(1, response=response)) == expected
    assert format_of(row(1, response=response, format="pirate")) == "pirate"


def test_each_format_and_length_is_measured_on_its_own() -> None:
    judged_rows = [
        (row(1, True, "1" * 5000, format="boxed"), judged(0.9)),
        (row(2, True, format="hash"), judged(0.9)),
        (row(3, False, format="hash"), judged(0.8)),
        (row(4, None, format="unlabelled"), judged(0.8)),
        (Row(5, fault="is bad"), failed()),
    ]
    formats, lengths = by_format(judged_rows), by_length(judged_rows)
    assert [(name, group["n"], group["agreement"]) for name, group in formats.items()] == [
        ("hash", 2, 0.5),
        ("boxed", 1, 1.0),
    ]
    assert [(name, group["n"]) for name, group in lengths.items()] == [
        ("0 to 100", 2),
        ("over 1600", 1),
    ]


def test_each_stage_has_its_share_its_agreement_and_its_cost() -> None:
    found = stages(
        [
            (row(1, True), judged(0.9, latency_ms=100, usage=tokens(150))),
            (row(2, True), judged(0.2, latency_ms=200, usage=tokens(250))),
            (row(3, False), ruled(False, "marker_differs")),
            (row(4, None), ruled(False, "marker_differs")),
            (row(5, True), failed()),
        ]
    )
    assert {
        name: (stage["share"], stage["agreement"], stage["unscored"])
        for name, stage in found.items()
    } == {
        "judge": (0.5, 0.5, 0),
        "rule: marker_differs": (0.25, 1.0, 0),
        "unscored": (0.25, 0.0, 1),
    }
    cost = [(stage["mean_latency_ms"], stage["mean_prompt_tokens"]) for stage in found.values()]
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
    found = criteria_of(
        ({"brief": 1, "rude": 0}, {"brief": 0.9, "rude": 1.0}),
        ({"brief": 0}, {"brief": 0.8, "rude": 1.0}),
        ({"brief": 1}, {"brief": 0.1}),
        ({"brief": 1}, {"brief": None}),
        ({"breif": 1}, {"brief": 1.0}),
    )
    brief, rude = found["brief"], found["rude"]
    assert (brief["n"], brief["unscored"], brief["agreement"]) == (4, 1, 1 / 4)
    assert (brief["false_accept_rate"], brief["false_reject_rate"]) == (1.0, 0.5)
    assert (rude["n"], rude["agreement"], rude["false_accept_rate"]) == (1, 0.0, 1.0)
    assert found["breif"]["unscored"] == 1


def test_a_graded_criterion_agrees_with_the_nearest_of_its_labels() -> None:
    found = criteria_of(
        ({"clear": 1}, {"clear": 0.8}),
        ({"clear": 0.5}, {"clear": 0.7}),
        ({"clear": 0}, {"clear": 0.3}),
        ({"clear": 0}, {"clear": None}),
    )["clear"]
    assert (found["n"], found["unscored"], found["agreement"]) == (4, 1, 2 / 4)
    assert (found["false_accept_rate"], found["false_reject_rate"]) == (None, None)
