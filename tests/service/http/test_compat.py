"""What OpenAI's client, OpenRLHF and slime send, and what they make of the replies."""

import contextlib
import json
import math
from typing import Any

import pytest
from fastapi import HTTPException
from openai import BadRequestError, NotFoundError, OpenAI

from reward_serve.http.compat import openrlhf_items, rewards_of, slime_item
from tests.fake_ingress import served
from tests.rows import rows
from tests.unit.reward_models.test_chat import RECORDED

SERVER: dict[str, Any] = {"compatible_with": ["openai"], "aliases": {"Qwen/Qwen3-32B": "rule"}}
BOTH = ["openrlhf", "slime"]
PROMPT = "<|im_start|>user\nWhat is 9 + 9?<|im_end|>\n<|im_start|>assistant\n"


def openrlhf(answers: list[str], labels: list[Any]) -> dict[str, Any]:
    """The body of ``openrlhf.utils.remote_rm_utils``: queries decoded with special tokens."""
    return {
        "query": [f"{PROMPT}{answer}<|im_end|>" for answer in answers],
        "prompts": [PROMPT] * len(answers),
        "labels": labels,
    }


def slime(response: str, label: Any, prompt: Any = PROMPT) -> dict[str, Any]:
    """The body of ``slime.rollout.rm_hub.remote_rm``."""
    return {"prompt": prompt, "response": response, "label": label}


def test_the_paths_are_off_unless_the_deployment_says_so() -> None:
    for path in ("/get_reward", "/remote_rm", "/v1/chat/completions"):
        assert served().post(path, json={}).status_code == 404


def test_the_client_of_a_remote_judge_works_unchanged() -> None:
    reply = served(**SERVER).post("/v1/chat/completions", json=RECORDED)
    assert reply.status_code == 200
    content = reply.json()
    assert content["choices"][0]["message"]["content"] == RECORDED["messages"][0]["content"]
    assert (content["model"], content["object"]) == ("Qwen/Qwen3-32B", "chat.completion")
    assert content["usage"]["total_tokens"] == 7
    reply = served(**SERVER).post("/v1/chat/completions", content=b"[]")
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


def test_openais_own_client_understands_answers_refusals_and_the_list() -> None:
    with served(**SERVER) as transport:
        client = OpenAI(api_key="none", base_url="http://testserver/v1", http_client=transport)
        asked: list[Any] = [{"role": "user", "content": "Which?"}]
        content = client.chat.completions.create(model="rule", messages=asked)
        (choice,) = content.choices
        assert (choice.message.content, choice.finish_reason) == ("Which?", "stop")
        assert [model.id for model in client.models.list()] == ["rule", "Qwen/Qwen3-32B"]
        with pytest.raises(NotFoundError, match="no model is named 'gpt-4o'"):
            client.chat.completions.create(model="gpt-4o", messages=asked)
        with pytest.raises(BadRequestError, match="logprobs: is not supported"):
            client.chat.completions.create(
                model="rule", messages=asked, logprobs=True, top_logprobs=5
            )
        ours = transport.get("/v1/models").json()["models"]
    assert [model["name"] for model in ours] == ["rule"]
    assert set(served().get("/v1/models").json()) == {"models", "version"}


def test_openrlhf_gets_rewards_in_order_and_slime_a_number() -> None:
    with served(compatible_with=BOTH, max_batch_items=2) as client:
        body = openrlhf(["#### 18", "#### 17"], ["18", "18"])
        assert client.post("/get_reward", json=body).json() == {
            "rewards": [1.0, 0.0],
            "scores": [1.0, 0.0],
            "extra_logs": {"absent": [0.0, 0.0]},
        }
        reply = client.post("/remote_rm", json=slime("#### 18", "18"))
        too_many = client.post("/get_reward", json=openrlhf(["1"] * 3, ["1"] * 3))
    assert (reply.status_code, reply.json()) == (200, 1.0)
    assert too_many.status_code == 413


def test_an_absent_score_fails_the_request_unless_the_deployment_has_a_number_for_it() -> None:
    body = openrlhf(["#### 18", "perhaps 18"], ["18", "18"])
    with served(compatible_with=BOTH) as client:
        for path, content in (("/get_reward", body), ("/remote_rm", slime("perhaps 18", "18"))):
            reply = client.post(path, json=content)
            assert reply.status_code == 422  # a retry changes nothing
            assert "unparseable: the verifier abstains" in reply.json()["detail"]
        at_fault = client.post("/remote_rm", json=slime("#### 18", None))
    assert at_fault.status_code == 422  # never worth a retry
    assert "reference" in at_fault.json()["detail"]
    content = served(compatible_with=BOTH, absent_reward=-0.5).post("/get_reward", json=body).json()
    assert content["rewards"] == [1.0, -0.5]
    assert content["extra_logs"] == {"absent": [0.0, 1.0]}


