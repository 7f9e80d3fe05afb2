from dataclasses import replace
from pathlib import Path

import pytest

from examples.grpo.record import Record, RecordError
from examples.grpo.samples import Group, Sample
from examples.grpo.settings import Settings

GROUP = Group(4, "", 24, [1], 0, [Sample([1], [0.0], "#### 24", 0, 1.0, 1.0)])


def test_a_step_cut_off_while_it_was_written_is_taken_again(tmp_path: Path) -> None:
    record = Record(tmp_path, Settings())
    record.step({"step": 0, "state": "a"}, [GROUP])
    record.step({"step": 1, "state": "b"}, [GROUP])
    record.evaluation({"step": 0, "by_value": 0.5})
    assert [line["state"] for line in Record(tmp_path, Settings()).steps] == ["a", "b"]
    steps = tmp_path / "steps.jsonl"
    steps.write_text(steps.read_text()[:-3])

    again = Record(tmp_path, Settings())

    assert len(again.steps) == 1
    assert again.evaluated(0) and not again.evaluated(20)
    assert (tmp_path / "samples.jsonl").read_text().count("\n") == 1
    again.step({"step": 1, "state": "c"}, [GROUP])
    assert [line["state"] for line in Record(tmp_path, Settings()).steps] == ["a", "c"]


def test_a_run_may_be_lengthened_but_not_changed(tmp_path: Path) -> None:
    Record(tmp_path, Settings())
    Record(tmp_path, replace(Settings(), steps=90))

    with pytest.raises(RecordError, match=r"learning_rate.*0\.5.*another folder"):
        Record(tmp_path, replace(Settings(), learning_rate=0.5))
