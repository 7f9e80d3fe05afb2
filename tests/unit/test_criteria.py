from typing import Any

import pytest
from pydantic import ValidationError

from reward_serve.criteria import MAX_CRITERIA, MAX_CRITERION_CHARACTERS
from reward_serve.schema import ScoreRequest, describe_errors
from tests.rows import rows


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
        *rows(__file__, "invalid"),
        ([criterion(text="x" * (MAX_CRITERION_CHARACTERS + 1))], "at most 4096"),
        ([criterion(f"c{i}") for i in range(MAX_CRITERIA + 1)], "at most 64 items"),
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
