import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from reward_serve.schema import ScoreRequest, ScoreResult, Status, describe_errors, echoes, failure
from tests.rows import rows

LONE_SURROGATE = "half a pair: \ud83d"
NO_REFERENCES: list[Any] = [18, [], "", " \n", ["18", ""], ["18", 18], {}, ["18"] * 65]
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
    [*rows(__file__, "within"), {"reference": ["18"] * 64}, {"id": "x" * 1024}],
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
        *rows(__file__, "bad_fields"),
        *(("reference", {"reference": reference}) for reference in NO_REFERENCES),
        ("id", {"id": "x" * 1025}),
        ("group", {"group": "x" * 1025}),
        ("model", {"model": "x" * 1025}),
        ("metadata", {"metadata": {"x": "y" * 65_536}}),
        ("metadata", {"metadata": {"x": [0] * 100_000}}),
        ("metadata", {"metadata": {"x": 10**5000}}),
        ("metadata", {"metadata": {"a": math.nan}}),
        ("metadata.a", {"metadata": {"a": {1, 2}}}),
        ("messages", {"messages": [{"role": "user", "content": ""}] * 201}),
        ("options.temperature", {"options": {"temperature": math.nan}}),
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
        *rows(__file__, "faults"),
        ({"response": "", **dict.fromkeys(map(str, range(20)))}, "and 4 more"),
        ({"response": "", "timeout_s": "x" * 5000}, "(found str of length 5000)"),
        ({"response": ["x"] * 3000}, "(found list of length 3000)"),
        ({"response": ["x" * 5000]}, "response: "),
        ({"response": b"\xff" * 5000}, "response: "),
        ({"response": 10**5000}, "(found int)"),
        ({"response": nested(3000)}, "response: "),
        ({"response": "", "x" * 5000: 1}, "unknown field"),
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
    [*rows(__file__, "echoed"), ({"id": LONE_SURROGATE, "metadata": {"a": math.nan}}, {})],
)
def test_only_what_a_result_can_carry_is_echoed(request_: object, echoed: dict[str, Any]) -> None:
    assert echoes(request_) == echoed
