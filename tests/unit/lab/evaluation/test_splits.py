from __future__ import annotations

from typing import Any

import pytest

from reward_serve.schema import Component, ScoreResult, Status
from reward_serve_lab.evaluation.bulk import Row
from reward_serve_lab.evaluation.report import (
    by_criterion,
    by_format,
    by_length,
    format_of,
    length_of,
    stage_of,
    stages,
)
from tests.unit.lab.evaluation.fakes import failed, judged, row, ruled, tokens


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("So she has 18.\n#### 18", "hash"),
        ("### Step 1\nshe has 18", "prose"),
        (r"So \boxed{18}.", "boxed"),
        ("Q: how many?\nA: 18", "A: n"),
        ("DNA: 18 strands", "prose"),
        ("Therefore the answer is 18.", "the answer is"),
        ("**Answer:** 18", "the answer is"),
        ("The answers differ", "prose"),
        (" $1,800.50 ", "bare number"),
        ("**-18**", "bare number"),
        ("18 ducks", "prose"),
        (" \n", "empty"),
        ("", "empty"),
        ("She has eighteen left.", "prose"),
    ],
)
def test_a_format_is_detected_if_the_row_names_none(response: str, expected: str) -> None:
    assert format_of(row(1, response=response)) == expected


def test_the_rows_own_format_counts() -> None:
    assert format_of(row(1, response="#### 18", format="pirate")) == "pirate"


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "0 to 100"),
        (100, "0 to 100"),
        (101, "101 to 400"),
        (400, "101 to 400"),
        (401, "401 to 1600"),
        (1600, "401 to 1600"),
        (1601, "over 1600"),
    ],
)
def test_lengths_are_counted_in_characters(length: int, expected: str) -> None:
    assert length_of(row(1, response="é" * length)) == expected


def test_a_response_that_is_no_text_is_grouped_as_an_empty_one() -> None:
    odd = Row(1, {"response": 18}, True)
    assert (format_of(odd), length_of(odd)) == ("empty", "0 to 100")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (judged(0.9), "judge"),
        (ruled(False, "only_opener"), "rule: only_opener"),
        (failed(), "unscored"),
        (ScoreResult(status=Status.OK, score=1.0, source="cache"), "cache"),
        (ScoreResult(status=Status.OK, score=1.0, source="rule"), "rule: unnamed"),
    ],
)
def test_a_stage_is_what_decided(result: ScoreResult, expected: str) -> None:
    assert stage_of(result) == expected


def test_each_format_is_measured_on_its_own_the_most_frequent_first() -> None:
    groups = by_format(
        [
            (row(1, True, format="boxed"), judged(0.9)),
            (row(2, True, format="hash"), judged(0.9)),
            (row(3, False, format="hash"), judged(0.8)),
            (row(4, None, format="unlabelled"), judged(0.8)),
            (Row(5, fault="is bad"), failed()),
        ]
    )
    assert list(groups) == ["hash", "boxed"]
    assert (groups["hash"]["n"], groups["hash"]["agreement"], groups["hash"]["auc"]) == (2, 0.5, 1)
    assert (groups["boxed"]["agreement"], groups["boxed"]["auc"]) == (1.0, None)


def test_each_length_is_measured_on_its_own_the_shortest_first() -> None:
    groups = by_length(
        [
            (row(1, True, "1" * 5000), judged(0.2)),
            (row(2, True, "1" * 5000), judged(0.2)),
            (row(3, True, "1" * 300), failed()),
            (row(4, True, "1"), judged(0.9)),
        ]
    )
    assert [(name, group["n"], group["agreement"]) for name, group in groups.items()] == [
        ("0 to 100", 1, 1.0),
        ("101 to 400", 1, 0.0),
        ("over 1600", 2, 0.0),
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
        ({}, {"brief": 1.0}),
    )
    assert list(found) == ["brief", "rude"]
    brief, rude = found["brief"], found["rude"]
    assert (brief["n"], brief["unscored"], brief["agreement"]) == (4, 1, 1 / 4)
    assert (brief["false_accept_rate"], brief["false_reject_rate"]) == (1.0, 0.5)
    assert brief["agreement_interval"] == pytest.approx([0.0456, 0.6994], abs=1e-4)
    assert (rude["n"], rude["agreement"], rude["false_accept_rate"]) == (1, 0.0, 1.0)


def test_a_graded_criterion_agrees_with_the_nearest_of_its_labels() -> None:
    found = criteria_of(
        ({"clear": 1}, {"clear": 0.8}),
        ({"clear": 0.5}, {"clear": 0.7}),
        ({"clear": 0}, {"clear": 0.3}),
        ({"clear": 0}, {"clear": None}),
    )["clear"]
    assert (found["n"], found["unscored"], found["agreement"]) == (4, 1, 2 / 4)
    assert (found["false_accept_rate"], found["false_reject_rate"]) == (None, None)


def test_a_label_without_its_criterion_is_unscored() -> None:
    assert criteria_of(({"breif": 1}, {"brief": 1.0}))["breif"]["unscored"] == 1
