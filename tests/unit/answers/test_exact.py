from __future__ import annotations

import pytest

from reward_serve_answers.values import normalised
from reward_serve_answers.verifiers import grade_exact


@pytest.mark.parametrize(
    ("response", "reference", "score"),
    [
        pytest.param("Paris", "Paris", 1.0, id="the same"),
        pytest.param(" Paris \n", "Paris", 1.0, id="white space around it"),
        pytest.param("New  \n York", "New York", 1.0, id="white space within"),
        pytest.param("Zu\u0308rich", "Z\u00fcrich", 1.0, id="composed and not"),
        pytest.param("<think>Rome? no</think> Paris", "Paris", 1.0, id="after thinking"),
        pytest.param("[THINK]Rome?[/THINK]Paris", "Paris", 1.0, id="after another's thinking"),
        pytest.param("<think>Paris", "Paris", 0.0, id="still thinking"),
        pytest.param("paris", "Paris", 0.0, id="case"),
        pytest.param("Paris.", "Paris", 0.0, id="punctuation"),
        pytest.param("It is Paris", "Paris", 0.0, id="more than it"),
        pytest.param("5²", "52", 0.0, id="a superscript"),
        pytest.param("\uff11\uff18", "18", 0.0, id="full width"),
        pytest.param("18.0", "18", 0.0, id="value"),
        pytest.param("", "Paris", 0.0, id="empty"),
    ],
)
def test_only_what_cannot_be_seen_is_overlooked(
    response: str, reference: str, score: float
) -> None:
    assert grade_exact(response, reference).score == score


def test_normalising_twice_changes_nothing_more() -> None:
    text = "  a\u0308 \t b\n"
    assert normalised(normalised(text)) == normalised(text) == "ä b"
