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
    """Answers every response with itself as ``text``, the last of the first batches first."""

    def __init__(self, together: int = 1) -> None:
        self._together = asyncio.Barrier(together)
        self._before: list[asyncio.Event] = []
        self.asked: list[list[dict[str, Any]]] = []
        self.most_in_flight = 0
        self._in_flight = 0

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        self.asked.append(list(requests))
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        done = asyncio.Event()
        self._before.append(done)
        place = len(self._before)
        await self._together.wait()
        if place < len(self._before):
            await self._before[place].wait()
        done.set()
        self._in_flight -= 1
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


def test_a_row_is_its_request_its_labels_and_its_line(tmp_path: Path) -> None:
    asked = {"question": "9 + 9?", "reference": "18", "response": "#### 18", "messages": []}
    rubric = {"response": "a", "rubric": [{"name": "brief", "text": "It is brief."}]}
    labels = {"brief": 1, "rude": False, "clear": 0.5}
    file = written(
        tmp_path,
        json.dumps({**asked, "correct": True, "id": 7, "format": "boxed", "answer": "18"}),
        " \t",
        json.dumps({**rubric, "criteria": labels}),
        b'\xef\xbb\xbf{"response": 18, "correct": null}\r',
    )
    assert read_rows(file) == [
        Row(1, asked, True, id="7", format="boxed"),
        Row(3, rubric, criteria={"brief": 1.0, "rude": 0.0, "clear": 0.5}),
        Row(4, {"response": 18}),
    ]
    assert [row.name for row in read_rows(file)] == ["7", "line 3", "line 4"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param('{"response": "a"', "is not JSON: ", id="cut off"),
        pytest.param(b'{"response": "\xff"}', "is not JSON: ", id="no utf-8"),
        pytest.param("[" * 100_000, "is not JSON: ", id="too deep"),
        pytest.param('["a"]', "must be an object (found list)", id="list"),
        pytest.param('{"reference": "18"}', "response: Field required", id="no response"),
        pytest.param(
            '{"response": "a", "correct": 1}',
            "correct: Input should be a valid boolean (found 1)",
            id="one",
        ),
        pytest.param('{"response": "a", "criteria": {"brief": NaN}}', "criteria", id="nan"),
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


async def test_results_keep_the_files_order_when_batches_finish_out_of_it() -> None:
    client = FakeClient(together=3)
    sizes: list[int] = []
    rows = [*rows_of(8), Row(9, fault="is not JSON: why")]
    run = await score_rows(
        client, rows, settings={"template": "solution"}, batch_size=3, scored=sizes.append
    )
    assert [len(batch) for batch in client.asked] == [3, 3, 2]
    assert sizes == [1, 2, 3, 3]
    assert [result.text for result in run.results] == [*map(str, range(1, 9)), None]
    assert run.rows == rows
    assert (run.results[8].status, run.results[8].score) == (Status.INVALID, None)
    assert run.results[8].reason == "line 9: is not JSON: why"
    assert client.asked[0][0] == {"response": "1", "template": "solution", "id": "line 1"}


@pytest.mark.parametrize(("batches_in_flight", "most"), [(1, 1), (5, 5), (50, 10)])
async def test_batches_in_flight_are_limited(batches_in_flight: int, most: int) -> None:
    client = FakeClient(together=most)
    await score_rows(
        client, rows_of(10), settings={}, batch_size=1, batches_in_flight=batches_in_flight
    )
    assert client.most_in_flight == most


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
        pytest.param([(True, ok(1.0)), (False, ok(0.0))], 1.0, id="right"),
        pytest.param([(True, ok(0.0)), (False, ok(1.0))], 0.0, id="wrong"),
        pytest.param([(True, ok(0.5)), (False, ok(0.49))], 1.0, id="half is right"),
        pytest.param(
            [(True, failure(Status.TIMEOUT, "why")), (False, failure(Status.ERROR, "why"))],
            0.0,
            id="without a score",
        ),
        pytest.param([(True, ok(1.0)), (None, ok(0.0))], 1.0, id="unlabelled rows do not count"),
        pytest.param([(None, ok(1.0))], None, id="no labels"),
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


def test_results_are_written_a_line_a_row_under_their_ids(tmp_path: Path) -> None:
    rows = [Row(1, {"response": "a"}, True, id="x"), Row(3, fault="is bad")]
    results = [
        ScoreResult(status=Status.OK, score=1.0, text="ja, \u2028 é\nnext", metadata={"a": [1]}),
        failure(Status.INVALID, "line 3: is bad"),
    ]
    file = tmp_path / "out.jsonl"
    with file.open("w", encoding="utf-8") as opened:
        write_results(Run(rows, results), opened)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    assert len({tuple(line) for line in lines}) == 1
    found = [(line.pop("line"), line.pop("correct"), line.pop("id")) for line in lines]
    assert found == [(1, True, "x"), (3, None, None)]
    assert [ScoreResult.model_validate(line) for line in lines] == results
