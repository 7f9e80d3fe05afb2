from __future__ import annotations

import pytest

from reward_serve.rules import verify
from reward_serve.rules.spans import located, span_of
from reward_serve_lab.attacks import crossed


@pytest.mark.parametrize(
    ("response", "rule", "words"),
    [
        ("9 * 2 = 18\n#### 18", "marker_matches", "#### 18"),
        ("#### 17\nHope 17 helps.", "text_after_marker", "#### 17"),
        ("<think>#### 17</think>\nThe answer is 18.", "marker_matches", "The answer is 18"),
        (r"So it is $\boxed{18}$.", "marker_matches", r"\boxed{18}"),
        ("<answer>18</answer>", "marker_matches", "<answer>18"),
        ("<del>17</del> **18**", "number_matches", "**18**"),
        ("#### 17\nWait, that is wrong. It should be 18.", "text_after_marker", "#### 17"),
        ("~~#### 17~~ #### 18", "marker_matches", "#### 18"),
        ("\u00e9\U0001f600 #### 18", "marker_matches", "#### 18"),
        (" \n", "empty_response", " \n"),
        ("She has many apples and they are red.", "reference_absent", None),
    ],
)
def test_the_words_that_a_rule_matched_are_found(
    response: str, rule: str, words: str | None
) -> None:
    found = located(response, verify(response, "18"))

    assert found.rule == rule
    assert (None if found.span is None else response[slice(*found.span)]) == words


def test_a_verification_has_no_span_until_it_is_asked_for() -> None:
    assert verify("#### 18", "18").span is None


def test_words_that_stand_nowhere_have_no_span() -> None:
    assert span_of("nothing of the sort", "marker_matches", "18") is None


def test_a_span_lies_within_any_response() -> None:
    for attack in crossed(per_text=1)[::4]:
        found = located(attack.response, verify(attack.response, attack.reference))
        if found.span is not None:
            start, end = found.span
            assert 0 <= start <= end <= len(attack.response)


def test_a_response_of_a_megabyte_is_not_searched() -> None:
    response = "#### 18 " * 125_000
    assert located(response, verify(response, "18")).span is None
