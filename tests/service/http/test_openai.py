from __future__ import annotations

from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from tests.fake_ingress import served
from tests.unit.reward_models.test_chat import RECORDED

SERVER: dict[str, Any] = {"compatible_with": ["openai"], "aliases": {"Qwen/Qwen3-32B": "rule"}}


def test_the_client_of_a_remote_judge_works_unchanged() -> None:
    with served(**SERVER) as client:
        reply = client.post("/v1/chat/completions", json=RECORDED)
    assert reply.status_code == 200
    content = reply.json()
    assert content["choices"][0]["message"]["content"] == RECORDED["messages"][0]["content"]
    assert (content["model"], content["object"]) == ("Qwen/Qwen3-32B", "chat.completion")
    assert content["usage"]["total_tokens"] == 7


def test_openais_own_client_understands_answers_refusals_and_the_list() -> None:
    with served(**SERVER) as transport:
        client = OpenAI(api_key="none", base_url="http://testserver/v1", http_client=transport)
        asked: list[Any] = [{"role": "user", "content": "Which?"}]
        content = client.chat.completions.create(model="rule", messages=asked)
        assert (content.choices[0].message.content, content.choices[0].finish_reason) == (
            "Which?",
            "stop",
        )
        assert [model.id for model in client.models.list()] == ["rule", "Qwen/Qwen3-32B"]
        with pytest.raises(NotFoundError, match="no model is named 'gpt-4o'"):
            client.chat.completions.create(model="gpt-4o", messages=asked)
        with pytest.raises(BadRequestError, match="logprobs: is not supported"):
            client.chat.completions.create(
                model="rule", messages=asked, logprobs=True, top_logprobs=5
            )


def test_ours_is_in_the_list_beside_openais() -> None:
    with served(**SERVER) as client:
        content = client.get("/v1/models").json()
    assert [model["name"] for model in content["models"]] == ["rule"]
    with served() as client:
        assert set(client.get("/v1/models").json()) == {"models", "version"}


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with served(**SERVER) as client:
        reply = client.post("/v1/chat/completions", content=body)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
