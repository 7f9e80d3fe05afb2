from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from examples.grpo.data_server import DataServer, read_data

GENERATED = read_data("")


def test_a_step_has_the_same_problems_in_every_run_of_a_seed() -> None:
    assert DataServer(0, GENERATED).batch(7, 4) == DataServer(0, read_data("")).batch(7, 4)
    assert DataServer(0, GENERATED).batch(7, 4) != DataServer(1, GENERATED).batch(7, 4)


def test_no_problem_comes_again_before_all_have_come() -> None:
    server = DataServer(0, GENERATED)
    indices = [index for step in range(500) for index, _ in server.batch(step, 4)]

    assert len(set(indices)) == 2000
    assert {index for index, _ in server.batch(500, 4)} <= set(indices)


def test_200_problems_are_held_out() -> None:
    assert len(DataServer(0, GENERATED).held_out()) == 200


def rows(path: Path, answers: list[object]) -> str:
    lines = [json.dumps({"question": f"Q{n}?", "answer": a}) for n, a in enumerate(answers)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_file_is_served_with_every_20th_row_held_out(tmp_path: Path) -> None:
    data = read_data(rows(tmp_path / "rows.jsonl", [f"so\n#### {n}" for n in range(40)]))

    assert [one.question for one in data.held_out] == ["Q0?", "Q20?"]
    assert sorted(one.answer for one in data.train) == sorted(str(n) for n in range(40) if n % 20)
    step = DataServer(0, data).batch(0, 38)
    assert sorted(index for index, _ in step) == list(range(38))


def test_a_row_may_have_several_answers_except_for_the_rule(tmp_path: Path) -> None:
    file = rows(tmp_path / "rows.jsonl", [["Paris", "the city of Paris"]] * 2)

    assert read_data(file).train[0].answer == ["Paris", "the city of Paris"]
    with pytest.raises(typer.BadParameter, match="an answer, which is a number"):
        read_data(file, "rule")
