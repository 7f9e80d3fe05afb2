"""Responses as long as an item may be, of parts that make a careless pattern backtrack."""

from __future__ import annotations

import contextlib

import pytest

from reward_serve.off_loop import takes_long
from reward_serve.schema import MAX_ITEM_BYTES, ScoreRequest
from reward_serve_answers import TEXT_VERIFIERS, final_answer, grade_choice
from reward_serve_answers.calls import grade_calls

PARTS = [
    "18 ", "1,", "1.", "2^", "1{,}", "½", "-", "$", "{", "\\boxed{", "\\frac{1}{", "\\text{",
    "#### 18\n", "A: ", "<answer>", "</think>", "<think>", "<", "**", " ", " \n", "\u200b", "a",
    "not ", "one ", "hundred thousand ", "answer ", "answer\t", "box ", "A:", "<!--", "<a hidden>",
    "<span style='color:white'>", "%", "} %", "\\phantom{", "{\\color{white}", "Q:\n",
    "<tool_call>", "<tool_call>{}</tool_call>", '{"name": "arguments', "[f(", "[",
    "Q: a #### 1\n", "<|channel|>final<|message|>", "<|start|>user", "[INST]", "the answer is 18, ",
]  # fmt: skip


@pytest.mark.timeout(60)  # it takes a second; what is quadratic takes minutes
@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_a_verifiers_time_grows_with_the_length_alone(part: str) -> None:
    response = (part * (MAX_ITEM_BYTES // len(part) + 1))[:MAX_ITEM_BYTES]
    for verifier in (*TEXT_VERIFIERS.values(), grade_choice):
        verifier(response, "B" if verifier is grade_choice else "18")
    grade_calls(response, "[]")
    with contextlib.suppress(ValueError):  # it holds no answer
        final_answer(response)


@pytest.mark.parametrize(
    ("response", "references", "is_long"),
    [
        ("1" * 60_000, ["18"], False),  # a usual rollout, for which a thread costs more
        ("1" * 70_000, ["18"], True),
        ("1" * 1_000, ["18"] * 30, True),
        ("18", ["1" * 20_000], True),
    ],
)
def test_only_what_may_hold_the_loop_up_is_verified_off_it(
    response: str, references: list[str], is_long: bool
) -> None:
    assert takes_long(ScoreRequest(response=response, reference=references)) is is_long
