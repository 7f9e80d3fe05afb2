from __future__ import annotations

import re

import pytest

from reward_serve.judging.rendering import JOINT, cut_span, shortened

JOINT_TOKENS = len(JOINT)


def characters(text: str) -> tuple[list[int], list[int]]:
    """A tokenizer of one token a character."""
    return [ord(c) for c in text], list(range(len(text)))


def cut(response: str, budget: int, head: int = 0) -> tuple[str, int]:
    text, ids, missing, _ = shortened(response, budget, head, str, characters)
    assert len(ids) <= budget
    assert "".join(map(chr, ids)) == text
    return text, missing


def test_a_conversation_that_fits_is_not_cut() -> None:
    assert cut("It is 18.", 9, head=4) == ("It is 18.", 0)


def words(text: str) -> tuple[list[int], list[int]]:
    """A tokenizer of one token a word."""
    found = list(re.finditer(r"\S+\s*", text))
    return [hash(word[0]) for word in found], [word.start() for word in found]


@pytest.mark.parametrize("letters", [1, 5, 20, 30])
@pytest.mark.parametrize("head", [0, 3])
def test_tokens_of_any_length_fill_the_budget(letters: int, head: int) -> None:
    parts = [f"{n:0{letters}}" for n in range(100)]
    shown, ids, _, _ = shortened(" ".join(parts), 12, head, str, words)
    assert len(ids) == 12
    assert shown.split()[-9:] == parts[-9:]


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

    text, _, missing, _ = shortened("It is 18. " + "y " * 500_000, 96, 24, str, counted)
    assert sum(seen) < 5_000
    assert text.startswith("It is 18.")
    assert missing > 999_000


def test_head_and_end_are_of_the_text_as_it_is_shown() -> None:
    text, *_ = shortened("eighteen " * 40, 20, 8, lambda t: t.replace("eighteen", "18"), characters)
    assert text == "18 " + JOINT + "18 18 18 18 "


@pytest.mark.parametrize(
    ("response", "budget", "head"),
    [
        ("So the answer is 18", 5, 0),
        ("It is 504. " + "Each day there are more. " * 20 + "On day 7 we rest.", 60, 20),
        ("x" * 100_000 + " 18", 96, 24),
    ],
)
def test_the_span_that_was_cut_is_what_is_not_shown(response: str, budget: int, head: int) -> None:
    cut = shortened(response, budget, head, str, characters)
    start, end, exact = cut_span(response, cut.text, cut.head, str)

    assert exact
    assert end - start == cut.cut_characters
    joint = JOINT if cut.head else ""
    assert response[:start] + joint + response[end:] == cut.text


def test_the_span_of_a_rewritten_response_is_of_the_response_as_it_came() -> None:
    def shown(text: str) -> str:
        return text.replace("eighteen", "18")

    response = "first eighteen, " + "then eighteen " * 40 + "last eighteen."
    cut = shortened(response, 40, 16, shown, characters)
    start, end, exact = cut_span(response, cut.text, cut.head, shown)

    assert exact
    first, last = cut.text.split(JOINT)
    assert (shown(response[:start]), shown(response[end:])) == (first, last)


def test_a_span_that_ends_inside_what_was_rewritten_is_not_exact() -> None:
    def shown(text: str) -> str:
        return text.replace("eighteen", "18")

    response = "then eighteen " * 40
    cut = shortened(response, 10, 0, shown, characters)  # "8 then 18 "
    start, end, exact = cut_span(response, cut.text, cut.head, shown)

    assert (start, exact) == (0, False)
    assert abs(len(response) - end - len("8 then eighteen ")) <= len("eighteen")
