from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from examples.grpo.record import Record
from examples.grpo.results import gain, interval, seconds, write
from examples.grpo.samples import Group, Sample
from examples.grpo.settings import RUNS, Settings

LAPS = {"sample_s": 6.0, "judge_s": 3.0, "train_s": 2.0, "weights_s": 1.0}
COMPILING = {name: 10 * value for name, value in LAPS.items()}


def group(right: bool) -> Group:
    return Group(
        4, "", 24, [1], 0, [Sample([1], [0.0], "It is 24.", 0, float(right), float(right))]
    )


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"step": number, "reward": 0.5, "by_value": 0.5, "state": "a", **LAPS, **fields}


def finished(folder: Path, settings: Settings, steps: int) -> None:
    record = Record(folder, settings)
    record.start({"command": "python -m examples.grpo", "machine": {"cores": 2}})
    record.evaluation({"step": 0, "by_value": 0.5, "by_format": 0.0, "right": [1, 0]})
    for number in range(steps):
        record.step(step(number, **(COMPILING if number < 2 else {})), [group(number % 2 == 0)])


def read(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text())


def test_all_runs_stand_on_one_page_as_far_as_they_went(tmp_path: Path) -> None:
    for place, (name, settings) in enumerate(RUNS.items()):
        finished(tmp_path / name, settings, place)  # the first has no step yet
    write(tmp_path)

    found = read(tmp_path)
    assert list(found["runs"]) == list(RUNS)[1:]
    assert [len(run["steps"]) for run in found["runs"].values()] == [1, 2, 3, 4, 5]
    assert (tmp_path / "results.png").stat().st_size > 10_000


def test_a_folder_without_a_finished_step_has_no_page(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="no run in this folder has finished a step"):
        write(tmp_path)


def test_a_run_says_its_settings_its_command_and_its_machine(tmp_path: Path) -> None:
    finished(tmp_path / "judge-sync", Settings(seed=7), 1)
    write(tmp_path)

    run = read(tmp_path)["runs"]["judge-sync"]
    assert run["settings"]["seed"] == 7
    assert run["starts"] == [
        {"step": 0, "command": "python -m examples.grpo", "machine": {"cores": 2}}
    ]


def test_every_mistake_of_the_judge_is_listed_and_a_rules_is_not(tmp_path: Path) -> None:
    finished(tmp_path / "judge-sync", Settings(), 4)
    finished(tmp_path / "rule-sync", Settings(reward="rule"), 4)
    write(tmp_path)

    listed = [json.loads(line) for line in (tmp_path / "mistakes.jsonl").read_text().splitlines()]
    assert [(one["run"], one["step"]) for one in listed] == [("judge-sync", 1), ("judge-sync", 3)]
    found = read(tmp_path)
    assert (found["judge"]["samples"], found["judge"]["agreement"]) == (4, 0.5)
    assert found["runs"]["judge-sync"]["verdicts"]["false_rejects_by_step"] == [0, 1, 0, 1]


def test_steps_that_compile_are_left_out_of_the_seconds() -> None:
    steps = [step(0, **COMPILING), step(1, **COMPILING), step(2), step(3, **COMPILING), step(4)]

    assert seconds(steps[:3], [0])["step_s"] == 12.0
    assert seconds([*steps, step(5)], [0, 3])["steps"] == 2  # steps 2 and 5
    assert seconds(steps[:2], [0])["step_s"] == 120.0  # there are no others


def test_the_judges_share_is_what_it_adds_to_a_step() -> None:
    found = seconds([step(5)], [0])

    assert found["judge_share"] == pytest.approx(3 / 12)
    assert found["judge_added"] == pytest.approx(3 / 9)


def test_the_gain_is_of_the_same_problems() -> None:
    before, after = {"right": [0, 0, 1, 1] * 50}, {"right": [1, 0, 1, 1] * 50}

    assert gain([before, after]) == {"by_value": 0.25, "interval": [0.1898, 0.3102]}
    assert gain([before]) is None


def test_an_interval_holds_its_proportion() -> None:
    assert interval(100, 200) == (0.4314, 0.5686)
    assert interval(0, 10)[0] == 0.0
