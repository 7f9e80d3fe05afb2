from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.schema import ScoreResult, Source, Status, failure
from reward_serve_lab.evaluation.bulk import (
    Row,
    Run,
    percentile,
    read_rows,
    score_rows,
    write_results,
)


def written(folder: Path, *lines: str | bytes) -> Path:
    file = folder / "rows.jsonl"
    file.write_bytes(b"\n".join(x if isinstance(x, bytes) else x.encode() for x in lines))
    return file


def rows_of(count: int) -> list[Row]:
    return [Row(line, {"response": str(line)}) for line in range(1, count + 1)]


def ok(score: float = 1.0, latency_ms: float = 0.0, source: Source = "judge") -> ScoreResult:
    return ScoreResult(status=Status.OK, score=score, latency_ms=latency_ms, source=source)


class FakeClient:
    """Answers every response with itself as ``text``; earlier batches take longer."""

    def __init__(self, pauses_s: Sequence[float] = ()) -> None:
        self._pauses_s = list(pauses_s)
        self.asked: list[list[dict[str, Any]]] = []
        self.finished: list[int] = []
        self.most_in_flight = 0
        self._in_flight = 0

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        number = len(self.asked)
        self.asked.append(list(requests))
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        await asyncio.sleep(self._pauses_s[number] if number < len(self._pauses_s) else 0)
        self._in_flight -= 1
        self.finished.append(number)
        return [
            ScoreResult(status=Status.OK, score=1.0, text=request["response"])
            for request in requests
        ]


class FakeClientOfNobody:
    """Finds no service."""

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        raise ServiceUnavailableError("http://nobody: refused")


class FakeClientOfOne:
    """Answers the first request of a batch alone."""

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        return [ok()]


def test_a_row_is_its_request_its_label_and_its_line(tmp_path: Path) -> None:
    row = {"question": "9 + 9?", "reference": "18", "response": "#### 18", "correct": True}
    (read,) = read_rows(written(tmp_path, json.dumps(row)))
    del row["correct"]
    assert read == Row(1, row, True, None)


def test_a_row_keeps_its_rubric_and_the_labels_of_its_criteria(tmp_path: Path) -> None:
    row = {"response": "a", "rubric": [{"name": "brief", "text": "It is brief."}]}
    labels = {"brief": 1, "rude": False, "clear": 0.5}
    (read,) = read_rows(written(tmp_path, json.dumps({**row, "criteria": labels})))
    assert (read.request, read.correct) == (row, None)
    assert read.criteria == {"brief": 1.0, "rude": 0.0, "clear": 0.5}


@pytest.mark.parametrize("labels", ['["brief"]', '{"brief": "yes"}', '{"brief": NaN}', "[1]"])
def test_labels_of_criteria_that_are_no_numbers_are_reported(tmp_path: Path, labels: str) -> None:
    (read,) = read_rows(written(tmp_path, f'{{"response": "a", "criteria": {labels}}}'))
    assert read.request is None
    assert read.fault is not None
    assert read.fault.startswith("criteria")


def test_blank_lines_are_skipped_and_still_counted(tmp_path: Path) -> None:
    file = written(tmp_path, "", '{"response": "a"}', " \t", "\r", '{"response": "b"}', "")
    assert [(row.line, row.request) for row in read_rows(file)] == [
        (2, {"response": "a"}),
        (5, {"response": "b"}),
    ]


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        pytest.param(b'{"response": "a"}\r', {"response": "a"}, id="windows"),
        pytest.param(b'\xef\xbb\xbf{"response": "a"}', {"response": "a"}, id="byte order mark"),
        pytest.param('{"response": "é\u2028"}', {"response": "é\u2028"}, id="unicode"),
        pytest.param(
            '{"response": "a", "id": 7, "answer": "18"}', {"response": "a"}, id="other fields"
        ),
        pytest.param(
            '{"response": "a", "messages": []}', {"response": "a", "messages": []}, id="messages"
        ),
        pytest.param('{"response": 18}', {"response": 18}, id="for the service to refuse"),
    ],
)
def test_a_line_becomes_a_request(
    tmp_path: Path, line: str | bytes, request_: dict[str, Any]
) -> None:
    (row,) = read_rows(written(tmp_path, line))
    assert (row.request, row.correct, row.fault) == (request_, None, None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, (None, None, "line 1"), id="neither"),
        pytest.param({"id": "a", "format": "boxed"}, ("a", "boxed", "a"), id="both"),
        pytest.param({"id": 7}, ("7", None, "7"), id="number"),
        pytest.param({"id": "", "format": ["x"]}, ("", None, "line 1"), id="nothing to call it by"),
    ],
)
def test_a_row_keeps_its_id_and_its_format(
    tmp_path: Path, fields: dict[str, Any], expected: tuple[str | None, str | None, str]
) -> None:
    (row,) = read_rows(written(tmp_path, json.dumps({"response": "a", **fields})))
    assert (row.id, row.format, row.name) == expected
    assert row.request == {"response": "a"}


