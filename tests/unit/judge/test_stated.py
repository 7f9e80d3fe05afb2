from __future__ import annotations

import time

import pytest

from reward_serve_judge.stated import stated

TAIL = "\nLet me verify this. Every step can be retraced, and 9 of 12 conditions were used."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**Result:** 18 eggs.", "Result:** 18 eggs"),
        ("Ans. thirteen", "Ans. thirteen"),
        ("Answer (euros): 18", "Answer (euros): 18"),
        ("Answer → all castles are golden", "Answer → all castles are golden"),
        ("| Answer |\n|---|\n| 18 |", "Answer |\n|---|\n| 18"),
        ("| Step | Value |\n|---|---|\n| **Total** | **55,025** |", "Total** | **55,025**"),
        ("So 2 * 9. **Final Answer**\n18 eggs", "Answer**\n18 eggs"),
        ("Ответ: 18", "Ответ: 18"),
        ("答案是18。", "答案是18。"),
        ("The sum is 12.\n***18***", "***18***"),
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


def test_the_last_answer_of_the_surest_kind_is_found() -> None:
    text = "Result: 17. Result: 18. **Note.** So 19 remain." + TAIL
    assert text[slice(*stated(text) or ())] == "Result: 18"


@pytest.mark.parametrize(
    "text",
    ["", "Nothing is concluded.", "**Verification:** all is well.", "Solution: " + "we add " * 20],
)
def test_nothing_is_found_where_nothing_is_stated(text: str) -> None:
    assert stated(text) is None


@pytest.mark.parametrize(
    "part", ["answer: ", "so 1", "**a", "\n", "> ", "answer:\n|-", "Ans. ", "|", " ", "\n so 1 "]
)
def test_the_search_is_linear(part: str) -> None:
    def seconds(size: int) -> float:
        text = part * (size // len(part))
        start = time.process_time()
        stated(text)
        return time.process_time() - start

    best = [min(seconds(size) for _ in range(3)) for size in (20_000, 160_000)]
    assert best[1] < 24 * max(best[0], 0.001)  # quadratic: 64
