"""Responses as long as an item may be, of parts that make a careless pattern backtrack."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable

import pytest

from reward_serve.off_loop import takes_long
from reward_serve.schema import MAX_ITEM_BYTES, ScoreRequest
from reward_serve_answers import final_answer, grade_choice, verify, verify_any, verify_strict_any
from reward_serve_answers.committed import MAX_RESPONSE
from reward_serve_answers.verifiers import (
    grade_exact,
    grade_numeric,
    grade_strict_first,
    grade_strict_last,
)

CHARACTERS = MAX_ITEM_BYTES
SECONDS = 1.0  # each takes less than 0.05 on a free machine; what is quadratic takes minutes

PARTS = [
    "1", "18 ", "1,", "1.", "1/", "2^", "1e", "18%", "1{,}", "1 1/2 ", "½", "١", "-", "$", "\\$",
    "(", "{", "\\boxed{", "\\frac{1}{", "\\sqrt", "\\text{", "#### 18\n", "A: ", "<answer>",
    "</response>", "<", "**", "~~", " ", "\n", "\u200b", "a", "e", "not ", "one ", "twenty-",
    "eighteen and ", "hundred thousand ", "answer ", "answer\t", "box", "A:",
    "The answer is 18, no wait, ", "[", "</think>", "<!--",
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_a_verifiers_time_grows_with_the_length_alone(part: str) -> None:
    response = (part * (CHARACTERS // len(part) + 1))[:CHARACTERS]
    for verifier in (verify_any, verify_strict_any):
        began = time.process_time()
        verifier(response, ["18"])
        assert time.process_time() - began < SECONDS
    for grade in (
        grade_exact, grade_numeric, grade_strict_first, grade_strict_last,
        lambda response, _: grade_choice(response, "B"),
    ):  # fmt: skip
        began = time.process_time()
        grade(response, "18")
        assert time.process_time() - began < SECONDS
    began = time.process_time()
    with contextlib.suppress(ValueError):  # it holds no answer
        final_answer(response)
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize(
    ("head", "part"),
    [
        ("", "</think>"),
        ("#### 18\nCheck: ", "1,"),
        ("", "{\\color{white}"),
        ("", "A:"),
        ("", "box "),
    ],
)
def test_no_part_of_a_response_takes_longer_than_a_few_passes(head: str, part: str) -> None:
    times = []
    for padding in ("", " ", "  "):
        response = (head + padding + part * MAX_RESPONSE)[:MAX_RESPONSE]
        began = time.process_time()
        verify(response, "18")
        times.append(time.process_time() - began)
    assert min(times) < 0.2  # of a busy machine; 0.1 of a free one


def test_a_long_rollout_costs_a_few_passes_over_its_text() -> None:
    line = "Step {n}: she sells 3 of {n} eggs, so 16 - 3 = 13 are left, and each costs $2.\n"
    text = "".join(line.format(n=n) for n in range(400))
    rollouts = [f"{text}{n}\n#### 18" for n in range(7)]

    def best(call: Callable[[str], object]) -> float:
        times = []
        for rollout in rollouts:
            began = time.thread_time()
            call(rollout)
            times.append(time.thread_time() - began)
        return min(times)

    assert best(lambda rollout: verify(rollout, "18")) < 3 * best(re.compile(r"\d+").findall)


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
