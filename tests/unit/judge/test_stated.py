from __future__ import annotations

import pytest

from reward_serve_judge.places import stated

TAIL = "\nLet me verify this. Every step can be retraced, and 9 of 12 conditions were used."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**Result:** 18 eggs.", "Result:** 18 eggs"),
        ("Answer (euros): 18", "Answer (euros): 18"),
        ("Answer → all castles are golden", "Answer → all castles are golden"),
        ("| Answer |\n|---|\n| 18 |", "Answer |\n|---|\n| 18"),
        ("| Step | Value |\n|---|---|\n| **Total** | **55,025** |", "Total** | **55,025**"),
        ("So 2 * 9. **Final Answer**\n18 eggs", "Answer**\n18 eggs"),
        ("Result: 17. Result: 18. **Note.** So 19 remain.", "Result: 18"),
        ("Ответ: 18", "Ответ: 18"),
        ("答案是18。", "答案是18。"),
        ("👉 18 in all", "👉 18 in all"),
        ("**Step 1:** add.\nShe has **18 eggs** left.", "**18 eggs**"),
        ("So 9 are left. Therefore, she sells 18 eggs. It fits.", "Therefore, she sells 18 eggs"),
    ],
)
def test_an_answer_before_a_long_text_is_found(text: str, shown: str) -> None:
    text += TAIL
    found = stated(text)
    assert found is not None
    assert text[slice(*found)] == shown


@pytest.mark.parametrize(
    "text",
    ["", "Nothing is concluded.", "**Verification:** all is well.", "Solution: " + "we add " * 20],
)
def test_nothing_is_found_where_nothing_is_stated(text: str) -> None:
    assert stated(text) is None
