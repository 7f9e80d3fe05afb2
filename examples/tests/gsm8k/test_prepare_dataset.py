from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skyrl_gym
from typer.testing import CliRunner

from examples.gsm8k.prepare_dataset import main
from reward_serve_verl.requests import request_for

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


def shown(result: Any) -> str:
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
    assert [each["reference"] for each in asked] == [["2", "-2"], [r"\frac{1}{2}"]]
    assert asked[0]["question"] == "Name a root of 4."
    assert {row["data_source"] for row in rows} == {"maths"}
    refused = prepare(tmp_path, ROWS, "--set", str(source), "--variant", "rule")
    assert "which is a number" in shown(refused)


def test_the_rules_variant_differs_in_the_environment_alone(tmp_path: Path) -> None:
    found = {}
    for variant, environment in (("judge", "gsm8k_judge"), ("rule", "gsm8k")):
        prepare(tmp_path, ROWS, "--variant", variant)
        rows = read(tmp_path, "train")
        assert {row.pop("env_class") for row in rows} == {environment}
        found[variant] = [(row["extra_info"], list(row["prompt"])) for row in rows]
    assert found["judge"] == found["rule"]


MATH500: list[dict[str, Any]] = [
    {"problem": f"What is {n} + 1?", "solution": f"It is one more: {n + 1}.", "answer": str(n + 1)}
    for n in range(20)
]


def test_members_and_the_rest_of_the_set_are_paired_for_membership_inference(
    tmp_path: Path,
) -> None:
    assert prepare(tmp_path, MATH500, "--members", "8").exit_code == 0
    rows = sorted(read(tmp_path, "train"), key=lambda row: row["extra_info"]["pair"])
    infos = [row["extra_info"] for row in rows]

    # As the original's script draws them, so that a model that was trained with it can be tested.
    members = sorted(Random(42).sample(range(20), 8))
    unused = [at for at in range(20) if at not in members]
    assert sorted(i["original_idx"] for i in infos if i["is_member"]) == members
    others = [i["original_idx"] for i in infos if not i["is_member"]]
    assert sorted(others) == sorted(Random(43).sample(unused, 8))
    # The policy is asked for the solution, and the judge compares with it.
    first = next(row for row in rows if row["extra_info"]["original_idx"] == 0)
    assert [dict(turn) for turn in first["prompt"]] == [
        {"role": "user", "content": "What is 0 + 1?"}
    ]
    asked = request_for("x", first["reward_model"]["ground_truth"], first["extra_info"])
    assert asked["reference"] == ["It is one more: 1."]
    listed = json.loads((tmp_path / "out" / "members.jsonl").read_text().splitlines()[0])
    assert listed == {
        "id": 0,
        "problem": "What is 0 + 1?",
        "solution": "It is one more: 1.",
        "is_member": True,
        "pair_type": "original",
        "original_idx": 0,
    }


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([ROWS[0], {"question": "?"}], [], "train: row 1: needs a question"),
        ([ROWS[0], {"question": "?", "answer": "####"}], [], "train: row 1: needs a question"),
        (MATH500, ["--members", "11"], "only 9 rows can be non-members"),
        (MATH500, ["--members", "21"], "the set has 20 rows"),
        (MATH500, ["--nonmembers", "x"], "--nonmembers needs --members"),
        (MATH500, ["--members", "2", "--variant", "rule"], "without --variant rule"),
    ],
)
def test_what_cannot_be_prepared_is_refused_and_nothing_is_written(
    rows: list[dict[str, Any]], options: list[str], message: str, tmp_path: Path
) -> None:
    result = prepare(tmp_path, rows, *options)

    assert result.exit_code == 2
    assert message in shown(result)
    assert not (tmp_path / "out").exists()
