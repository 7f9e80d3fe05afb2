from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from reward_serve.schema import (
    MAX_TIMEOUT_S,
    ScoreRequest,
    ScoreResult,
    Status,
    Usage,
    describe_errors,
    echoes,
    failure,
)

LONE_SURROGATE = "half a pair: \ud83d"
FAILURES = [status for status in Status if status is not Status.OK]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def faults(request: object) -> str:
    with pytest.raises(ValidationError) as caught:
        ScoreRequest.model_validate(request)
    return describe_errors(caught.value)


def test_a_request_needs_only_a_response() -> None:
    request = ScoreRequest.model_validate({"response": "18"})
    assert request.timeout_s == 60.0
    assert request.references == []
    assert request.options.model_dump(exclude_none=True) == {}
    assert request.model_dump(exclude={"response", "timeout_s", "options"}, exclude_none=True) == {}


def test_what_is_accepted_is_taken_as_it_is() -> None:
    assert ScoreRequest(response="", reference=" 18\n").references == [" 18\n"]
    assert ScoreRequest(response="a\0b", reference=["18", "\0"]).references == ["18", "\0"]
    assert ScoreRequest(response="", timeout_s=MAX_TIMEOUT_S).timeout_s == MAX_TIMEOUT_S
    request = ScoreRequest.model_validate({"response": "", "options": {"max_tokens": 5.0}})
    assert repr(request.options.max_tokens) == "5"


