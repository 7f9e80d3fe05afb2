from __future__ import annotations

from examples.grpo.data_server import DataServer


def test_a_step_has_the_same_problems_in_every_run_of_a_seed() -> None:
    assert DataServer(0).batch(7, 4) == DataServer(0).batch(7, 4)
    assert DataServer(0).batch(7, 4) != DataServer(1).batch(7, 4)


def test_no_problem_comes_again_before_all_have_come() -> None:
    server = DataServer(0)
    indices = [index for step in range(500) for index, _ in server.batch(step, 4)]

    assert len(set(indices)) == 2000
    assert {index for index, _ in server.batch(500, 4)} <= set(indices)


def test_200_problems_are_held_out() -> None:
    assert len(DataServer(0).held_out()) == 200
