from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from loadtests.load.corpus import Rollouts, letters, marked, rows_of
from loadtests.load.shapes import Bursts
from loadtests.tests.load.rows import row
from reward_serve.schema import ScoreRequest
from reward_serve_lab.evaluation.bulk import Row


def rollouts(rows: list[Row] | None = None, repeats: float = 0.0) -> Rollouts:
    return Rollouts(rows or [row(1), row(2, "17")], Random(0), "run", 30.0, repeats)


def test_samples_of_a_group_share_a_prompt_and_are_all_distinct() -> None:
    rows = [row(n, f"#### {n}", question=str(n % 3)) for n in range(12)]
    group = rollouts(rows).group(6)

    assert len({sample.body["question"] for sample in group}) == 1
    assert len({sample.body["group"] for sample in group}) == 1
    assert len({sample.body["response"] for sample in group}) == 6
    assert len({sample.body["id"] for sample in group}) == 6
    assert len({sample.input for sample in group}) == 6


def test_samples_are_valid_requests_with_deadline_and_label() -> None:
    (sample,) = rollouts([row(1, correct=False)]).group(1)
    request = ScoreRequest.model_validate(sample.body)

    assert (request.timeout_s, request.reference, sample.correct) == (30.0, "18", False)


def test_repeats_are_equal_inputs_with_distinct_ids() -> None:
    group = rollouts(repeats=0.5).group(40)
    inputs = {sample.input for sample in group}

    assert 10 < len(inputs) < 30
    assert len({sample.body["id"] for sample in group}) == 40
    for number in inputs:
        assert len({s.body["response"] for s in group if s.input == number}) == 1


def test_a_burst_sends_every_sample_once_as_its_rollout_ends() -> None:
    calls = rollouts().bursts(Bursts(2, 4, 10, 5, 0.5), 20.0, 1)

    assert len({call.samples[0].body["id"] for call in calls}) == 16
    assert len({call.samples[0].body["group"] for call in calls}) == 4
    assert [call.due_s for call in calls] == sorted(call.due_s for call in calls)
    assert [calls[7].due_s, calls[15].due_s] == [5.0, 15.0]


def test_a_call_of_several_samples_is_due_with_its_last() -> None:
    calls = rollouts().bursts(Bursts(1, 5, 10, 5, 0.5), 10.0, 2)

    assert [len(call.samples) for call in calls] == [2, 2, 1]
    assert calls[-1].due_s == 5.0


def test_a_mark_stands_near_the_end_where_a_judge_sees_it() -> None:
    long = "word " * 100 + "#### 18"

    assert marked("18", "run b") == "(run b) 18"
    assert "(run b)" in marked(long, "run b")[-180:]
    assert marked(long, "run b").replace(" (run b)", "") == long


def test_marks_are_distinct_and_have_no_digits_or_vowels() -> None:
    marks = [letters(number) for number in range(2000)]

    assert len(set(marks)) == 2000
    assert not any(set(mark) & set("0123456789aeiou") for mark in marks)


def test_an_invalid_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for text, fault in (("", "no rows"), ('{"response": 18}', "line 1"), ("{}", "line 1")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=fault):
            Rollouts(rows_of(path), Random(0), "run", 30.0, 0.0)
    with pytest.raises(ValueError, match="data"):
        rows_of(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="repeats"):
        rollouts(repeats=1.0)
