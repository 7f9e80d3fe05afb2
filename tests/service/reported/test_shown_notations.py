"""What rules leave to the bundled judge is shown in one notation, so that it compares values.

Reported: durations and times of day (am for pm), numbers in other bases, intervals.
"""

import pytest

from reward_serve_judge import canonical

EQUAL = {
    "times of day": ("5:30 PM", "17:30", "5.30 p.m.", "half past five in the afternoon"),
    "durations": ("2 hours and 40 minutes", "2h40m", "160 minutes"),
    "bases": ("0x1F", "1F_{16}", "(1F)_{16}", r"1F_{\text{16}}", "11111_2", "37 in octal"),
    "intervals": ("[-3, 5)", r"-3 \le x < 5", "x ≥ -3 and x < 5", r"x \in \left[-3,5\right)"),
    "unions": (r"(-\infty, 2) \cup (7, \infty)", "x < 2 or x > 7", "{x : x < 2 or x > 7}"),
}
DIFFERENT = {
    "am for pm": ("5:30 AM", "5:30 PM"),
    "half of the day": ("05:30", "17:30"),
    "another base": ("101_2", "101_3"),
    "a base, and none": ("101_2", "101"),
    "minutes for hours": ("160 minutes", "160 hours"),
    "hours and minutes swapped": ("2 hours 40 minutes", "40 hours 2 minutes"),
    "an open end": ("x ≥ -3 and x < 5", "x > -3 and x < 5"),
    "and for or": ("x < 2 or x > 7", "x > 2 and x < 7"),
}


@pytest.mark.parametrize("texts", EQUAL.values(), ids=EQUAL)
def test_notations_of_one_value_are_shown_alike(texts: tuple[str, ...]) -> None:
    assert len({canonical(text) for text in texts}) == 1


@pytest.mark.parametrize("texts", DIFFERENT.values(), ids=DIFFERENT)
def test_different_values_are_shown_differently(texts: tuple[str, str]) -> None:
    assert canonical(texts[0]) != canonical(texts[1])
