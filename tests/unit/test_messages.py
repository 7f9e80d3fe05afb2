from typing import Any

import pytest

from reward_serve.messages import Message
from reward_serve.schema import ScoreRequest
from tests.rows import rows

TASK = {"role": "user", "content": "What is 12 + 30?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "function": {"name": "add", "arguments": {"x": 12, "y": 30}}}],
}
ANSWER = {"role": "tool", "tool_call_id": "a", "content": "42"}
END = {"role": "assistant", "content": "It is 42."}


def called(call: Any) -> str:
    turn = Message.model_validate({"role": "assistant", "tool_calls": [call]})
    return (turn.tool_calls or [])[0].shown


@pytest.mark.parametrize("call", rows(__file__, "calls"))
def test_the_same_call_is_the_same_in_each_form(call: Any) -> None:
    assert called(call) == '{"name": "add", "arguments": {"x": 1, "y": "é"}}'


@pytest.mark.parametrize(("arguments", "expected"), rows(__file__, "arguments"))
def test_arguments_of_no_json_object_are_shown_unchanged(arguments: Any, expected: str) -> None:
    assert (
        called({"name": "f", "arguments": arguments}) == f'{{"name": "f", "arguments": {expected}}}'
    )


def test_a_name_that_a_policy_wrote_is_cut_and_replaced_not_refused() -> None:
    assert (
        called({"name": "\ud800" + "f" * 2000}) == f'{{"name": "?{"f" * 1023}", "arguments": ""}}'
    )


def test_a_turn_is_read_as_apis_return_it() -> None:
    turn = Message.model_validate(
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}],
            "reasoning_content": "Hm.",
            "refusal": None,
            "annotations": [],
        }
    )
    assert turn.model_dump(exclude_none=True) == {"role": "assistant", "content": "42"}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    seen = Message.model_validate(
        {"role": "user", "content": [{"type": "text", "text": "?"}, image]}
    )
    assert (seen.text, seen.images) == ("?", [image])


def test_the_last_assistant_turn_is_judged_and_each_state_ends_before_the_next() -> None:
    request = ScoreRequest.model_validate(
        {
            "messages": [TASK, CALL, ANSWER, END, TASK],
            "turns": True,
            "id": "a",
            "metadata": {"p": 1},
        }
    )
    assert request.judged == "It is 42."
    task, first, last = request.states
    assert [turn.role for turn in task.conversation] == ["user"]
    assert [turn.role for turn in first.conversation] == ["user", "assistant", "tool"]
    assert last.conversation == request.conversation
    assert (last.turns, last.id, first.judged) == (False, None, "")
    assert first.metadata == {"p": 1}  # which a user's function may read


def test_a_response_follows_its_messages_or_its_question() -> None:
    sent = {"messages": [TASK, CALL, ANSWER], "response": "It is 42."}
    asked = ScoreRequest.model_validate(sent)
    assert asked.conversation[-1] == Message.model_validate(END)
    assert len(asked.states) == 3
    single = ScoreRequest.model_validate({"question": TASK["content"], "response": "It is 42."})
    assert single.conversation == [Message.model_validate(turn) for turn in (TASK, END)]
    begun = ScoreRequest.model_validate({"question": TASK["content"], "messages": [CALL, ANSWER]})
    assert [turn.role for turn in begun.conversation] == ["user", "assistant", "tool"]


def test_a_request_survives_the_wire() -> None:
    sent = {"messages": [TASK, CALL, ANSWER, END], "tools": [{"name": "add", "parameters": {}}]}
    request = ScoreRequest.model_validate(sent)
    assert ScoreRequest.model_validate(request.model_dump(mode="json")) == request
    assert request.tools == [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    assert request.sizes["messages"] == 16 + 3 + 18 + 2 + 9
