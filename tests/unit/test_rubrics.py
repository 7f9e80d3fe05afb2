from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from reward_serve.rubrics import MAX_CRITERIA, MAX_CRITERION_CHARACTERS
from reward_serve.schema import ScoreRequest, describe_errors


def criterion(name: str = "brief", **fields: Any) -> dict[str, Any]:
    return {"name": name, "text": "It is brief.", **fields}


def test_a_rubric_is_a_list_of_criteria_or_a_name() -> None:
    request = ScoreRequest.model_validate(
        {"response": "", "rubric": [criterion(), criterion("long", weight=-2)]}
    )
    assert isinstance(request.rubric, list)
    assert (request.rubric[1].weight, request.rubric[1].required) == (-2.0, False)
    assert ScoreRequest.model_validate({"response": "", "rubric": "style"}).rubric == "style"
    assert ScoreRequest(response="").rubric is None


@pytest.mark.parametrize(
    ("rubric", "message"),
    [
        ([], "rubric.criteria: List should have at least 1 item"),
        ("", "rubric.name: String should have at least 1"),
        (3, "rubric.criteria: Input should be a valid list"),
        ([criterion(text=" ")], "criteria.0.text: String should match"),
        ([criterion(text="\ud800")], "criteria.0.text"),
        ([criterion(text="x" * (MAX_CRITERION_CHARACTERS + 1))], "at most 4096"),
        ([criterion(name='a"')], "criteria.0.name: String should match"),
        ([criterion(name="a\n")], "criteria.0.name: String should match"),
        ([criterion(weight=0)], "has no effect; remove the criterion"),
        ([criterion(weight=float("inf"))], "criteria.0.weight"),
        ([criterion(weight=-1)], "no response earns anything; add one"),
        ([criterion()] * 2, "two criteria are named 'brief'; rename one"),
        ([criterion(choices={"a": 1})], "criteria.0.choices"),
        ([criterion(choices={"a": 1, "b": 2})], "less than or equal to 1"),
        ([criterion(choices={"a": 1, "b": 1})], "every label has the same score"),
        ([criterion(choices={"a": 1, "A": 0})], "two labels differ only in case"),
        ([criterion(f"c{i}") for i in range(MAX_CRITERIA + 1)], "at most 64 items"),
        ([criterion(wieght=1)], "criteria.0.wieght: unknown field"),
    ],
)
def test_a_rubric_that_cannot_be_judged_is_invalid(rubric: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ScoreRequest.model_validate({"response": "", "rubric": rubric})
    assert message in describe_errors(caught.value)


def test_criteria_count_towards_an_items_length() -> None:
    rubric = [criterion("a"), criterion("b", text="x" * 100)]
    request = ScoreRequest.model_validate({"response": "", "rubric": rubric})
    assert request.sizes["rubric"] == len("It is brief.") + 100
