from __future__ import annotations

from fractions import Fraction

import pytest

from reward_serve.verifiers.denials import denies

EIGHTEEN = Fraction(18)


@pytest.mark.parametrize(
    "response",
    [
        "18 is wrong.",
        "18 would be incorrect.",
        "The answer is 18. That is wrong.",
        "I get 18. No, that cannot be right.",
        "She makes $18.\nWait, no.",
        "18? Certainly not.",
        "Eighteen? No.",
        "Not 18.",
        "The answer isn't 18.",
        "9 * 2 = 18. Hmm, that is not correct. I made a mistake.",
        "#### 18\nBut this is incorrect.",
        "18 isn't right\u2026",
    ],
)
def test_the_last_words_deny_the_value(response: str) -> None:
    assert denies(response, EIGHTEEN)


@pytest.mark.parametrize(
    "response",
    [
        pytest.param("", id="nothing"),
        pytest.param("No.", id="no number"),
        pytest.param("18", id="stated"),
        pytest.param("17 is wrong. 18.", id="another is denied"),
        pytest.param("17? No, 18.", id="replaced"),
        pytest.param("It is 18. Some say 17, which is wrong.", id="another is denied last"),
        pytest.param("It is 18. Some say 17. That is wrong.", id="another, in its own sentence"),
        pytest.param("It is 18. Not 17.", id="told apart from another"),
        pytest.param("18 is right. 18 is wrong.", id="named twice"),
        pytest.param("She makes 18 dollars. No further steps are needed.", id="no denial"),
        pytest.param("She makes 18 dollars. That is not wrong.", id="a denied denial"),
        pytest.param("She makes 18 dollars. This is correct.", id="affirmed"),
        pytest.param("#### 18\nThat is not so bad.", id="not so ..."),
        pytest.param(
            "#### 18\nIt is not possible to sell half an egg.", id="something else is not"
        ),
        pytest.param("#### 18\nThat can't be right, you may think, but it is.", id="undone"),
        pytest.param("18. No, seriously.", id="insisted"),
        pytest.param("#### 18\nWrong: multiplying first.", id="a remark"),
        pytest.param("Is 18 wrong? No.", id="a denied doubt"),
        pytest.param("#### 18\nI was wrong earlier, so I fixed it.", id="repaired"),
        pytest.param("18 is not wrong.", id="a denied denial in one"),
    ],
)
def test_other_last_words_do_not(response: str) -> None:
    assert not denies(response, EIGHTEEN)
