import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skyrl_gym
from typer.testing import CliRunner

from examples.gsm8k.prepare_dataset import main
from reward_serve_verl.scoring import request_for

ROWS: list[dict[str, Any]] = [
    {"question": f"What is {n}?", "answer": f"It is {n:,}.\n#### {n:,}"} for n in range(990, 1030)
]


def prepare(folder: Path, rows: list[dict[str, Any]], *options: str) -> Any:
    import typer

    source = folder / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    app = typer.Typer()
    app.command()(main)
    arguments = ["--train", str(source), "--out", str(folder / "out"), *options]
    return CliRunner().invoke(app, arguments)


def read_output(result: Any) -> str:
    return " ".join(result.output.replace("│", " ").split())


def read(folder: Path, split: str) -> list[dict[str, Any]]:
    frame = pd.read_parquet(folder / "out" / f"{split}.parquet")
    rows: list[dict[str, Any]] = frame.to_dict("records")
    return rows


def test_both_trainers_adapters_read_the_rows_of_which_every_twentieth_validates(
    tmp_path: Path,
) -> None:
    result = prepare(tmp_path, ROWS)

    assert result.exit_code == 0, result.output
    train, validation = read(tmp_path, "train"), read(tmp_path, "validation")
    assert (len(train), len(validation)) == (38, 2)
    questions = {row["extra_info"]["question"] for row in train}
    assert not questions & {row["extra_info"]["question"] for row in validation}
    row = next(row for row in train if row["extra_info"]["question"] == "What is 1000?")
    assert row["env_class"] == "gsm8k_judge"
    for response in ("#### 1000", "#### 1,000"):
        assert skyrl_gym.make("gsm8k", extras=row).step(response)["reward"] == 1.0
    asked = request_for("#### 1000", row["reward_model"]["ground_truth"], row["extra_info"])
    assert (asked["reference"], asked["question"]) == (["1000"], "What is 1000?")
    assert asked["group"] == f"train/{row['extra_info']['index']}"
    prepare(tmp_path, ROWS, "--variant", "rule")
    again = read(tmp_path, "train")
    assert {row["env_class"] for row in again} == {"gsm8k"}
    assert [row["extra_info"] for row in again] == [row["extra_info"] for row in train]


MATHS: list[dict[str, Any]] = [
    {"problem": "Half of 1?", "solution": "So it is a half.", "answer": r"\frac{1}{2}"},
    {"problem": "Name a root of 4.", "answer": ["2", "-2"]},
] * 11


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_any_file_of_problems_and_answers_is_prepared(suffix: str, tmp_path: Path) -> None:
    source = tmp_path / f"maths.{suffix}"
    if suffix == "jsonl":
        source.write_text("\n".join(map(json.dumps, MATHS)), encoding="utf-8")
    else:
        rows = [{**row, "answer": np.array(row["answer"], ndmin=1).tolist()} for row in MATHS]
        pd.DataFrame(rows).to_parquet(source)
    assert prepare(tmp_path, ROWS, "--set", str(source)).exit_code == 0
    rows = read(tmp_path, "train")

    assert len(rows) == 20
    asked = [
        request_for("x", row["reward_model"]["ground_truth"], row["extra_info"]) for row in rows[:2]
    ]
    assert [row["reference"] for row in asked] == [["2", "-2"], [r"\frac{1}{2}"]]
    assert asked[0]["question"] == "Name a root of 4."
    assert {row["data_source"] for row in rows} == {"maths"}
    refused = prepare(tmp_path, ROWS, "--set", str(source), "--variant", "rule")
    assert "which is a number" in read_output(refused)


@pytest.mark.parametrize("answer", [{}, {"answer": "####"}])
def test_a_row_without_an_answer_is_refused_and_nothing_is_written(
    answer: dict[str, Any], tmp_path: Path
) -> None:
    result = prepare(tmp_path, [ROWS[0], {"question": "?", **answer}])

    assert result.exit_code == 2
    assert "train: row 1: needs a question" in read_output(result)
    assert not (tmp_path / "out").exists()
