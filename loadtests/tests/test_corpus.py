from pathlib import Path
from random import Random

import pytest

from loadtests.load.corpus import Bursts, Rollouts, letters, long_rows, marked, rows_of
from reward_serve.schema import ScoreRequest
from reward_serve_answers import verify_any
from reward_serve_lab.evaluation.bulk import Row


def row(line: int, response: str = "#### 18", question: str = "?", correct: bool = True) -> Row:
    return Row(line, {"response": response, "reference": "18", "question": question}, correct)


def rollouts(rows: list[Row]) -> Rollouts:
    return Rollouts(rows, Random(0), "run", 30.0)


def test_samples_of_a_group_share_a_prompt_and_are_distinct_valid_requests() -> None:
    rows = [row(n, f"#### {n}", question=str(n % 3), correct=False) for n in range(12)]
    group = rollouts(rows).group(6)
    requests = [ScoreRequest.model_validate(sample.body) for sample in group]

    assert len({r.question for r in requests}) == len({r.group for r in requests}) == 1
    assert len({r.response for r in requests}) == len({r.id for r in requests}) == 6
    assert {(r.timeout_s, r.reference) for r in requests} == {(30.0, "18")}
    assert not any(sample.correct for sample in group)


def test_a_burst_sends_every_sample_once_as_its_rollout_ends() -> None:
    calls = rollouts([row(1), row(2, "17")]).bursts(Bursts(2, 4, 10, 5), 20.0, 1)

    assert len({call.samples[0].body["id"] for call in calls}) == 16
    assert len({call.samples[0].body["group"] for call in calls}) == 4
    assert [call.due_s for call in calls] == sorted(call.due_s for call in calls)
    assert [calls[7].due_s, calls[15].due_s] == [5.0, 15.0]

    together = rollouts([row(1)]).bursts(Bursts(1, 5, 10, 5), 10.0, 2)
    assert [len(call.samples) for call in together] == [2, 2, 1]
    assert together[-1].due_s == 5.0  # a call is due with its last sample


def test_a_mark_stands_where_a_judge_sees_it_and_changes_nothing_else() -> None:
    long = "word " * 100 + "#### 18"
    mark = letters(7**9)

    assert not set(mark) & set("0123456789aeiou")
    assert marked("#### 18", mark) == f"({mark})\n#### 18"  # which rules still read
    assert mark in marked(long, mark)[-180:]
    assert marked(long, mark).replace(f" ({mark})", "") == long


@pytest.mark.parametrize(
    ("text", "fault"), [("", "no rows"), ('{"response": 18}', "line 1"), ("{}", "line 1")]
)
def test_an_invalid_file_is_refused_with_its_line(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        rollouts(rows_of(path))


def test_a_rule_decides_every_long_row_as_labelled() -> None:
    rows = long_rows(Random(0))
    for row in rows[::16]:
        assert row.request is not None
        verdict = verify_any(row.request["response"], [row.request["reference"]])
        assert verdict.outcome == ("right" if row.correct else "wrong")
    assert 0.3 < sum(bool(row.correct) for row in rows) / len(rows) < 0.7
