from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from reward_serve.schema import ScoreRequest, ScoreResult, Status, describe_errors, echoes, failure

LONE_SURROGATE = "half a pair: \ud83d"
NO_REFERENCES: list[Any] = [18, [], "", " \n", ["18", ""], ["18", 18], {}, ["18"] * 65]
CALLS = {"tool_calls": [{"name": "add", "arguments": "{}"}]}
FAILURES = [status for status in Status if status is not Status.OK]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def faults(request: object) -> str:
    with pytest.raises(ValidationError) as caught:
        ScoreRequest.model_validate(request)
    return describe_errors(caught.value, ScoreRequest)


def test_a_request_needs_only_a_response() -> None:
    request = ScoreRequest.model_validate({"response": "18"})
    assert request.model_dump(exclude_none=True) == {
        "response": "18", "timeout_s": 60.0, "options": {}, "turns": False
    }  # fmt: skip
    assert request.references == []


@pytest.mark.parametrize(
    "fields",
    [
        {"response": "a\0b", "reference": "\0", "question": "\0"},
        {"reference": " 18\n"},
        {"reference": ["18"] * 64},
        {"timeout_s": 1e-3},
        {"timeout_s": 3600},
        {"options": {"max_tokens": 5.0}},  # JSON Schema's integer
        {"metadata": {"x": [2**64 - 1, -(2**63), 1e300, nested(31)]}},
        {"id": "x" * 1024},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_value_within_its_limits_is_kept(fields: dict[str, Any]) -> None:
    fields = {"response": "", **fields}
    request = ScoreRequest.model_validate(fields)
    assert request.model_dump(exclude_unset=True) == fields
    reference: Any = fields.get("reference") or []
    assert request.references == ([reference] if isinstance(reference, str) else reference)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("response", {"response": None}),
        ("response", {"response": None, "messages": [{"role": "user", "content": "?"}]}),
        ("response", {"response": 18}),
        ("response", {"response": LONE_SURROGATE}),
        *(("reference", {"reference": reference}) for reference in NO_REFERENCES),
        ("reference", {"reference": ["18", LONE_SURROGATE]}),
        ("question", {"question": 1}),
        ("id", {"id": 7}),
        ("id", {"id": LONE_SURROGATE}),
        ("id", {"id": "x" * 1025}),
        ("group", {"group": "x" * 1025}),
        ("model", {"model": "x" * 1025}),
        ("metadata", {"metadata": []}),
        ("metadata", {"metadata": {"a": LONE_SURROGATE}}),
        ("metadata", {"metadata": {LONE_SURROGATE: 1}}),
        ("metadata", {"metadata": {"x": "y" * 65_536}}),
        ("metadata", {"metadata": {"x": [0] * 100_000}}),
        ("metadata", {"metadata": {"x": 10**5000}}),
        ("metadata", {"metadata": {"a": math.nan}}),
        ("metadata", {"metadata": {"a": [math.inf]}}),
        ("metadata.a", {"metadata": {"a": {1, 2}}}),
        ("messages", {"messages": [{"role": "user", "content": ""}] * 201}),
        ("messages.0.role", {"messages": [{"role": "function", "content": ""}]}),
        ("messages.0: content", {"messages": [{"role": "user"}]}),
        ("messages.0.content", {"messages": [{"role": "user", "content": [{"type": "audio"}]}]}),
        ("messages.0.weight", {"messages": [{"role": "user", "content": "", "weight": 1}]}),
        ("messages.0: tool_calls", {"messages": [{"role": "user", "content": "", **CALLS}]}),
        ("messages", {"messages": [{"role": "assistant", "content": "18"}]}),
        ("tools", {"tools": [{"type": "function"}]}),
        ("turns", {"turns": 1}),
        ("options", {"options": None}),
        ("options.mode", {"options": {"mode": "x"}}),
        ("options.top_p", {"options": {"top_p": 0}}),
        ("options.top_p", {"options": {"top_p": True}}),
        ("options.temperature", {"options": {"temperature": math.nan}}),
        ("options.temperature", {"options": {"temperature": "1"}}),
        *(("options.max_tokens", {"options": {"max_tokens": n}}) for n in (0, "5", 5.5, math.inf)),
        ("options.enable_thinking", {"options": {"enable_thinking": "yes"}}),
        ("options.cache", {"options": {"cache": 0}}),
        ("options.seed", {"options": {"seed": 1}}),
        *(
            ("timeout_s", {"timeout_s": seconds})
            for seconds in (math.nan, math.inf, 0, -1, 3600.001, None, "60", True, [60])
        ),
    ],
)
def test_a_bad_field_is_named(field: str, fields: dict[str, Any]) -> None:
    text = faults({"response": "", **fields})
    assert text.startswith(f"{field}: ")
    assert len(text) < 300
    text.encode()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (None, "request: "),
        ({}, "response: is missing; send it"),
        ({"response": "", "timeout_s": "soon"}, "(found 'soon')"),
        ({"response": "", "timeout_s": "x" * 5000}, "(found str of length 5000)"),
        ({"response": ["x"] * 3000}, "(found list of length 3000)"),
        ({"response": ["x" * 5000]}, "response: "),
        ({"response": b"\xff" * 5000}, "response: "),
        ({"response": 10**5000}, "(found int)"),
        ({"response": nested(3000)}, "response: "),
        ({"response": "", "x" * 5000: 1}, "unknown field"),
        ({"response": LONE_SURROGATE}, "at character 13"),
        ({"response": LONE_SURROGATE}, "text.encode('utf-8', 'replace').decode()"),
        ({"response": "", "referense": ""}, "unknown field (did you mean 'reference'?)"),
        ({"response": "", "completion": ""}, "unknown field (did you mean 'response'?)"),
        ({"response": "", "gold": ""}, "unknown field (choose from group, group_size, "),
        (
            {"response": "", "options": {"temprature": 1}},
            "options.temprature: unknown field (did you mean 'temperature'?)",
        ),
        ({"respones": "", "timeout_s": 0}, "; respones: unknown field"),
        ({"response": "", **dict.fromkeys(map(str, range(20)))}, "and 4 more"),
    ],
)
def test_a_fault_is_one_short_line_with_value_and_remedy(request_: object, message: str) -> None:
    text = faults(request_)
    assert message in text
    assert len(text) < 3000
    assert "\n" not in text


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("score", [None, 0.0, 1.0, math.nan, math.inf])
def test_a_score_is_finite_exactly_if_the_status_is_ok(status: Status, score: float | None) -> None:
    if score in ([0.0, 1.0] if status is Status.OK else [None]):
        assert ScoreResult(status=status, score=score).score == score
        return
    with pytest.raises(ValidationError, match=r"does not fit status|finite"):
        ScoreResult(status=status, score=score)


