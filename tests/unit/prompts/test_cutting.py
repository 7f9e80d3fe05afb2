import re

import pytest

from reward_serve.prompts.rendering import JOINT, shortened


def characters(text: str) -> tuple[list[int], list[int]]:
    """A tokenizer of one token a character."""
    return [ord(c) for c in text], list(range(len(text)))


def words(text: str) -> tuple[list[int], list[int]]:
    """A tokenizer of one token a word."""
    matches = list(re.finditer(r"\S+\s*", text))
    return [hash(word[0]) for word in matches], [word.start() for word in matches]


@pytest.mark.parametrize("letters", [1, 5, 20, 30])
@pytest.mark.parametrize("head", [0, 3])
def test_tokens_of_any_length_fill_the_budget(letters: int, head: int) -> None:
    parts = [f"{n:0{letters}}" for n in range(100)]
    cut = shortened(" ".join(parts), 12, head, str, words)
    assert len(cut.ids) == 12
    assert cut.text.split()[-9:] == parts[-9:]


@pytest.mark.parametrize(
    "response",
    [
        "Answer: 1,234,567 " + "x " * 200,
        "Answer: 12345/67 " + "x " * 200,
        "Answer: -abcdefg% " + "x " * 200,
    ],
)
def test_a_head_ends_in_no_number_or_word(response: str) -> None:
    cut = shortened(response, 60, 13 + len(JOINT), str, characters)
    assert cut.text.partition(JOINT)[0].rstrip() == "Answer:"


def test_a_megabyte_is_encoded_in_part() -> None:
    seen: list[int] = []

    def counted(text: str) -> tuple[list[int], list[int]]:
        seen.append(len(text))
        return characters(text)

    cut = shortened("It is 18. " + "y " * 500_000, 96, 24, str, counted)
    assert sum(seen) < 5_000
    assert cut.text.startswith("It is 18.")
    assert cut.cut_characters > 999_000


@pytest.mark.parametrize(
    ("response", "budget", "head"),
    [
        ("So the answer is 18", 5, 0),
        ("It is 504. " + "Each day there are more. " * 20 + "On day 7 we rest.", 60, 20),
        ("x" * 100_000 + " 18", 96, 24),
        ("first eighteen, " + "then eighteen " * 40 + "last eighteen.", 40, 16),
    ],
)
def test_the_beginning_and_the_end_are_kept_and_the_span_that_was_cut_is_what_is_not_shown(
    response: str, budget: int, head: int
) -> None:
    def as_digits(text: str) -> str:
        return text.replace("eighteen", "18")

    cut = shortened(response, budget, head, as_digits, characters)
    assert "".join(map(chr, cut.ids)) == cut.text
    assert len(cut.ids) <= budget
    start, end = cut.gaps[0] if cut.gaps else (0, 0)
    assert 0 <= start <= end <= len(response)
    assert as_digits(response).startswith(cut.text[:10]) or not start
    joint = JOINT if start else ""
    assert not cut.is_exact or response[:start] + joint + response[end:] == cut.text
    assert cut.is_exact or as_digits(response) != response
    assert end - start == cut.cut_characters or "eighteen" in response


def test_an_answer_far_from_both_ends_is_shown_between_two_gaps() -> None:
    response = "We count them. " * 20 + "It is 18. " + "Each day is the same. " * 50
    at = response.index("It is 18.")
    cut = shortened(response, 60, 0, str, characters, lambda: (at, at + 9))
    (_, start), (end, stop) = cut.gaps
    assert (start, cut.gaps[0][0], cut.is_exact) == (at, 0, True)
    assert response[start:end] + JOINT + response[stop:] == cut.text
