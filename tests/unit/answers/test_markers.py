from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve_answers.gsm8k import is_doubted
from reward_serve_answers.markers import (
    _MARKER,
    MAX_MARKERS,
    Marker,
    _marked,
    read_markers,
)


def only_marker(response: str) -> Marker:
    markers = read_markers(response)
    assert markers is not None
    assert len(markers) == 1
    return markers[0]


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("#### 18 dollars", "18 dollars"),
        (r"\boxed{18}", "18"),
        (r"\boxed{\text{18 pears}}", r"\text{18 pears}"),
        (r"\boxed{\boxed{18}}", r"\boxed{18}"),
        ("The answer is 18.", "18"),
        ("**Answer:** 18", "18"),
        ("**Final Answer**: $18", "$18"),
        ("A: 18", "18"),
        ("**Final Answer**\n18", "18"),
        ("### Final Answer\n\n18 dollars", "18 dollars"),
        ("<answer>18</answer>", "18"),
        ("<Answer>\n 18 dollars\n</Answer>", "18 dollars"),
        ('{"answer": 18}', "18}"),
        ('{"steps": "9 * 2", "final_answer": "18"}', '18"}'),
        ("The answer is (1, 2), as she says", "(1, 2)"),
        ("#### the answer is 18", "18"),
        (r"The final answer is $\boxed{18}$.", "18"),
        ("The answer is 18, as she sells them", "18"),
    ],
)
def test_the_text_behind_a_marker_is_read_to_the_end_of_its_clause(
    response: str, text: str
) -> None:
    marker = only_marker(response)
    assert marker.text == text


@pytest.mark.parametrize(
    "response",
    [
        "She makes 18 dollars",
        "the answers are 18",
        "Is the answer 18?",
        "boxed{18}",
        r"\boxedtext{18}",
        r"\boxed{}",
        "**Not the Final Answer**\n18",
        "**Final Answer** 18",
        "<answer>18",
        '{"answers": 18}',
        "Answer:",
        "#### **",
    ],
)
def test_nothing_is_put_forward_by(response: str) -> None:
    assert read_markers(response) == ()


@pytest.mark.parametrize(
    "response",
    [
        "It is not #### 18",
        "This is an incorrect solution:\n\n\n#### 18",
        "It would be a mistake to write\n#### 18",
        "If she sold all:\n**Final Answer**\n18",
        "Hint: the answer is 18",
        "my_wrong_answer = 18",
        "-<answer>18</answer>",
        '{"previous_answer": 17, "correct": false, "answer": 18}',
        'data = {"answer": 18}',
        "This isn't it: #### 18",
        "- #### 18",
        "<!-- #### 18 -->",
        "If he leaves, the answer is 18",
        "Bob's answer is 18",
        r"not \boxed{18}",
        r"-\boxed{18}",
        r"1\boxed{18}",
        r"2 * \boxed{18}",
        r"\cancel{\boxed{18}}",
        r"~~\boxed{18}~~",
        r"% \boxed{18}",
        r"half of \boxed{18}",
        r"between 3 and \boxed{18}",
        r"about \boxed{18}",
        r"x > \boxed{18}",
        r"x \neq \boxed{18}",
        r"\boxed 18",
        r"\boxed{18",
    ],
)
def test_a_marker_is_doubted_for_the_text_before_it(response: str) -> None:
    marker = only_marker(response)
    assert marker.kind == "open_box" or is_doubted(response, marker)


@pytest.mark.parametrize(
    "before",
    [
        "So ",
        "x = ",
        "The total is ",
        r"9 \times 2 = ",
        "Not 17. ",
        r"\[ ",
        "She sells nine pears at two dollars.\n",
        "So the total is\n",
        "**",
    ],
)
def test_a_box_is_not_doubted_after(before: str) -> None:
    response = before + r"\boxed{18}"
    assert not is_doubted(response, only_marker(response))


def test_more_markers_than_anyone_needs_are_not_read() -> None:
    markers = read_markers("#### 18\n" * MAX_MARKERS)
    assert markers is not None
    assert len(markers) == MAX_MARKERS
    assert read_markers("#### 18\n" * (MAX_MARKERS + 1)) is None


PIECES = [
    *("answer", "Answer", "the ", "my ", "final ", "correct ", "#", "####", " ", "\n", "**", "__"),
    *("\\boxed", "\\fbox", "\\framebox", "{18}", "<answer>", "</answer>", "18", ":", "=", "is"),
    *("A:", "A**:", "a:", ">", '"answer"', "'final_answer'", "to the question", "anſwer", "wer"),
    *(" " * 50, "\t" * 45, "x" * 30, "answer" + " " * 410 + "\n", "island", "boxes"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_looking_for_signs_finds_what_the_pattern_finds_everywhere(response: str) -> None:
    found = [match.span() for match in _marked(response)]
    assert found == [match.span() for match in _MARKER.finditer(response)]
