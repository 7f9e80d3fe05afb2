import json
from pathlib import Path
from typing import Any

import pytest
import typer

from examples.grpo.record import Record
from examples.grpo.results import gain, interval, seconds, verdicts, write
from examples.grpo.samples import Group, Sample, right_by_value
from examples.grpo.settings import RUNS, Settings

LAPS = {"sample_s": 6.0, "judge_s": 3.0, "train_s": 2.0, "weights_s": 1.0}
COMPILING = {name: 10 * value for name, value in LAPS.items()}


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"step": number, "reward": 0.5, "by_value": 0.5, "state": "a", **LAPS, **fields}


def finished(folder: Path, settings: Settings, steps: int) -> None:
    record = Record(folder, settings)
    record.start({"command": "python -m examples.grpo", "machine": {"cores": 2}})
    record.evaluation({"step": 0, "by_value": 0.5, "by_format": 0.0, "right": [1, 0]})
    for number in range(steps):
        right = float(number % 2 == 0)
        group = Group(4, "", 24, [1], 0, [Sample([1], [0.0], "It is 24.", 0, right, right)])
        record.step(step(number), [group])


def test_all_runs_stand_on_one_page_with_every_mistake_of_the_judge(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="no run in this folder has finished a step"):
        write(tmp_path)
    for place, (name, settings) in enumerate(RUNS.items()):
        finished(tmp_path / name, settings, place)  # the first has no step yet
    write(tmp_path)

    results = json.loads((tmp_path / "results.json").read_text())
    runs = results["runs"]
    assert list(runs) == list(RUNS)[1:]
    assert [len(run["steps"]) for run in runs.values()] == [1, 2, 3, 4, 5, 6]
    assert runs["judge-sync"]["starts"][0]["machine"] == {"cores": 2}
    assert runs["failures-absent"]["verdicts"]["false_rejects_by_step"] == [0, 1, 0, 1, 0]
    assert (results["judge"]["samples"], results["judge"]["false_rejects"]) == (19, 8)
    listed = [json.loads(line) for line in (tmp_path / "mistakes.jsonl").read_text().splitlines()]
    assert len(listed) == 8
    assert not any(mistake["run"].startswith("rule") for mistake in listed)
    assert (tmp_path / "results.png").stat().st_size > 10_000


def test_steps_that_compile_are_left_out_of_the_seconds() -> None:
    steps = [step(0, **COMPILING), step(1, **COMPILING), step(2), step(3, **COMPILING), step(4)]

    assert seconds(steps[:3], [0])["step_s"] == 12.0
    assert seconds([*steps, step(5)], [0, 3])["steps"] == 2  # steps 2 and 5
    assert seconds(steps[:2], [0])["step_s"] == 120.0  # there are no others
    figures = seconds([step(5)], [0])
    assert figures["judge_share"] == pytest.approx(3 / 12)
    assert figures["judge_added"] == pytest.approx(3 / 9)


def test_the_gain_is_of_the_same_problems_and_an_interval_holds_its_proportion() -> None:
    before, after = {"right": [0, 0, 1, 1] * 50}, {"right": [1, 0, 1, 1] * 50}

    assert gain([before, after]) == {"by_value": 0.25, "interval": [0.1898, 0.3102]}
    assert gain([before]) is None
    assert interval(100, 200) == (0.4314, 0.5686)


def judged(*samples: tuple[str, float | None, float | None]) -> dict[str, Any]:
    return {
        "step": 0,
        "question": "What is 8 * 3?",
        "answer": 24,
        "samples": [
            {
                "text": text,
                "verdict": verdict,
                "reward": reward,
                "by_value": right_by_value(text, 24),
            }
            for text, verdict, reward in samples
        ],
    }


def test_verdicts_and_rewards_are_held_against_the_known_answers() -> None:
    group = judged(
        ("It is 24.", 1.0, 1.0),
        ("It is 24.", 0.0, 0.0),
        ("It is 25.", 1.0, 1.0),
        ("It is 24.", None, None),
        ("It is 24.", 1.0, 0.0),
    )
    figures = verdicts([group])

    assert (figures["samples"], figures["undecided"], figures["agreement"]) == (5, 1, 0.5)
    assert (figures["false_accepts"], figures["false_rejects"]) == (1, 1)
    assert figures["rewarded_wrongly"] == 3  # the two verdicts, and the failure counted as zero
    assert figures["unrewarded"] == 1
    assert verdicts([])["agreement"] is None
