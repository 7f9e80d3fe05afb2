from typing import Any

import pytest
from pydantic import ValidationError

from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.reward_models.chat import ChatRequest, merged
from reward_serve.schema import describe_errors
from tests.rows import rows
from tests.unit.reward_models.test_judge import FakeEngine, judge

# As the client of a remote judge for verl sends it.
RECORDED: dict[str, Any] = {
    "model": "Qwen/Qwen3-32B",
    "messages": [{"role": "user", "content": "Problem: 9 + 9? Candidate: 18. REWARD: <score>"}],
    "temperature": 0.7,
    "top_p": 0.8,
    "max_tokens": 512,
    "stream": False,
    "chat_template_kwargs": {"enable_thinking": False},
}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "v", "schema": {"type": "object"}}}


async def asked(change: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """What the engine of a judge is asked."""
    engine = FakeEngine()
    await judge(engine, **settings).chat(ChatRequest.model_validate({**RECORDED, **change}))
    return engine.bodies[-1]


async def test_a_recorded_request_reaches_the_engine_as_it_is() -> None:
    body = await asked({})
    assert body == {
        **{name: RECORDED[name] for name in ("messages", "temperature", "top_p")},
        "chat_template_kwargs": {"enable_thinking": False},
        "most": 512,
    }


@pytest.mark.parametrize(
    "passed_on",
    [
        *rows(__file__, "passed_on"),
        {"response_format": SCHEMA},
        {"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False},
    ],
)
async def test_what_a_judge_or_simulated_user_needs_is_passed_on(passed_on: dict[str, Any]) -> None:
    body = await asked(passed_on)
    assert {name: body[name] for name in passed_on} == passed_on


async def test_the_deployment_bounds_the_tokens_and_sets_what_the_request_does_not() -> None:
    settings = {"max_tokens": 40, "temperature": 0.6, "top_p": 0.9, "enable_thinking": True}
    left_out = dict.fromkeys(("temperature", "top_p", "max_tokens", "chat_template_kwargs"))
    body = await asked(left_out, **settings)
    assert (body["temperature"], body["top_p"], body["most"]) == (0.6, 0.9, 40)
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert (await asked({}, **settings))["most"] == 40
    assert (await asked({"max_completion_tokens": 7}, **settings))["most"] == 7
    body = await asked({**left_out, "reasoning_effort": "high"})
    assert body["chat_template_kwargs"] == {"enable_thinking": True}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *rows(__file__, "refused"),
        ({"temperature": float("nan")}, "temperature: "),
        ({"top_k": 10**30}, "top_k: "),
        ({"stop": ["x"] * 17}, "stop"),
        ({"tools": [{**TOOL, "x": "x" * 20_000}], "tool_choice": "required"}, "16384 characters"),
    ],
)
def test_what_would_harm_others_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        ChatRequest.model_validate({**RECORDED, **change})
    assert message in describe_errors(refusal.value)


async def test_values_that_change_nothing_are_taken_as_left_out() -> None:
    neutral: dict[str, Any] = {
        "logprobs": False,
        "top_logprobs": 0,
        "stop": None,
        "n": 1,
        "tools": [],
        "user": "x",
    }
    assert await asked(neutral) == await asked({})


async def test_what_the_context_cannot_hold_is_refused_before_it_is_tokenised() -> None:
    long = [{"role": "user", "content": "x" * 32 * 4096}]
    with pytest.raises(InvalidRequestError, match=r"exceed this model's context of 4096 tokens"):
        await asked({"messages": long})


def test_several_answers_are_one_completion_whose_prompt_counts_once() -> None:
    def answer(text: str) -> dict[str, Any]:
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        return {"choices": [{"index": 0, "message": {"content": text}}], "usage": usage}

    whole = merged([answer("a"), answer("b"), answer("c")])
    assert [(choice["index"], choice["message"]["content"]) for choice in whole["choices"]] == [
        (0, "a"), (1, "b"), (2, "c"),
    ]  # fmt: skip
    assert whole["usage"] == {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
    request = ChatRequest.model_validate({**RECORDED, "seed": 40})
    assert [request.numbered(n).seed for n in range(3)] == [40, 41, 42]