@pytest.mark.parametrize("timeout_s", [math.nan, math.inf, 0, -1, 3600.001, None, "60", True])
def test_a_deadline_that_is_no_time_is_refused(timeout_s: object) -> None:
    text = faults({"response": "", "timeout_s": timeout_s})
    assert text.startswith("timeout_s: ")
    assert f"(found {timeout_s!r})" in text


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        pytest.param({}, "response", id="no response"),
        pytest.param({"response": None}, "response", id="null response"),
        pytest.param({"response": 18}, "response", id="number for a response"),
        pytest.param({"response": "", "reference": 18}, "reference", id="number for a reference"),
        pytest.param({"response": "", "reference": []}, "reference", id="no references"),
        pytest.param({"response": "", "reference": " \n"}, "reference", id="blank reference"),
        pytest.param({"response": "", "reference": ["18", ""]}, "reference", id="one is empty"),
        pytest.param({"response": "", "reference": ["18", 18]}, "reference", id="one is a number"),
        pytest.param({"response": "", "id": 7}, "id", id="number for an id"),
        pytest.param({"response": "", "metadata": []}, "metadata", id="list for metadata"),
        pytest.param({"response": "", "options": None}, "options", id="null options"),
        pytest.param({"response": "", "options": {"mode": "x"}}, "options.mode", id="mode"),
        pytest.param({"response": "", "options": {"top_p": 0}}, "options.top_p", id="top_p"),
        pytest.param(
            {"response": "", "options": {"temperature": math.nan}}, "options.temperature", id="nan"
        ),
        pytest.param(
            {"response": "", "options": {"max_tokens": 0}}, "options.max_tokens", id="no tokens"
        ),
        pytest.param(
            {"response": "", "messages": [{"role": "tool", "content": ""}]},
            "messages.0.role",
            id="role",
        ),
        pytest.param(
            {"response": "", "messages": [{"role": "user"}]}, "messages.0.content", id="content"
        ),
        *(
            pytest.param({"response": "", "options": {name: value}}, f"options.{name}", id=name)
            for name, value in [
                ("temperature", "1"),
                ("top_p", True),
                ("max_tokens", 5.5),
                ("max_tokens", math.inf),
                ("enable_thinking", "yes"),
            ]
        ),
        pytest.param({"response": "", "respones": ""}, "respones", id="unknown field"),
        pytest.param({"response": "", "options": {"seed": 1}}, "options.seed", id="unknown option"),
        pytest.param(
            {"response": "", "messages": [{"role": "user", "content": "", "name": "a"}]},
            "messages.0.name",
            id="unknown field of a message",
        ),
    ],
)
def test_a_bad_field_is_named(request_: dict[str, Any], field: str) -> None:
    text = faults(request_)
    assert text.startswith(f"{field}: ")
    assert ";" not in text


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"response": LONE_SURROGATE}, "response"),
        ({"response": "", "reference": ["18", LONE_SURROGATE]}, "reference"),
        ({"response": "", "question": LONE_SURROGATE}, "question"),
        ({"response": "", "model": LONE_SURROGATE}, "model"),
        ({"response": "", "id": LONE_SURROGATE}, "id"),
        ({"response": "", "metadata": {LONE_SURROGATE: LONE_SURROGATE}}, "metadata"),
        (
            {"response": "", "messages": [{"role": "user", "content": LONE_SURROGATE}]},
            "messages.0.content",
        ),
        ({"response": "", "options": {"mode": LONE_SURROGATE}}, "options.mode"),
        ({"response": "", "timeout_s": LONE_SURROGATE}, "timeout_s"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_lone_surrogate_is_refused_with_its_position(
    request_: dict[str, Any], field: str
) -> None:
    text = faults(request_)
    assert text.startswith(f"{field}: ")
    text.encode()  # the message is Unicode text
    if field == "response":
        assert "at character 13" in text
        assert "encode('utf-8', 'replace').decode()" in text


@pytest.mark.parametrize("metadata", [{"a": math.nan}, {"a": [math.inf]}, {"a": {1, 2}}], ids=str)
def test_metadata_that_is_not_json_is_refused(metadata: dict[str, Any]) -> None:
    assert faults({"response": "", "metadata": metadata}).startswith("metadata")


def test_several_faults_are_reported_once_each_in_one_line() -> None:
    text = faults({"respones": "", "timeout_s": 0})
    assert [part.split(":")[0] for part in text.split("; ")] == [
        "response",
        "timeout_s",
        "respones",
    ]
    assert "\n" not in text


def test_a_request_that_is_no_object_is_named_request() -> None:
    assert faults(None).startswith("request: ")


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"response": "", "timeout_s": "x" * 5000}, id="text"),
        pytest.param({"response": ["x"] * 5000}, id="list"),
        pytest.param({"response": {str(i): i for i in range(5000)}}, id="object"),
        pytest.param({"response": ["x" * 5000]}, id="short list of a long text"),
        pytest.param({"response": nested(5000)}, id="list too deep for repr()"),
        pytest.param({"response": b"\xff" * 5000}, id="bytes"),
        pytest.param({"response": "", "x" * 5000: 1}, id="name of an unknown field"),
        pytest.param({"response": "", "timeout_s": 10**5000}, id="number too long for str()"),
        pytest.param(["x" * 5000], id="request"),
    ],
)
def test_a_long_value_is_described_and_not_shown(request_: object) -> None:
    assert len(faults(request_)) < 1000


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"referense": "18"}, "referense: unknown field (did you mean 'reference'?"),
        ({"answer": "18"}, "answer: unknown field (did you mean 'reference'?"),
        ({"completion": "18"}, "completion: unknown field (did you mean 'response'?"),
        ({"gold": "18"}, "gold: unknown field (choose from group, group_size, "),
        (
            {"options": {"temprature": 0.5}},
            "options.temprature: unknown field (did you mean 'temperature'?)",
        ),
    ],
)
def test_an_unknown_field_is_named_with_a_field_that_exists(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        ScoreRequest.model_validate({"response": "18", **fields})
    assert describe_errors(caught.value, ScoreRequest).startswith(said)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("score", [None, 0.0, 1.0])
def test_a_score_is_null_exactly_when_the_status_is_not_ok(
    status: Status, score: float | None
) -> None:
    if (score is None) == (status is not Status.OK):
        assert ScoreResult(status=status, score=score).score == score
        return
    with pytest.raises(ValidationError, match="does not fit status"):
        ScoreResult(status=status, score=score)


def test_a_score_is_finite_and_a_result_has_no_other_keys() -> None:
    for score in (math.nan, math.inf):
        with pytest.raises(ValidationError, match="finite"):
            ScoreResult(status=Status.OK, score=score)
    with pytest.raises(ValidationError, match="index"):
        ScoreResult.model_validate({"status": "ok", "score": 1.0, "index": 0})


def test_the_keys_of_a_result_never_vary() -> None:
    full = ScoreResult(
        id="a",
        score=1.0,
        status=Status.OK,
        source="judge",
        label="yes",
        probabilities={"yes": 0.9, "no": 0.1},
        details={"cut": 3},
        usage=Usage(prompt_tokens=3),
        metadata={"step": 1},
    )
    results = [full, *(failure(status, "why") for status in FAILURES)]
    keys = {tuple(result.model_dump(mode="json")) for result in results}
    assert keys == {tuple(name for name in ScoreResult.model_fields if name != "components")}
    assert len({tuple(result.model_dump()["usage"]) for result in results}) == 1
    assert ScoreResult.model_validate(json.loads(full.model_dump_json())) == full


@pytest.mark.parametrize("status", FAILURES)
def test_a_failure_says_why_and_has_no_score(status: Status) -> None:
    result = failure(status, "why", id="a", model="judge")
    assert (result.status, result.score, result.reason) == (status, None, "why")
    assert (result.id, result.model) == ("a", "judge")
    with pytest.raises(ValidationError):
        failure(Status.OK, "why")


@pytest.mark.parametrize(
    ("request_", "echoed"),
    [
        pytest.param(
            {"id": "a", "metadata": {"step": 1}, "timeout_s": -1},
            {"id": "a", "metadata": {"step": 1}},
            id="both",
        ),
        pytest.param({"id": 7, "metadata": {"a": 1}}, {"metadata": {"a": 1}}, id="bad id"),
        pytest.param({"id": "a", "metadata": [1]}, {"id": "a"}, id="bad metadata"),
        pytest.param({"id": LONE_SURROGATE, "metadata": {}}, {"metadata": {}}, id="surrogate"),
        pytest.param(
            {"id": "a", "metadata": {"a": math.nan}}, {"id": "a"}, id="not a number in metadata"
        ),
        pytest.param({}, {"id": None, "metadata": None}, id="neither"),
        pytest.param(None, {}, id="null"),
        pytest.param("id", {}, id="text"),
    ],
)
def test_only_what_a_result_can_carry_is_echoed(request_: object, echoed: dict[str, Any]) -> None:
    assert echoes(request_) == echoed
    json.dumps(failure(Status.INVALID, "why", **echoed).model_dump(mode="json")).encode()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param(
            {"metadata": {"x": nested(32)}}, "nested more than 32 levels deep", id="depth"
        ),
        pytest.param({"metadata": {"x": "y" * 65_536}}, "the limit is 65536", id="size"),
        pytest.param({"metadata": {"x": 2**64}}, "more than 64 bits", id="integer"),
        pytest.param({"metadata": {"x": 10**5000}}, "metadata: ", id="integer of 5,000 digits"),
        pytest.param({"reference": ["18"] * 65}, "at most 64 references", id="references"),
        pytest.param(
            {"messages": [{"role": "user", "content": ""}] * 1025}, "messages: ", id="messages"
        ),
        *(
            pytest.param({name: "x" * 1025}, f"{name}: ", id=name)
            for name in ("id", "group", "model")
        ),
    ],
)
def test_a_value_beyond_its_limit_is_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ScoreRequest.model_validate({"response": "", **fields})
    described = describe_errors(caught.value)
    assert said in described
    assert len(described) < 300


def test_values_within_their_limits_are_accepted() -> None:
    metadata = {"x": nested(30), "y": [2**64 - 1, -(2**63), 1e300]}
    fields = {"metadata": metadata, "reference": ["18"] * 64, "id": "x" * 1024}
    ScoreRequest.model_validate({"response": "", **fields})
