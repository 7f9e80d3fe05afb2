from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve_answers.committed import committed
from reward_serve_judge.canonical import canonical
from reward_serve_judge.places import occurrence


def where(reference: str, response: str) -> str:
    """As a template with canonical numerals shows both."""
    found = committed(response)
    clause = found.clause and canonical(found.clause)
    return occurrence(canonical(reference), canonical(found.text), clause)


@pytest.mark.parametrize(
    ("reference", "response", "expected"),
    [
        ("18", "#### 18", "marked"),
        ("18", "The answer is 18 eggs, as 20 - 2 = 18.", "marked"),
        ("18", "She has 18 (that is, eighteen) left.", "present"),
        ("18", "**18**", "present"),
        ("18", "答案是18个", "present"),
        ("1,800", "So 1.8k.", "present"),
        ("18", "17. The answer is 17.", "absent"),
        ("18", "-18", "absent"),
        ("18", "18.5", "absent"),
        ("18", "18%", "absent"),
        ("18", "x^18", "absent"),
        ("18", "18*3", "absent"),
        ("18", "x > 18", "absent"),
        ("-18", "It is −18.", "present"),
        ("(3, -4)", r"\boxed{(3,-4)}", "marked"),
        ("[0,1)", "We get [0,1].", "absent"),
        ("[0,1)", "0 <= x < 1", "present"),
        ("[1, 2, 3]", "1, 2, 3, 4", "absent"),
        ("[1, 2, 3]", "(1, 2, 3)", "absent"),
        ("[a, b]", "a, b, c", "absent"),
        (r"\{1,2\}", "{2, 1}", "present"),
        (r"\frac{x^{2}}{3} + 2", "2 + x**2/3", "present"),
        ("2x", "It is 2x + 1.", "absent"),
        ("Co", "It is CO.", "absent"),
        ("Paris", "it is paris", "present"),
        ("no", "No.", "present"),
        ("no", "North", "absent"),
        ("", "18", "absent"),
        ("18", "", "absent"),
    ],
)
def test_where_a_reference_stands(reference: str, response: str, expected: str) -> None:
    assert where(reference, response) == expected


numbers = st.integers(-10_000, 10_000)


@given(numbers, numbers, st.sampled_from(["{}", "It is {}.", "({})", "a {} b", "#### {}", "*{}*"]))
def test_a_number_occurs_where_it_is_written_whole(one: int, other: int, form: str) -> None:
    assert (where(str(one), form.format(other)) != "absent") == (one == other)
