from __future__ import annotations

import json

from reward_serve.schema import Status, failure
from reward_serve_lab.evaluation.bulk import Row, Run
from reward_serve_lab.evaluation.report import disagreements, report_of
from tests.unit.lab.evaluation.fakes import failed, judged, row, ruled, run_of


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
    assert report["agreement"] == 1 / 3
    assert report["statuses"] == {"ok": 3, "timeout": 1}
    assert report["verdicts_per_s"] == 1.5
    assert (report["template"], report["mode"]) == ("solution", "label")
    assert (report["fingerprints"], report["ece_bins"]) == (["f"], 15)
    assert report["reasons"] == {"timeout": "timeout_s passed"}


def test_a_bad_row_counts_as_invalid_and_is_in_no_group() -> None:
    bad = Row(2, fault="is not JSON")
    report = report_of(
        Run([row(1), bad], [judged(0.9), failure(Status.INVALID, "line 2: is not JSON")]),
        None,
        None,
    )
    assert (report["n"], report["labelled"]) == (2, 1)
    assert report["statuses"] == {"ok": 1, "invalid": 1}
    assert report["agreement"] == 1.0
    for groups in ("by_format", "by_length", "stages"):
        assert [group["n"] for group in report[groups].values()] == [1]


def test_disagreements_are_the_surest_first_and_those_without_a_score_last() -> None:
    run = run_of(
        (True, failed()),
        (True, judged(0.4)),
        (True, judged(0.9)),
        (False, judged(0.99)),
        (None, judged(0.1)),
        (False, ruled(True)),
    )
    assert [row.line for row, _ in disagreements(run)] == [6, 4, 2, 1]
