"""Calls of tools beside the expected ones, and JSON beside its schema."""

import json
from typing import Any

import pytest

from reward_serve_answers.calls import grade_calls
from reward_serve_answers.schemas import compare, validator_of
from reward_serve_answers.values import UnusableReferenceError
from tests.rows import rows

PARAMETERS = {"properties": {"q": {"default": "*"}, "limit": {"default": 10.0}}, "required": ["q"]}
TOOLS: list[Any] = [{"name": "now"}, {"function": {"name": "find", "parameters": PARAMETERS}}]
DEEP = '{"q": ' + "[" * 5000 + "]" * 5000 + "}"
NOT_JSON = (
    "", "q", '["a"]', "null", '{"q": 1, "q": 1}', '{"q": NaN}', '{"q": 1e999}', "{", DEEP,
    '{"q": 1e-99999999999999999999}', '{"q": 0e99999999999999999999}',  # Decimal's limit
)  # fmt: skip


def call(name: str = "find", **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize(
    ("given", "expected", "rule"),
    [
        *rows(__file__, "arguments"),
        *((given, {"q": "a"}, "arguments_not_json") for given in NOT_JSON),
    ],
)
def test_arguments_are_compared_as_json(given: str, expected: dict[str, Any], rule: str) -> None:
    grade = grade_calls([("find", given)], call(**expected), TOOLS)
    assert (grade.rule, grade.score) == (rule, float(rule == "calls_equal"))


def block(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


FIND, NOW = call(q="a"), call("now")
LEFT = [
    (f"{block(FIND)}<tool_call>{FIND}", "cut_off"),
    (f"<think>{block(FIND)}", "unfinished_thinking"),
    ("<|channel|>commentary to=functions.now<|message|>{}", "unfinished_thinking"),
    *(
        (text, "other_syntax")
        for text in (
            f"{FIND}</tool_call>", f"```json\n{FIND}\n```", f"[TOOL_CALLS][{FIND}]",
            FIND.replace("arguments", "parameters"), block("<function=find></function>"),
            "<function=find>{}</function>", "<|python_tag|>find.call()", "[find(q='a'), now()]",
            'Sure.\n[find(q="a")]', 'I call find(q="a").', '{"tool": "find", "args": {"q": "a"}}',
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reference", "score", "rule"),
    [
        *rows(__file__, "texts"),
        *((text, reference, None, rule) for text, rule in LEFT for reference in (FIND, "[]")),
    ],
)
def test_a_text_calls_what_trainers_would_run_and_other_syntaxes_are_left(
    text: str, reference: str, score: float | None, rule: str
) -> None:
    grade = grade_calls(text, reference, TOOLS)
    assert (grade.score, grade.rule) == (score, rule)


def test_the_order_of_parallel_calls_counts_if_it_is_asked_for() -> None:
    nested = json.dumps(
        [{"type": "function", "function": json.loads(call)} for call in (FIND, NOW)]
    )
    assert grade_calls(block(NOW) + block(FIND), nested, ordered=True).rule == "other_order"
    assert grade_calls(block(FIND) + block(NOW), nested, ordered=True).rule == "calls_equal"


@pytest.mark.parametrize("reference", ["find", "1", '{"find": {}}', '{"name": "f"}', f"[{DEEP}]"])
def test_a_reference_without_calls_is_refused(reference: str) -> None:
    with pytest.raises(UnusableReferenceError, match=r"be read as calls.*or \[\] if no"):
        grade_calls(FIND, reference)


@pytest.mark.parametrize(
    ("response", "rule"),
    [
        *rows(__file__, "fenced"),
        *((text, "no_json") for text in ('So {"a": 1}', '```json\n{"a": 1}', '{"a": 1, "a": 1}')),
    ],
)
def test_the_last_fenced_json_or_the_whole_response_is_validated(response: str, rule: str) -> None:
    score, actual, _ = compare(response, '{"properties": {"a": {"type": "integer"}}}')
    assert (actual, score) == (rule, float(rule == "schema_fits"))


@pytest.mark.parametrize("schema", ["a", "3", '{"pattern": "("}', '{"$ref": "#/$defs/a"}'])
def test_a_schema_that_cannot_be_used_is_refused(schema: str) -> None:
    with pytest.raises(UnusableReferenceError, match="no usable JSON Schema"):
        validator_of(schema)
