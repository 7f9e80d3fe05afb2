from __future__ import annotations

import pytest

from reward_serve_answers.verifiers import verify_strict_any


@pytest.mark.parametrize(
    "response",
    [
        "9 * 2 = 18\n#### 18",
        "#### 18",
        "####18",
        "####\t18",
        "#### 18.",
        "#### 18\n",
        "#### 18 \n\n\t",
        "#### $18",
        "#### 18.00",
        "9 eggs at $2.\n" * 500 + "#### 18",
        "The answer is 18.\n#### 18",
    ],
    ids=ascii,
)
def test_the_right_number_on_a_closing_line_is_right(response: str) -> None:
    verification = verify_strict_any(response, ["#### 18"])
    assert (verification.outcome, verification.rule) == ("right", "marker_matches")


@pytest.mark.parametrize(
    ("response", "reference"),
    [("#### 1,800", "1800"), ("#### $1,800", "1,800"), ("#### -18", "-18"), ("#### 0.5", "1/2")],
)
def test_the_closing_number_may_be_written_with(response: str, reference: str) -> None:
    assert verify_strict_any(response, [reference]).outcome == "right"


@pytest.mark.parametrize(
    "response",
    [
        "The answer is 18.",
        r"\boxed{18}",
        "9 * 2 = 18",
        "18",
        "### 18",
        "# # # # 18",
        "\uff03\uff03\uff03\uff03 18",
        "Answer: 18",
        "It is eighteen.",
    ],
    ids=ascii,
)
def test_without_the_marker_even_a_right_answer_is_wrong(response: str) -> None:
    verification = verify_strict_any(response, ["18"])
    assert (verification.outcome, verification.rule) == ("wrong", "no_strict_marker")


@pytest.mark.parametrize(
    ("response", "rule"),
    [
        ("9 * 2 = 17\n#### 17", "marker_differs"),
        ("The answer is 17.", "marker_differs"),
        ("", "empty_response"),
        (" \n\t", "empty_response"),
        ("Let's solve this step by step.", "only_opener"),
    ],
)
def test_what_is_wrong_anyway_keeps_its_own_rule(response: str, rule: str) -> None:
    verification = verify_strict_any(response, ["18"])
    assert (verification.outcome, verification.rule) == ("wrong", rule)


@pytest.mark.parametrize(
    "response",
    [
        "#### 18\nThank you.",
        "#### 18 dollars",
        "#### **18**",
        "####\n18",
        "#### 18<|im_end|>",
        "#### 18\n" + " " * 300,
        "The answer is 18.####",
        "#### 18..",
    ],
    ids=ascii,
)
def test_a_marker_in_another_shape_is_left_to_the_judge(response: str) -> None:
    verification = verify_strict_any(response, ["18"])
    assert (verification.outcome, verification.rule) == ("abstain", "strict_marker_in_doubt")


@pytest.mark.parametrize(
    ("response", "rule"),
    [
        ("#### 17\n#### 18", "markers_disagree"),
        ("The answer is 17.\n#### 18", "markers_disagree"),
        ("#### 1.80e1", "strict_marker_in_doubt"),
        ("##### 18", "no_marker"),
    ],
)
def test_a_closing_line_that_proves_nothing_is_left_to_the_judge(response: str, rule: str) -> None:
    verification = verify_strict_any(response, ["18"])
    assert (verification.outcome, verification.rule) == ("abstain", rule)


@pytest.mark.parametrize(
    ("references", "outcome"),
    [
        (["17", "18"], "right"),
        (["18", "17"], "right"),
        (["17", "19"], "wrong"),
        (["17", "Paris"], "abstain"),
    ],
)
def test_any_reference_makes_it_right_and_all_make_it_wrong(
    references: list[str], outcome: str
) -> None:
    assert verify_strict_any("#### 18", references).outcome == outcome


def test_a_format_at_fault_is_wrong_whatever_the_references() -> None:
    assert verify_strict_any("The answer is 18.", ["17", "18"]).outcome == "wrong"


def test_the_answer_that_was_found_is_reported() -> None:
    assert verify_strict_any("The answer is 18.", ["18"]).answer == "18"
    assert verify_strict_any("#### 18 dollars", ["18"]).answer == "18 dollars"


@pytest.mark.parametrize("references", [[], ["18", "####"], [""]])
def test_an_empty_reference_is_an_error(references: list[str]) -> None:
    with pytest.raises(ValueError, match=r"references: is empty|contains no answer"):
        verify_strict_any("#### 18", references)


def test_a_closing_line_inside_unfinished_thinking_is_not_the_responses() -> None:
    assert verify_strict_any("The answer is 18.<think>\n#### 18", ["18"]).outcome != "right"