def test_the_keys_of_a_result_never_vary_and_survive_the_wire() -> None:
    full = ScoreResult(
        id="a",
        score=1.0,
        status=Status.OK,
        source="a kind of a later service",
        probabilities={"yes": 0.9, "no": 0.1},
        details={"cut": 3},
        metadata={"nested": [1, None, {"é": True}]},
    )
    keys = tuple(
        name for name in ScoreResult.model_fields if name not in ("components", "critique")
    )
    for result in [full, *(failure(status, "why", id="a") for status in FAILURES)]:
        wire = result.model_dump(mode="json")
        assert tuple(wire) == keys
        assert tuple(wire["usage"]) == ("prompt_tokens", "cached_tokens", "completion_tokens")
        assert ScoreResult.model_validate(json.loads(json.dumps(wire))) == result
    with pytest.raises(ValidationError, match="index"):
        ScoreResult.model_validate({"status": "ok", "score": 1.0, "index": 0})


@pytest.mark.parametrize(
    ("request_", "echoed"),
    [
        (
            {"id": "a", "metadata": {"step": 1}, "timeout_s": -1},
            {"id": "a", "metadata": {"step": 1}},
        ),
        ({"id": 7, "metadata": {"a": 1}}, {"metadata": {"a": 1}}),
        ({"id": "a", "metadata": [1]}, {"id": "a"}),
        ({"id": LONE_SURROGATE, "metadata": {"a": math.nan}}, {}),
        ({}, {"id": None, "metadata": None}),
        (None, {}),
        (["id"], {}),
    ],
)
def test_only_what_a_result_can_carry_is_echoed(request_: object, echoed: dict[str, Any]) -> None:
    assert echoes(request_) == echoed
