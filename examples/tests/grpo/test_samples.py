from __future__ import annotations

import pytest

from examples.grpo.samples import right_by_format, right_by_value


@pytest.mark.parametrize(
    ("text", "by_value", "by_format"),
    [
        ("8 * 3 = 24. That is 24 apples.", True, False),
        ("8 * 3 = 24\n#### 24", True, True),
        ("#### 24\nor 25", False, True),
        ("24 apples and 3 pears", False, False),
        ("I do not know", False, False),
        ("1,024 - 1,000 = 24", True, False),
        ("24.5", False, False),
    ],
)
def test_the_last_number_is_the_value_and_the_first_mark_is_the_format(
    text: str, by_value: bool, by_format: bool
) -> None:
    assert right_by_value(text, 24) is by_value
    assert right_by_format(text, 24) is by_format


@pytest.mark.parametrize(
    ("text", "answer", "by_value"),
    [
        ("It is 1,024.", "1024", True),
        ("It is 25.", ["24", "25"], True),
        ("It is\n#### Paris", "paris", True),
        ("It is Paris, I think.", "Paris", False),
        ("I do not know", "Paris", False),
        ("#### -5", "-5", True),
        ("It is 5", "-5", False),
    ],
)
def test_of_a_data_set_an_accepted_answer_is_right(
    text: str, answer: str | list[str], by_value: bool
) -> None:
    assert right_by_value(text, answer) is by_value
