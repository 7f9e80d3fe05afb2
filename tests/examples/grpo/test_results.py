from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.grpo.record import Record
from examples.grpo.results import interval, verdicts, write
from examples.grpo.samples import Group, Sample
from examples.grpo.settings import Settings

LAPS = {"sample_s": 6.0, "judge_s": 3.0, "train_s": 2.0, "weights_s": 1.0}


def sample(text: str, verdict: float | None, reward: float | None) -> Sample:
    return Sample([1], [0.0], text, 0, verdict, reward)


GROUP = Group(
    4,
    "",
    24,
    [1],
    0,
    [
        sample("It is 24.", 1.0, 1.0),
        sample("It is 24.", 0.0, 0.0),
        sample("It is 25.", 1.0, 1.0),
        sample("It is 24.", None, None),
        sample("It is 24.", 1.0, 0.0),
    ],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    record = Record(tmp_path / "judge-sync", Settings())
    record.evaluation({"step": 0, "by_value": 0.5, "by_format": 0.0, "right": [1, 0]})
    record.step({"step": 0, "reward": 0.5, "state": "a", **LAPS}, [GROUP])
    write(tmp_path)
    return tmp_path


def test_verdicts_are_held_against_the_known_answers(folder: Path) -> None:
    found = json.loads((folder / "results.json").read_text())["judge-sync"]["verdicts"]

    assert (found["samples"], found["undecided"]) == (5, 1)
    assert (found["false_accepts"], found["false_rejects"]) == (1, 1)
    assert found["agreement"] == 0.5
    assert {one["text"] for one in found["differing"]} == {"It is 24.", "It is 25."}


def test_a_failure_as_zero_is_a_wrong_reward_and_an_absent_one_is_none(folder: Path) -> None:
    found = json.loads((folder / "results.json").read_text())["judge-sync"]["verdicts"]

    assert found["rewarded_wrongly"] == 3  # the two verdicts, and the zero


def test_the_judges_share_is_what_it_adds_to_a_step(folder: Path) -> None:
    run = json.loads((folder / "results.json").read_text())["judge-sync"]

    assert run["judge_share"] == pytest.approx(0.25)
    assert (folder / "results.png").stat().st_size > 10_000


def test_a_run_without_verdicts_has_no_agreement() -> None:
    assert verdicts([])["agreement"] is None


def test_an_interval_holds_its_proportion() -> None:
    assert interval(100, 200) == (0.4314, 0.5686)
    assert interval(0, 10)[0] == 0.0
