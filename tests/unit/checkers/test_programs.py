"""What is read of responses and references, and which outputs are equal."""

from typing import Any

import pytest

from reward_serve_checkers.inside import UnsendableError, plain, value_of
from reward_serve_checkers.programs import (
    UnusableTestsError,
    last_program,
    read_tests,
    same_output,
)
from tests.rows import rows


@pytest.mark.parametrize(("response", "program"), rows(__file__, "programs"))
def test_the_last_block_of_the_language_is_the_program(response: str, program: str) -> None:
    assert last_program(response, "python") == program


@pytest.mark.parametrize(("reference", "form", "cases"), rows(__file__, "forms"))
def test_tests_are_read_in_the_forms_of_data_sets(
    reference: str, form: str, cases: list[Any]
) -> None:
    tests = read_tests(reference.replace("\n", "\\n"))
    assert tests.form == form
    assert [case if isinstance(case, str) else [*case] for case in tests.cases] == cases


def test_the_code_of_tests_gets_the_functions_that_it_calls_and_modules_that_it_uses() -> None:
    tests = read_tests('["assert math.isclose(f(2), helper(x=1)) and len([y for y in f(3)])"]')
    assert tests.names == {"f": "f", "helper": "helper"}
    assert tests.setup == "import math\n"


@pytest.mark.parametrize(("reference", "message"), rows(__file__, "unusable"))
def test_a_reference_without_usable_tests_is_refused(reference: str, message: str) -> None:
    deep = "[" * 100_000
    with pytest.raises(UnusableTestsError, match=f"{message}.*; send JSON: "):
        read_tests(reference.replace("DEEP", deep))


@pytest.mark.parametrize(("output", "expected", "same"), rows(__file__, "outputs"))
def test_outputs_are_equal_by_words_and_decimals_by_six_digits(
    output: str, expected: str, same: bool
) -> None:
    assert same_output(output.encode(), expected.encode()) is same


PLAIN: list[Any] = [
    None,
    True,
    -(10**50),
    1.5,
    float("inf"),
    "é\n",
    b"\0",
    1j,
    [],
    (1, [2]),
    {1, 2},
]
PLAIN += [frozenset({3}), {"a": {(1, 2): [None]}}]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_pass_between_processes_unchanged(value: Any) -> None:
    assert value_of(plain(value)) == value
    assert type(value_of(plain(value))) is type(value)


def test_subclasses_are_sent_as_the_plain_type_that_they_are() -> None:
    class Always(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    assert value_of(plain([Always(3)])) == [3]
    assert value_of(plain([Always(3)])) != [4]


def test_iterators_are_read_and_objects_are_not_sent() -> None:
    assert list(value_of(plain(map(str, [1])))) == ["1"]
    with pytest.raises(UnsendableError, match="a object is no plain data"):
        plain([object()])
