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
from reward_serve_verl.scoring import request_for

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
    assert asked[0]["reference"] == ["2", "-2"]
    assert asked[0]["question"] == "Name a root of 4."
    assert asked[1]["reference"] == [r"\frac{1}{2}"]
    assert rows[0]["extra_info"]["problem"] == "Name a root of 4."
    assert {row["data_source"] for row in rows} == {"maths"}


def test_a_csv_file_is_read(tmp_path: Path) -> None:
    source = tmp_path / "capitals.csv"
    lines = [f'"Capital of country {n}, please?",City {n}' for n in range(21)]
    source.write_text("\n".join(["question,answer", *lines]), encoding="utf-8")
    assert prepare(tmp_path, ROWS, "--set", str(source)).exit_code == 0

    (*_, last) = read(tmp_path, "train")
    assert last["reward_spec"]["ground_truth"] == "City 19"
    assert last["extra_info"]["question"] == "Capital of country 19, please?"


def test_the_rule_needs_numbers(tmp_path: Path) -> None:
    source = tmp_path / "maths.jsonl"
    source.write_text("\n".join(map(json.dumps, MATHS)), encoding="utf-8")
    result = prepare(tmp_path, ROWS, "--set", str(source), "--variant", "rule")
    assert result.exit_code == 2
    assert "which is a number" in " ".join(result.output.replace("│", " ").split())


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


MATH500: list[dict[str, Any]] = [
    {"problem": f"What is {n} + 1?", "solution": f"It is one more: {n + 1}.", "answer": str(n + 1)}
    for n in range(20)
]


def pairs(folder: Path, *options: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    result = prepare(folder, MATH500, *options)
    assert result.exit_code == 0, result.output
    rows = [row | {"info": row["extra_info"]} for row in read(folder, "train")]
    return [r for r in rows if r["info"]["is_member"]], [
        r for r in rows if not r["info"]["is_member"]
    ]


def test_the_rest_of_the_set_are_the_non_members(tmp_path: Path) -> None:
    members, others = pairs(tmp_path, "--members", "8")

    # As the original's script draws them, so that a model that was trained with it can be tested.
    drawn = [sorted(row["info"]["original_idx"] for row in rows) for rows in (members, others)]
    assert drawn[0] == sorted(Random(42).sample(range(20), 8))
    unused = [at for at in range(20) if at not in drawn[0]]
    assert drawn[1] == sorted(Random(43).sample(unused, 8))
    assert {row["info"]["pair_type"] for row in members} == {"original"}
    assert {row["info"]["pair_type"] for row in others} == {"unused_original"}
    assert sorted(row["info"]["pair"] for row in others) == list(range(8))
    assert sorted(row["info"]["index"] for row in members + others) == list(range(16))
    assert not (tmp_path / "out" / "validation.parquet").exists()


def test_the_policy_is_asked_for_the_solution_and_the_judge_compares_with_it(
    tmp_path: Path,
) -> None:
    members, _ = pairs(tmp_path, "--members", "8")
    first = min(members, key=lambda row: row["info"]["pair"])

    assert [dict(turn) for turn in first["prompt"]] == [
        {"role": "user", "content": "What is 0 + 1?"}
    ]
    asked = request_for("x", first["reward_model"]["ground_truth"], first["info"])
    assert asked["reference"] == ["It is one more: 1."]
    assert asked["question"] == "What is 0 + 1?"


def test_members_and_non_members_are_also_lists(tmp_path: Path) -> None:
    pairs(tmp_path, "--members", "8")
    lists = {
        name: [json.loads(line) for line in (tmp_path / "out" / name).read_text().splitlines()]
        for name in ("members.jsonl", "nonmembers.jsonl")
    }

    assert [row["id"] for row in lists["nonmembers.jsonl"]] == list(range(8))
    assert lists["members.jsonl"][0] == {
        "id": 0,
        "problem": "What is 0 + 1?",
        "solution": "It is one more: 1.",
        "is_member": True,
        "pair_type": "original",
        "original_idx": 0,
    }


def test_non_members_of_another_file_are_none_of_the_sets_rows(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    known, unknown = MATH500[:15], [{"question": f"Why {n}?", "answer": "So."} for n in range(5)]
    other.write_text("\n".join(map(json.dumps, known + unknown)), encoding="utf-8")

    members, others = pairs(tmp_path, "--members", "5", "--nonmembers", str(other))

    assert len(members) == 5
    assert {row["info"]["problem"] for row in others} == {f"Why {n}?" for n in range(5)}
    assert {row["info"]["pair_type"] for row in others} == {"separate_dataset"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--members", "11"], "only 9 rows can be non-members"),
        (["--members", "21"], "the set has 20 rows"),
        (["--nonmembers", "x"], "--nonmembers needs --members"),
        (["--members", "2", "--variant", "rule"], "without --variant rule"),
    ],
)
def test_pairs_that_cannot_be_made_are_refused(
    options: list[str], message: str, tmp_path: Path
) -> None:
    result = prepare(tmp_path, MATH500, *options)

    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "out").exists()