def test_the_url_says_which_model_judges_and_how_long() -> None:
    body = slime("#### 18", "18")
    server: dict[str, Any] = {"aliases": {"verifier": "rule"}, "absent_reward": 0.0}
    with served(compatible_with=BOTH, **server) as client:
        good = client.post("/remote_rm?model=verifier&timeout_s=5", json=body)
        unknown = client.post("/remote_rm?model=no", json=body)
        assert (good.status_code, good.json()) == (200, 1.0)
        assert unknown.status_code == 404
        assert "rule" in unknown.json()["detail"]
        for seconds in ("soon", "0", "3601", "nan", "-1"):
            late = client.post(f"/remote_rm?timeout_s={seconds}", json=body)
            assert late.status_code == 422
            assert "at most 3600" in late.json()["detail"]


def test_no_number_stands_for_a_template_that_is_not_there() -> None:
    missing = {"status": "invalid", "score": None, "reason": "template: no template is named 'x'"}
    late = {"status": "timeout", "score": None, "reason": "timeout_s: 1 s passed"}
    member = {**missing, "reason": "0 of 2 members have a score: judge: invalid: template: no"}
    for results in ([missing, missing], [late, missing], [member]):
        with pytest.raises(HTTPException, match="422"):
            rewards_of(results, absent=0.0, template="x")
    assert rewards_of([late], absent=0.0, template="x") == [0.0]


@pytest.mark.parametrize("status", ["timeout", "overloaded", "error"])
def test_what_a_retry_may_score_is_asked_for_again(status: str) -> None:
    passing = {"status": status, "score": None, "reason": "busy", "details": None}
    absent = {"status": "unparseable", "score": None, "reason": "no verdict", "details": None}
    with pytest.raises(HTTPException) as refused:
        rewards_of([absent, passing], absent=None)
    assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "1"})


@pytest.mark.parametrize("end", rows(__file__, "ends"))
def test_the_response_is_what_follows_the_prompt_without_the_turns_end(end: str) -> None:
    body = {"query": [f"<|pad|><s>{PROMPT}#### 18{end}"], "prompts": [PROMPT], "labels": ["18"]}
    (item,) = openrlhf_items(body)
    assert item == {"response": "#### 18", "question": PROMPT, "reference": "18"}
    sample = slime_item(slime(f"#### 18{end}", 18))
    assert (sample["response"], sample["reference"]) == ("#### 18", "18")
    for text in ("18 \n", "a <|b|> c\n", "</div>"):  # which end in no token
        assert slime_item(slime(text, "18"))["response"] == text


def test_a_prompt_of_several_turns_is_a_conversation() -> None:
    turns = [{"role": "user", "content": "9 + 9?"}]
    item = slime_item(slime("18", ["18", 18.0], turns))
    assert item == {"response": "18", "messages": turns, "reference": ["18", "18.0"]}


def test_a_prompt_that_was_decoded_with_other_white_space_is_found_and_only_once() -> None:
    prompt = "[INST] 9 + 9? [/INST]"
    for response in (" 18", f" It is 17. {prompt} #### 18"):
        query = f"<s> [INST] 9 + 9?  [/INST]{response}</s>"
        (item,) = openrlhf_items({"query": [query], "prompts": [prompt]})
        assert item["response"] == response


HOSTILE = {
    "white space": " \n" * 500_000 + "x",
    "tokens at the end": "x" + "\n</s>" * 200_000,
    "words": "a " * 500_000,
}


@pytest.mark.timeout(60)  # of hours, if it grew with the square
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_take_time_that_grows_with_their_length_alone(text: str) -> None:
    slime_item(slime(text, "18"))
    for query, prompt in ((f"{text}18", text), (text, f"{text[:-2]}b")):
        with contextlib.suppress(HTTPException):
            openrlhf_items({"query": [query], "prompts": [prompt]})


def test_a_missing_label_is_no_reference() -> None:
    for label in (None, math.nan, "", " "):
        (item,) = openrlhf_items({"query": ["x"], "prompts": ["x"], "labels": [label]})
        assert "reference" not in {**item, **slime_item(slime("18", label))}


@pytest.mark.parametrize(("label", "message"), rows(__file__, "labels"))
def test_a_label_without_an_answer_or_in_lossy_digits_is_refused(label: Any, message: str) -> None:
    reply = served(compatible_with=BOTH).post("/remote_rm", json=slime("18", label))
    assert reply.status_code == 422
    assert message in reply.json()["detail"]


@pytest.mark.parametrize(("body", "message"), rows(__file__, "faults"))
def test_what_is_at_fault_is_named(body: Any, message: str) -> None:
    reply = served(compatible_with=BOTH).post("/get_reward", content=json.dumps(body))
    assert reply.status_code == 422
    assert message in reply.json()["detail"]
