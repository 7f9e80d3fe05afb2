from __future__ import annotations

import pytest

from reward_serve.rules import verify
from reward_serve.rules.clock import MAX_TEXT, is_another_time, is_same_time, is_time

GOLD = "5:30 PM"
TRIP = "She leaves at 3:15 PM and drives 2 hours 15 minutes, so she arrives at "


@pytest.mark.parametrize("text", ["5:30 PM", "5:30pm", "5 p.m.", "12 AM", "17:30", "0:15", "23:59"])
def test_a_time_of_day_names_its_half_of_the_day(text: str) -> None:
    assert is_time(text)


@pytest.mark.parametrize("text", ["5:30", "3:2", "24:00", "13:75", "13 PM", "5", "at 5 PM", "17"])
def test_what_may_be_something_else_is_no_time(text: str) -> None:
    assert not is_time(text)


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("17:30", "5:30 PM"),
        ("5:30 pm", "5:30 PM"),
        (r"5:30 \text{ PM}", "17:30"),
        ("12:15 AM", "0:15"),
        ("12 PM", "12:00 pm"),
    ],
)
def test_the_same_time_may_be_written_in_another_way(text: str, gold: str) -> None:
    assert is_same_time(text, gold)
    assert verify(f"So the answer is:\n#### {text}", gold).outcome == "right"


@pytest.mark.parametrize(
    "response",
    [
        f"{TRIP}**5:30 AM**.",
        f"{TRIP}6:30 PM.",
        "#### 5:30 AM",
        r"\boxed{5:30 \text{ AM}}",
        "5:30 a.m.",
        "It is 18:30.",
    ],
)
def test_another_time_is_wrong(response: str) -> None:
    assert verify(response, GOLD).outcome == "wrong"


@pytest.mark.parametrize(
    "response",
    [
        f"{TRIP}5:30 in the afternoon, not 5:30 AM",
        f"{TRIP}5:30.",
        f"{TRIP}half past five.",
        "Departs 1:00 PM; arrives seventeen-thirty.",
        "Arrives seventeen-thirty, having left at 1:00 PM.",
        "It is 1730 hours; the train left at 1:00 PM",
        "It is one hour after 4:30 PM.",
        "sale a las 13:00 y llega a las cinco y media",
        "Llega a las 5.30 pm, y sale a las 1:00 PM",
        "It is 17:30:00; it left at 1:00 PM.",
        "10:30 PM GMT",
        "30 minutes to 6 pm. She left at 1:07 PM.",
        "1730 hours. She left at 1:07 PM.",
        "午後五時半 (left at 1:00 PM)",
        "between 5:30 and 6:00 PM",
        f"{TRIP}5:30 AM... no wait, it is later in the day.",
    ],
)
def test_what_may_say_the_gold_time_in_another_way_is_not_decided(response: str) -> None:
    assert verify(response, GOLD).outcome == "abstain"


@pytest.mark.parametrize("response", ["20:25", "The ratio is 20:25."])
def test_a_gold_answer_that_may_be_a_ratio_proves_nothing_wrong(response: str) -> None:
    assert verify(response, "16:20").outcome == "abstain"


def test_a_text_too_long_to_search_is_not_decided() -> None:
    assert not is_another_time("1:11 AM " * (MAX_TEXT // 8 + 1), GOLD)


def test_the_hour_alone_is_compared_with_its_half_of_the_day() -> None:
    assert verify("#### 5 AM", "5 PM").outcome == "wrong"
    assert verify("#### 17:00", "5 PM").outcome == "right"
    assert verify("#### 5", "5 PM").outcome == "abstain"


def test_a_time_in_words_before_another_time_leaves_doubt() -> None:
    response = "They arrived at twenty to one. They had left at 2:10 PM."
    assert verify(response, "12:40 AM").outcome == "abstain"