@pytest.mark.parametrize(("value", "correct"), [("true", True), ("false", False), ("null", None)])
def test_a_label_is_true_false_or_absent(tmp_path: Path, value: str, correct: bool | None) -> None:
    (row,) = read_rows(written(tmp_path, f'{{"response": "a", "correct": {value}}}'))
    assert row.correct is correct
    assert row.fault is None


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param("response: a", "is not JSON: ", id="no json"),
        pytest.param('{"response": "a"', "is not JSON: ", id="cut off"),
        pytest.param(b'{"response": "\xff"}', "is not JSON: ", id="no utf-8"),
        pytest.param("[" * 100_000, "is not JSON: ", id="too deep"),
        pytest.param('["a"]', "must be an object (found list)", id="list"),
        pytest.param("18", "must be an object (found int)", id="number"),
        pytest.param("null", "must be an object (found NoneType)", id="null"),
        pytest.param('{"reference": "18"}', "response: Field required", id="no response"),
        pytest.param(
            '{"response": "a", "correct": 1}',
            "correct: Input should be a valid boolean (found 1)",
            id="one",
        ),
        pytest.param(
            '{"response": "a", "correct": "yes"}',
            "correct: Input should be a valid boolean (found 'yes')",
            id="yes",
        ),
    ],
)
def test_a_bad_line_is_reported_with_its_number_and_stops_no_other(
    tmp_path: Path, line: str | bytes, fault: str
) -> None:
    first, bad, last = read_rows(written(tmp_path, '{"response": "a"}', line, '{"response": "b"}'))
    assert (bad.line, bad.request, bad.correct) == (2, None, None)
    assert bad.fault is not None
    assert bad.fault.startswith(fault)
    assert (first.request, last.request) == ({"response": "a"}, {"response": "b"})


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_rows(tmp_path / "none.jsonl")


async def test_results_keep_the_files_order_when_batches_finish_out_of_it() -> None:
    client = FakeClient(pauses_s=[0.06, 0.03, 0.0])
    run = await score_rows(client, rows_of(8), settings={}, batch_size=3)
    assert client.finished == [2, 1, 0]
    assert [len(batch) for batch in client.asked] == [3, 3, 2]
    assert [result.text for result in run.results] == [str(n) for n in range(1, 9)]
    assert [row.line for row in run.rows] == list(range(1, 9))
    assert 0.05 < run.wall_s < 5


async def test_a_bad_row_is_invalid_in_its_place_and_never_asked() -> None:
    rows = [*rows_of(2), Row(3, fault="is not JSON: why"), Row(5, {"response": "5"}, True)]
    client = FakeClient()
    run = await score_rows(client, rows, settings={}, batch_size=2)
    assert [result.text for result in run.results] == ["1", "2", None, "5"]
    bad = run.results[2]
    assert (bad.status, bad.score) == (Status.INVALID, None)
    assert bad.reason == "line 3: is not JSON: why"
    assert [[r["response"] for r in batch] for batch in client.asked] == [["1", "2"], ["5"]]


async def test_settings_are_added_to_every_request() -> None:
    client = FakeClient()
    rows = rows_of(3)
    await score_rows(client, rows, settings={"template": "solution"}, batch_size=2)
    asked = [request for batch in client.asked for request in batch]
    assert asked == [
        {"response": str(n), "template": "solution", "id": f"line {n}"} for n in (1, 2, 3)
    ]
    assert rows[0].request == {"response": "1"}


@pytest.mark.parametrize(("batches_in_flight", "most"), [(1, 1), (3, 3), (50, 10)])
async def test_batches_in_flight_are_limited(batches_in_flight: int, most: int) -> None:
    client = FakeClient(pauses_s=[0.01] * 10)
    await score_rows(
        client, rows_of(10), settings={}, batch_size=1, batches_in_flight=batches_in_flight
    )
    assert client.most_in_flight == most


async def test_progress_reaches_every_row_bad_ones_first() -> None:
    rows = [*rows_of(5), Row(6, fault="is bad"), Row(7, fault="is bad")]
    sizes: list[int] = []
    client = FakeClient(pauses_s=[0.02, 0.0])
    await score_rows(client, rows, settings={}, batch_size=3, scored=sizes.append)
    assert sizes == [2, 2, 3]


