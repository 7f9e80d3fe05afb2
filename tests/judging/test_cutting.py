from __future__ import annotations

import re

import pytest

from reward_serve.judging.cutting import JOINT, shortened

JOINT_TOKENS = len(JOINT)


def characters(text: str) -> tuple[list[int], list[int]]:
    """A tokenizer of one token a character."""
    return [ord(c) for c in text], list(range(len(text)))


def cut(response: str, budget: int, head: int = 0) -> tuple[str, int]:
    text, ids, missing = shortened(response, budget, head, str, characters)
    assert len(ids) <= budget
    assert "".join(map(chr, ids)) == text
    return text, missing


def test_a_conversation_that_fits_is_not_cut() -> None:
    assert cut("It is 18.", 9, head=4) == ("It is 18.", 0)


def test_without_a_head_the_end_is_kept() -> None:
    assert cut("So the answer is 18", 5) == ("is 18", len("So the answer "))


def test_an_answer_that_came_first_is_kept_beside_the_end() -> None:
    response = "It is 504. " + "Each day there are more. " * 20 + "On day 7 we rest."
    shown, missing = cut(response, 60, head=20)
    assert shown.startswith("It is 504.")
    assert shown.endswith("On day 7 we rest.")
    first, last = shown.split(JOINT)
    assert len(response) - len(first) - len(last) == missing


@pytest.mark.parametrize(
    "response",
    [
        pytest.param("Answer: 1234567 " + "x " * 200, id="digits"),
        pytest.param("Answer: 1,234,567 " + "x " * 200, id="separators"),
        pytest.param("Answer: 12.34567 " + "x " * 200, id="decimals"),
        pytest.param("Answer: 12345/67 " + "x " * 200, id="fraction"),
        pytest.param("Answer: -abcdefg% " + "x " * 200, id="word"),
    ],
)
def test_a_head_ends_in_no_number_or_word(response: str) -> None:
    shown, _ = cut(response, 60, head=13 + JOINT_TOKENS)
    assert re.split(re.escape(JOINT), shown)[0].rstrip() == "Answer:"


def test_one_long_word_has_no_head() -> None:
    assert cut("a" * 200, 40, head=20) == ("a" * 40, 160)


def test_a_budget_below_twice_the_head_shows_the_end_alone() -> None:
    assert cut("It is 504. " + "x " * 50, 20, head=11) == ("x " * 10, 91)


def test_a_megabyte_is_encoded_in_part() -> None:
    seen: list[int] = []

    def counted(text: str) -> tuple[list[int], list[int]]:
        seen.append(len(text))
        return characters(text)

    text, _, missing = shortened("It is 18. " + "y " * 500_000, 96, 24, str, counted)
    assert sum(seen) < 5_000
    assert text.startswith("It is 18.")
    assert missing > 999_000


def test_head_and_end_are_of_the_text_as_it_is_shown() -> None:
    text, _, _ = shortened(
        "eighteen " * 40, 20, 8, lambda t: t.replace("eighteen", "18"), characters
    )
    assert text == "18 " + JOINT + "18 18 18 18 "
