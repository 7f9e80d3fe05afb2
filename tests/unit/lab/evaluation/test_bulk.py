import asyncio
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reward_serve.schema import ScoreResult, Status
from reward_serve_lab.evaluation.bulk import Row, read_rows, score_rows
from reward_serve_lab.evaluation.tables import summary_table
from tests.unit.lab.fakes import failed, judged, run_of, written

TURNS = [{"role": "user", "content": "9 + 9?"}, {"role": "assistant", "content": "It is 18."}]


def rows_of(count: int) -> list[Row]:
    return [Row(line, {"response": str(line)}) for line in range(1, count + 1)]


class FakeClient:
    """Answers every response with itself as ``text``, the first batches last."""

    def __init__(self) -> None:
        self.asked: list[list[dict[str, Any]]] = []
        self.in_flight: list[int] = [0]

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        self.asked.append(list(requests))
        self.in_flight.append(self.in_flight[-1] + 1)
        for _ in range(100 - 2 * len(self.asked)):
            await asyncio.sleep(0)
        self.in_flight.append(self.in_flight[-1] - 1)
        return [judged(0.9, text=request["response"]) for request in requests]


def test_a_row_is_its_request_its_labels_and_its_line(tmp_path: Path) -> None:
    asked = {"question": "9 + 9?", "reference": "18", "response": "#### 18", "messages": []}
    rubric = {"response": "a", "rubric": [{"name": "brief", "text": "It is brief."}]}
    labels = {"brief": 1, "rude": False, "clear": 0.5}
    file = written(
        tmp_path,
        {**asked, "correct": True, "id": 7, "format": "boxed", "answer": "18"},
        " \t",
        {**rubric, "criteria": labels},
        b'\xef\xbb\xbf{"response": 18, "correct": null}\r',
        {"messages": TURNS, "tools": [], "turns": True, "correct": False},
    )
    assert read_rows(file) == [
        Row(1, asked, True, id="7", format="boxed"),
        Row(3, rubric, criteria={"brief": 1.0, "rude": 0.0, "clear": 0.5}),
        Row(4, {"response": 18}),
        Row(5, {"messages": TURNS, "tools": [], "turns": True}, False),
    ]
    assert [row.name for row in read_rows(file)] == ["7", "line 3", "line 4", "line 5"]
    assert [row.response for row in read_rows(file)] == ["#### 18", "a", "", "It is 18."]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param('{"response": "a"', "is not JSON: ", id="cut off"),
        pytest.param(b'{"response": "\xff"}', "is not JSON: ", id="no utf-8"),
        pytest.param("[" * 100_000, "is not JSON: ", id="too deep"),
        pytest.param('["a"]', "must be an object (found list)", id="list"),
        pytest.param('{"reference": "18"}', "response: is missing; write it", id="no response"),
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
    assert bad.fault is not None and bad.fault.startswith(fault)
    assert (first.request, last.request) == ({"response": "a"}, {"response": "b"})


@pytest.mark.parametrize(("batches_in_flight", "most"), [(2, 2), (5, 3)])
async def test_results_keep_the_order_of_their_rows(batches_in_flight: int, most: int) -> None:
    client = FakeClient()
    sizes: list[int] = []
    rows = [*rows_of(8), Row(9, fault="is not JSON: why")]
    run = await score_rows(
        *(client, rows),
        settings={"template": "solution"},
        batch_size=3,
        batches_in_flight=batches_in_flight,
        scored=lambda rows, results: sizes.append(len(rows)),
    )
    assert [len(batch) for batch in client.asked] == [3, 3, 2]
    assert (sorted(sizes), max(client.in_flight)) == ([2, 3, 3], most)
    assert [result.text for result in run.results] == [*map(str, range(1, 9)), None]
    assert run.rows == rows
    assert (run.results[8].status, run.results[8].score) == (Status.INVALID, None)
    assert run.results[8].reason == "line 9: is not JSON: why"
    assert client.asked[0][0] == {"response": "1", "template": "solution", "id": "line 1"}


async def test_an_answer_short_of_results_is_never_spread_over_other_rows() -> None:
    class FakeClientOfOne:
        async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
            return [judged(0.9)]

    with pytest.raises(ExceptionGroup) as caught:
        await score_rows(FakeClientOfOne(), rows_of(2), settings={})
    assert isinstance(caught.value.exceptions[0], ValueError)


def test_a_summary_counts_rows_without_a_score_as_disagreements_and_says_the_rest() -> None:
    run = run_of((True, judged(0.9)), (False, judged(0.1)), (True, failed()), (None, failed()))
    summary = run.summary()
    assert (summary["agreement"], summary["agreement_of_scored"]) == (2 / 3, 1.0)
    assert summary["statuses"] == {"ok": 2, "timeout": 2}
    printed = io.StringIO()
    Console(width=200, file=printed).print(summary_table({"HTTP": summary}))
    assert "66.7% (100.0% of scored)" in printed.getvalue()
    nothing = run_of((True, failed())).summary()
    assert (nothing["agreement"], nothing["agreement_of_scored"]) == (0.0, None)
