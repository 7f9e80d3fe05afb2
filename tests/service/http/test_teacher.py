"""A teacher over HTTP: its own route, and what vLLM's and SGLang's clients send and read."""

from typing import Any

import numpy as np
import pytest
from openai import OpenAI

from tests.fake_ingress import served
from tests.fake_teacher import FakeTeacherEngine, expected, teacher
from tests.rows import rows

IDS = [5, 7, 11, 13, 17]
BOTH: dict[str, Any] = {"compatible_with": ["openai", "sglang"], "aliases": {"org/teacher": "rule"}}


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_the_services_own_route_has_lists_or_base64(encoding: str) -> None:
    with served(model=teacher()) as client:
        body = {"token_ids": IDS, "start": 2, "top_k": 1, "encoding_format": encoding}
        reply = client.post("/v1/logprobs", json=body)
    assert reply.status_code == 200
    content = reply.json()
    assert set(content) >= {"id", "status", "reason", "logprobs", "top_ids", "usage", "details"}
    if encoding == "float":
        assert content["logprobs"] == pytest.approx(expected(IDS)[1:].tolist())
        assert content["top_ids"] == [[11], [13], [17]]
    else:
        assert len(content["logprobs"]) == 16


def test_a_failure_has_its_status_code_and_no_array() -> None:
    with served(model=teacher()) as client:
        reply = client.post("/v1/logprobs", json={"token_ids": [1] * 65})
        late = client.post("/v1/logprobs", json={"token_ids": IDS, "model": "other"})
    assert (reply.status_code, late.status_code) == (422, 404)
    assert "65 tokens with the prompt; the limit is 64" in reply.json()["detail"]
    assert reply.json()["logprobs"] is None


def test_each_prompt_of_a_list_is_answered_in_its_place() -> None:
    engine = FakeTeacherEngine()
    with served(model=teacher(engine), **BOTH) as client:
        body = {"model": "org/teacher", "prompt": [[n, 9, 9] for n in range(5)], "max_tokens": 1}
        reply = client.post("/v1/completions", json={**body, "prompt_logprobs": 8, "n": 2})
    content = reply.json()
    assert (reply.status_code, content["model"]) == (200, "org/teacher")
    assert [choice["index"] for choice in content["choices"]] == [*range(10)]
    firsts = [choice["prompt_logprobs"][1] for choice in content["choices"]]
    assert firsts == [n for n in range(5) for _ in range(2)]
    usage = {"prompt_tokens": 15, "completion_tokens": 10, "total_tokens": 25}
    assert content["usage"] == usage
    assert all(asked["prompt_logprobs"] == 8 for asked in engine.completed)


def test_openais_own_client_completes_text() -> None:
    engine = FakeTeacherEngine()
    with served(model=teacher(engine), **BOTH) as transport:
        client = OpenAI(api_key="none", base_url="http://testserver/v1", http_client=transport)
        reply = client.completions.create(model="rule", prompt="The sky", max_tokens=1, seed=2**62)
        assert "org/teacher" in [model.id for model in client.models.list()]
    assert reply.choices[0].text == "x"
    assert (engine.completed[0]["prompt"], engine.completed[0]["seed"]) == ("The sky", 2**62)


@pytest.mark.parametrize(("body", "why"), rows(__file__, "refused_completions"))
def test_what_vllm_would_do_wrong_is_refused(body: Any, why: str) -> None:
    engine = FakeTeacherEngine()
    with served(model=teacher(engine), **BOTH) as client:
        reply = client.post("/v1/completions", json={"prompt": IDS, "max_tokens": 1, **body})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert why in reply.json()["error"]["message"]
    assert not engine.completed


def test_one_prompt_that_fails_fails_the_request() -> None:
    with served(model=teacher(), **BOTH) as client:
        body = {"prompt": [IDS, [1, -1]], "max_tokens": 1, "prompt_logprobs": 0}
        reply = client.post("/v1/completions", json=body)
    assert reply.status_code == 400
    assert "choices" not in reply.json()


PRIME_RL: dict[str, Any] = {
    "token_ids": IDS,
    "sampling_params": {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "prompt_logprobs": 1},
}
"""What prime-rl's ``utils/client.py`` posts."""


def test_vllms_clients_of_tokens_read_the_prompts_log_probabilities_of_the_whole() -> None:
    engine = FakeTeacherEngine()
    with served(model=teacher(engine), **BOTH) as client:
        reply = client.post("/inference/v1/generate", json={**PRIME_RL, "model": "org/teacher"})
    content = reply.json()
    assert (reply.status_code, content["model"]) == (200, "org/teacher")
    assert content["prompt_logprobs"] == [None, 5, 5, 5, 5]
    assert content["choices"] == [{"index": 0, "finish_reason": "length", "token_ids": [0]}]
    asked = engine.completed[0]
    assert (asked["prompt"], asked["prompt_logprobs"], asked["max_tokens"]) == (IDS, 1, 1)


@pytest.mark.parametrize(("body", "why"), rows(__file__, "refused_tokens"))
def test_vllms_clients_of_tokens_get_an_error(body: Any, why: str) -> None:
    with served(model=teacher(), **BOTH) as client:
        reply = client.post("/inference/v1/generate", json={**PRIME_RL, **body})
    assert reply.status_code == 400
    assert why in reply.json()["detail"]
    assert "prompt_logprobs" not in reply.json()


SLIME: dict[str, Any] = {
    "input_ids": IDS,
    "sampling_params": {"temperature": 0, "max_new_tokens": 0, "skip_special_tokens": False},
    "return_logprob": True,
    "logprob_start_len": 0,
}
"""What slime's ``rollout/on_policy_distillation.py`` posts."""


@pytest.mark.parametrize("start", [0, 2])
def test_sglangs_clients_read_pairs_of_value_and_id(start: int) -> None:
    with served(model=teacher(), **BOTH) as client:
        body = {**SLIME, "logprob_start_len": start, "top_logprobs_num": 2}
        reply = client.post("/generate?model=org/teacher&timeout_s=5", json=body)
    about = reply.json()["meta_info"]
    values, ids, _ = zip(*about["input_token_logprobs"], strict=True)
    assert (values[0], ids) == (None, tuple(IDS[start:]))
    np.testing.assert_allclose(values[1:], expected(IDS)[start:])
    assert [[i for _, i, _ in row] for row in about["input_top_logprobs"][1:]] == [
        [i, i + 1] for i in IDS[start + 1 :]
    ]
    assert (about["prompt_tokens"], about["completion_tokens"]) == (5, 0)


@pytest.mark.parametrize(("body", "code", "why"), rows(__file__, "refused_generation"))
def test_sglangs_clients_get_an_error_and_never_a_part(body: Any, code: int, why: str) -> None:
    with served(model=teacher(), **BOTH) as client:
        reply = client.post("/generate", json={**SLIME, **body})
    assert reply.status_code == code
    assert why in reply.json()["detail"]
    assert "meta_info" not in reply.json()


def test_the_paths_are_off_unless_the_deployment_says_so() -> None:
    for path in ("/generate", "/v1/completions", "/inference/v1/generate"):
        assert served(model=teacher()).post(path, json={}).status_code == 404
