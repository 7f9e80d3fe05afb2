from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import skyrl_gym
from typer.testing import CliRunner

from examples.gsm8k.prepare_dataset import main
from reward_serve_verl.requests import request_for

ROWS = [
    {"question": f"What is {n}?", "answer": f"It is {n:,}.\n#### {n:,}"} for n in range(990, 1030)
]


def prepare(folder: Path, rows: list[dict[str, str]], *options: str) -> Any:
    import typer

    source = folder / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    app = typer.Typer()
    app.command()(main)
    arguments = ["--train", str(source), "--out", str(folder / "out"), *options]
    return CliRunner().invoke(app, arguments)


def read(folder: Path, split: str) -> list[dict[str, Any]]:
    frame = pd.read_parquet(folder / "out" / f"{split}.parquet")
    rows: list[dict[str, Any]] = frame.to_dict("records")
    return rows


def test_every_twentieth_row_of_a_file_validates(tmp_path: Path) -> None:
    result = prepare(tmp_path, ROWS)

    assert result.exit_code == 0, result.output
    train, validation = read(tmp_path, "train"), read(tmp_path, "validation")
    assert (len(train), len(validation)) == (38, 2)
    questions = {row["extra_info"]["question"] for row in train}
    assert not questions & {row["extra_info"]["question"] for row in validation}


def test_both_trainers_adapters_read_the_rows(tmp_path: Path) -> None:
    assert prepare(tmp_path, ROWS, "--validation", str(tmp_path / "rows.jsonl")).exit_code == 0
    row = read(tmp_path, "validation")[10]

    assert row["env_class"] == "gsm8k_judge"
    for response in ("#### 1000", "#### 1,000"):
        assert skyrl_gym.make("gsm8k", extras=row).step(response)["reward"] == 1.0
    asked = request_for("#### 1000", row["reward_model"]["ground_truth"], row["extra_info"])
    assert (asked["reference"], asked["question"]) == (["1000"], "What is 1000?")
    assert asked["group"] == "validation/10"


def test_the_variants_differ_in_the_environment_alone(tmp_path: Path) -> None:
    prepare(tmp_path, ROWS)
    judge = read(tmp_path, "train")
    prepare(tmp_path, ROWS, "--variant", "rule")
    rule = read(tmp_path, "train")

    assert {row.pop("env_class") for row in judge} == {"gsm8k_judge"}
    assert {row.pop("env_class") for row in rule} == {"gsm8k"}
    assert [row["extra_info"] for row in judge] == [row["extra_info"] for row in rule]
    assert [list(row["prompt"]) for row in judge] == [list(row["prompt"]) for row in rule]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"question": "?"}, "row 41: needs a question"),
        ({"question": "?", "answer": "####"}, "row 41: needs a question"),
    ],
)
def test_a_bad_row_is_reported_and_nothing_is_written(
    bad: dict[str, str], message: str, tmp_path: Path
) -> None:
    validation = tmp_path / "rows.jsonl"
    result = prepare(tmp_path, [*ROWS, bad], "--validation", str(validation))

    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "out").exists()
