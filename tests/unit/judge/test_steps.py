from __future__ import annotations

import re

from reward_serve_judge.steps import applied, steps


def test_a_step_runs_where_one_of_its_signs_stands_in_either_case() -> None:
    group = steps(("x", "plus"), (r"1|one", "2"))
    assert applied([group], "1 + 1") == "1 + 1"
    assert applied([group], "X 1") == "X 2"
    assert applied([group], "one PLUS 1") == "2 PLUS 2"


def test_a_step_without_signs_runs_on_every_text() -> None:
    assert applied([steps((), (r"one", "1"), flags=re.IGNORECASE)], "One") == "1"


def test_a_step_sees_the_signs_that_an_earlier_one_wrote() -> None:
    groups = [steps("²", (r"²", "^2")), steps("^", (r"\^2", " squared"))]
    assert applied(groups, "10²") == "10 squared"


def test_a_step_runs_where_its_pattern_is_found_in_its_own_case() -> None:
    group = steps(re.compile(r"\dK"), (r"(\d)K", r"\g<1>000"))
    assert applied([group], "5K") == "5000"
    assert applied([group], "5k and K") == "5k and K"
