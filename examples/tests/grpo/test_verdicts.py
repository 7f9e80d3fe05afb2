from __future__ import annotations

from typing import Any

import pytest

from examples.grpo.samples import right_by_value
from examples.grpo.verdicts import by_step, mistakes, verdicts


def sample(text: str, verdict: float | None, reward: float | None) -> dict[str, Any]:
    return {
        "text": text,
        "verdict": verdict,
        "reward": reward,
        "by_value": right_by_value(text, 24),
        "tokens": 8,
    }


def group(*samples: dict[str, Any], step: int = 0) -> dict[str, Any]:
    about = {"problem": 4, "question": "What is 8 * 3?", "answer": 24}
    return {"step": step, **about, "samples": list(samples)}


GROUP = group(
    sample("It is 24.", 1.0, 1.0),
    sample("It is 24.", 0.0, 0.0),
    sample("It is 25.", 1.0, 1.0),
    sample("It is 24.", None, None),
    sample("It is 24.", 1.0, 0.0),
)


def test_verdicts_are_held_against_the_known_answers() -> None:
    found = verdicts([GROUP])

    assert (found["samples"], found["undecided"]) == (5, 1)
    assert (found["false_accepts"], found["false_rejects"]) == (1, 1)
    assert found["agreement"] == 0.5


def test_a_failure_as_zero_is_a_wrong_reward_and_an_absent_one_is_none() -> None:
    found = verdicts([GROUP])

    assert found["rewarded_wrongly"] == 3  # the two verdicts, and the zero
    assert found["unrewarded"] == 1


def test_without_verdicts_there_is_no_agreement() -> None:
    assert verdicts([])["agreement"] is None


def test_a_mistake_has_its_question_and_its_answer() -> None:
    rejected, accepted = mistakes([GROUP], 40)

    assert (rejected["question"], rejected["response"]) == ("What is 8 * 3?", "It is 24.")
    assert (accepted["answer"], accepted["verdict"]) == (24, 1.0)


@pytest.mark.parametrize(
    ("text", "verdict", "kind"),
    [
        ("It is 24.", 0.0, "false reject: the answer, alone"),
        ("8 * 3 = 24.", 0.0, "false reject: the answer, among other numbers"),
        ("It is 25.", 1.0, "false accept: another number"),
        ("24 apples and 3 pears.", 1.0, "false accept: another number follows the answer"),
        ("I do not know.", 1.0, "false accept: no number"),
    ],
)
def test_a_mistake_has_a_kind(text: str, verdict: float, kind: str) -> None:
    wrong = group(sample(text, verdict, verdict))

    assert [one["kind"] for one in mistakes([wrong], 40)] == [kind]
    assert [one["kind"] for one in mistakes([wrong], 8)] == [f"{kind} (response cut off)"]


def test_mistakes_are_counted_by_step() -> None:
    found = mistakes([GROUP, group(sample("It is 25.", 1.0, 1.0), step=2)], 40)

    assert by_step(found, 3) == {
        "false_accepts_by_step": [1, 0, 1],
        "false_rejects_by_step": [1, 0, 0],
    }
