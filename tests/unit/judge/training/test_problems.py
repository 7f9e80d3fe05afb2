from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from reward_serve_judge.training.problems import read_problems


def rows(count: int) -> list[dict[str, str]]:
    return [{"question": f"{n}?", "answer": f"It is {n}.\n#### {n}"} for n in range(count)]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_every_twentieth_problem_is_held_out_of_training(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", [json.dumps(row) for row in rows(100)])
    train, held_out = read_problems(path)
    assert [problem.question for problem in held_out] == ["0?", "20?", "40?", "60?", "80?"]
    assert len(train) == 95
    assert not set(train) & set(held_out)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["not JSON"], "cannot be read as its name says"),
        ([json.dumps({"question": "?"})], "row 1: KeyError: 'answer'"),
        ([*map(json.dumps, rows(2)), json.dumps({"question": "?", "answer": "#### x"})], "row 3"),
        ([json.dumps(row) for row in rows(3)], "has 3 rows, needs 20"),
    ],
)
def test_a_bad_file_is_reported_with_its_row(
    lines: list[str], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "train.jsonl", lines)
    with pytest.raises(typer.BadParameter) as caught:
        read_problems(path)
    assert message in str(caught.value)


def test_a_hub_id_without_the_hub_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(typer.BadParameter, match="pip install datasets"):
        read_problems("openai/gsm8k")