async def test_no_rows_are_a_run_of_nothing() -> None:
    client = FakeClient()
    run = await score_rows(client, [], settings={})
    assert (run.rows, run.results, client.asked) == ([], [], [])
    summary = run.summary()
    assert (summary["n"], summary["agreement"]) == (0, None)


async def test_no_service_ends_the_run() -> None:
    with pytest.raises(ServiceUnavailableError):
        await score_rows(FakeClientOfNobody(), rows_of(40), settings={})


async def test_an_answer_short_of_results_is_never_spread_over_other_rows() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await score_rows(FakeClientOfOne(), rows_of(2), settings={})
    assert isinstance(caught.value.exceptions[0], ValueError)


@pytest.mark.parametrize(
    ("labelled", "agreement"),
    [
        pytest.param([(True, ok(1.0))], 1.0, id="right as right"),
        pytest.param([(False, ok(0.0))], 1.0, id="wrong as wrong"),
        pytest.param([(True, ok(0.0))], 0.0, id="right as wrong"),
        pytest.param([(False, ok(1.0))], 0.0, id="wrong as right"),
        pytest.param([(True, ok(0.5)), (False, ok(0.49))], 1.0, id="half is right"),
        pytest.param([(True, failure(Status.TIMEOUT, "why"))], 0.0, id="right without a score"),
        pytest.param([(False, failure(Status.ERROR, "why"))], 0.0, id="wrong without a score"),
        pytest.param(
            [(True, ok(1.0)), (None, ok(0.0)), (False, failure(Status.ERROR, "why"))],
            0.5,
            id="unlabelled rows do not count",
        ),
        pytest.param([(None, ok(1.0))], None, id="no labels"),
        pytest.param([], None, id="no rows"),
    ],
)
def test_agreement_counts_a_row_without_a_score_as_disagreeing(
    labelled: list[tuple[bool | None, ScoreResult]], agreement: float | None
) -> None:
    rows = [Row(n, {}, correct) for n, (correct, _) in enumerate(labelled, 1)]
    run = Run(rows, [result for _, result in labelled], 1.0)
    assert run.summary()["agreement"] == agreement


def test_a_summary_counts_and_measures_and_is_json() -> None:
    results = [
        ok(latency_ms=10),
        ok(latency_ms=20, source="rule"),
        ok(latency_ms=30),
        failure(Status.TIMEOUT, "why", latency_ms=60_000),
    ]
    summary = Run(rows_of(4), results, 2.0).summary()
    assert summary == {
        "n": 4,
        "agreement": None,
        "statuses": {"ok": 3, "timeout": 1},
        "sources": {"judge": 2, "rule": 1},
        "verdicts_per_s": 1.5,
        "latency_ms": {"p50": 20, "p95": 29},
    }
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_a_run_without_a_verdict_has_no_latency() -> None:
    summary = Run(rows_of(1), [failure(Status.ERROR, "why", latency_ms=3)], 1.0).summary()
    assert summary["latency_ms"] == {"p50": None, "p95": None}
    assert summary["verdicts_per_s"] == 0


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([], 50, None),
        ([7.0], 95, 7.0),
        ([1.0, 3.0], 50, 2.0),
        ([3.0, 1.0, 2.0], 50, 2.0),
        (list(map(float, range(101))), 95, 95.0),
        (list(map(float, range(101))), 1, 1.0),
        ([0.0, 10.0], 95, 9.5),
    ],
)
def test_percentiles(values: list[float], percent: int, expected: float | None) -> None:
    assert percentile(values, percent) == (None if expected is None else pytest.approx(expected))


def test_results_are_written_a_line_a_row(tmp_path: Path) -> None:
    rows = [Row(1, {"response": "a"}, True), Row(3, fault="is bad")]
    results = [
        ScoreResult(status=Status.OK, score=1.0, text="ja, \u2028 é\nnext", metadata={"a": [1]}),
        failure(Status.INVALID, "line 3: is bad"),
    ]
    file = tmp_path / "out.jsonl"
    with file.open("w", encoding="utf-8") as opened:
        write_results(Run(rows, results), opened)
    data = file.read_text(encoding="utf-8")
    assert data.count("\n") == 2
    lines = [json.loads(line) for line in data.rstrip("\n").split("\n")]
    assert [(line.pop("line"), line.pop("correct")) for line in lines] == [(1, True), (3, None)]
    assert [ScoreResult.model_validate(line) for line in lines] == results
    assert len({tuple(line) for line in lines}) == 1


def test_results_are_written_under_their_rows_ids(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    with file.open("w", encoding="utf-8") as opened:
        write_results(Run([Row(1, {"response": "a"}, id="x")], [ok()]), opened)
    assert json.loads(file.read_text(encoding="utf-8"))["id"] == "x"
