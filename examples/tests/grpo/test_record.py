from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from examples.grpo.record import Record, RecordError
from examples.grpo.samples import Group, Sample
from examples.grpo.settings import Settings

GROUP = Group(4, "", 24, [1], 0, [Sample([1], [0.0], "#### 24", 0, 1.0, 1.0)])


def test_a_run_goes_on_after_its_last_finished_step(tmp_path: Path) -> None:
    record = Record(tmp_path, Settings())
    record.step({"step": 0, "state": "a"}, [GROUP])
    record.step({"step": 1, "state": "b"}, [GROUP])

    assert [line["state"] for line in Record(tmp_path, Settings()).steps] == ["a", "b"]


def test_a_step_cut_off_while_it_was_written_is_taken_again(tmp_path: Path) -> None:
    record = Record(tmp_path, Settings())
    record.step({"step": 0, "state": "a"}, [GROUP])
    record.step({"step": 1, "state": "b"}, [GROUP])
    steps = tmp_path / "steps.jsonl"
    steps.write_text(steps.read_text()[:-3])

    again = Record(tmp_path, Settings())

    assert len(again.steps) == 1
    assert (tmp_path / "samples.jsonl").read_text().count("\n") == 1
    again.step({"step": 1, "state": "c"}, [GROUP])
    assert [line["state"] for line in Record(tmp_path, Settings()).steps] == ["a", "c"]


def test_a_run_may_be_lengthened_but_not_changed(tmp_path: Path) -> None:
    Record(tmp_path, Settings())
    Record(tmp_path, replace(Settings(), steps=90))

    with pytest.raises(RecordError, match=r"learning_rate.*0\.5.*another folder"):
        Record(tmp_path, replace(Settings(), learning_rate=0.5))


def test_an_evaluation_is_made_once(tmp_path: Path) -> None:
    record = Record(tmp_path, Settings())
    record.evaluation({"step": 0, "by_value": 0.5})

    assert Record(tmp_path, Settings()).evaluated(0)
    assert not record.evaluated(20)


@pytest.mark.parametrize("name", ["steps.jsonl", "samples.jsonl"])
def test_a_full_disk_loses_no_finished_step(tmp_path: Path, name: str) -> None:
    record = Record(tmp_path, Settings())
    record.step({"step": 0, "state": "a"}, [GROUP])
    (tmp_path / name).rename(tmp_path / "kept")
    (tmp_path / name).symlink_to("/dev/full")

    with pytest.raises(OSError, match="No space left on device"):
        record.step({"step": 1, "state": "b"}, [GROUP])

    (tmp_path / "kept").rename(tmp_path / name)
    again = Record(tmp_path, Settings())
    assert [line["state"] for line in again.steps] == ["a"]
    assert (tmp_path / "samples.jsonl").read_text().count("\n") == 1


def test_the_settings_survive_a_full_disk(tmp_path: Path) -> None:
    Record(tmp_path, Settings())
    (tmp_path / "run.json.new").symlink_to("/dev/full")

    with pytest.raises(OSError, match="No space left on device"):
        Record(tmp_path, Settings())
    (tmp_path / "run.json.new").unlink()

    with pytest.raises(RecordError):
        Record(tmp_path, replace(Settings(), seed=1))
