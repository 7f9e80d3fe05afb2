"""What OpenRLHF and slime send, and what they make of the replies."""

from __future__ import annotations

import contextlib
import json
import math
import time
from typing import Any

import pytest
from fastapi import HTTPException

from reward_serve.http.remote_rewards import openrlhf_items, rewards_of, slime_items
from tests.fake_ingress import BEARER, KEYS, served

PROMPT = "<|im_start|>user\nWhat is 9 + 9?<|im_end|>\n<|im_start|>assistant\n"
BOTH = ["openrlhf", "slime"]


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


def test_openrlhf_gets_rewards_in_order() -> None:
    with served(compatible_with=BOTH) as client:
        reply = client.post("/get_reward", json=openrlhf(["#### 18", "#### 17"], ["18", "18"]))
    assert reply.status_code == 200
    assert reply.json() == {
        "rewards": [1.0, 0.0],
        "scores": [1.0, 0.0],
        "extra_logs": {"absent": [0.0, 0.0]},
    }


def test_slime_gets_a_number() -> None:
    with served(compatible_with=BOTH) as client:
        reply = client.post("/remote_rm", json=slime("#### 18", "18"))
    assert (reply.status_code, reply.json()) == (200, 1.0)


@pytest.mark.parametrize("path", ["/get_reward", "/remote_rm", "/v1/chat/completions"])
def test_the_paths_are_off_unless_the_deployment_says_so(path: str) -> None:
    with served() as client:
        assert client.post(path, json={}).status_code == 404


@pytest.mark.parametrize("path", ["/get_reward", "/remote_rm", "/v1/chat/completions"])
def test_the_paths_ask_for_a_key_where_the_others_do(path: str) -> None:
    with served(KEYS, compatible_with=[*BOTH, "openai"]) as client:
        assert client.post(path, json={}).status_code == 401
        assert client.post(path, json={}, headers=BEARER).status_code in (400, 422)


def test_an_absent_score_fails_the_request_and_is_no_zero() -> None:
    body = openrlhf(["#### 18", "perhaps 18"], ["18", "18"])
    with served(compatible_with=BOTH) as client:
        for path, content in (
            ("/get_reward", body),
            ("/remote_rm", slime("perhaps 18", "18")),
        ):
            reply = client.post(path, json=content)
            assert reply.status_code == 503
            assert "unparseable: the verifier abstains" in reply.json()["detail"]
            assert reply.headers["retry-after"] == "1"


def test_a_request_at_fault_is_never_worth_a_retry() -> None:
    with served(compatible_with=BOTH) as client:
        reply = client.post("/remote_rm", json=slime("#### 18", None))
    assert reply.status_code == 422
    assert "reference" in reply.json()["detail"]


def test_a_deployment_may_say_what_stands_for_an_absent_score() -> None:
    body = openrlhf(["#### 18", "perhaps 18"], ["18", "18"])
    with served(compatible_with=BOTH, absent_reward=-0.5) as client:
        content = client.post("/get_reward", json=body).json()
    assert content["rewards"] == [1.0, -0.5]
    assert content["extra_logs"] == {"absent": [0.0, 1.0]}


def test_the_url_says_which_model_judges() -> None:
    with served(compatible_with=BOTH, aliases={"verifier": "rule"}) as client:
        good = client.post("/remote_rm?model=verifier&timeout_s=5", json=slime("#### 18", "18"))
        unknown = client.post("/remote_rm?model=no", json=slime("#### 18", "18"))
        late = client.post("/remote_rm?timeout_s=soon", json=slime("#### 18", "18"))
    assert (good.status_code, good.json()) == (200, 1.0)
    assert (unknown.status_code, late.status_code) == (404, 422)
    assert "rule" in unknown.json()["detail"]


def test_more_samples_than_a_batch_takes_are_refused() -> None:
    with served(compatible_with=BOTH, max_batch_items=2) as client:
        reply = client.post("/get_reward", json=openrlhf(["1"] * 3, ["1"] * 3))
    assert reply.status_code == 413
    assert "3 items; the limit is server.max_batch_items: 2, so" in reply.json()["detail"]


ENDS = ["<|im_end|>", "</s></s>\n", "<|eot_id|>", "<|end\u2581of\u2581sentence|>", ""]
ENDS += ["<\uff5cend\u2581of\u2581sentence\uff5c>", "<|reserved_special_token_0|> <|END|>"]


@pytest.mark.parametrize("end", ENDS)
def test_the_response_is_what_follows_the_prompt_without_the_turns_end(end: str) -> None:
    body = {"query": [f"<|pad|><s>{PROMPT}#### 18{end}"], "prompts": [PROMPT], "labels": ["18"]}
    (item,) = openrlhf_items(body)
    assert item == {"response": "#### 18", "question": PROMPT, "reference": "18"}
    (sample,) = slime_items(slime(f"#### 18{end}", 18))
    assert (sample["response"], sample["reference"]) == ("#### 18", "18")


@pytest.mark.parametrize("text", ["18 \n", "a <|b|> c\n", "x < y", "</div>", ""])
def test_a_response_that_ends_in_no_token_stays_as_it_is(text: str) -> None:
    (item,) = slime_items(slime(text, "18"))
    assert item["response"] == text


LONG_PROMPT = "".join(f"[{n}] What is {n} + {n}? " for n in range(200)) + "[INST] Go on. [/INST]\n"


@pytest.mark.parametrize("kept", [60, 300, 3_000])
@pytest.mark.parametrize("response", ["#### 18", "\n\n#### 18", "[199] What is 199 + 199?", ""])
def test_a_prompt_that_was_cut_from_the_left_is_found(kept: int, response: str) -> None:
    cut = LONG_PROMPT[-kept:]
    for shown in (cut, " ".join(cut.split())):
        body = {"query": [f"<|pad|>{shown}{response}</s>"], "prompts": [LONG_PROMPT]}
        (item,) = openrlhf_items(body)
        assert (item["response"].strip(), item["question"]) == (response.strip(), LONG_PROMPT)


@pytest.mark.parametrize("query", [f"{LONG_PROMPT[-20:]}18", f"a{LONG_PROMPT[-300:]}18", "18"])
def test_a_query_with_too_little_of_its_prompt_is_refused(query: str) -> None:
    with pytest.raises(HTTPException, match="begins neither with it nor with its end"):
        openrlhf_items({"query": [query], "prompts": [LONG_PROMPT]})


@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        ("Count them.\n" + "one apple and two more pears in a bowl\n" * 6, 3 * 39),
        ("Fill in: " + "_" * 100, 60),
        ("Copy. " + "She sells sea shells by the sea shore. " * 20, 5 * 39),
    ],
)
def test_an_overlap_that_may_be_the_response_is_refused(prompt: str, kept: int) -> None:
    query = prompt[-kept:] + prompt[-39:] + "#### 18"
    with pytest.raises(HTTPException, match="in several ways"):
        openrlhf_items({"query": [query], "prompts": [prompt]})


def test_a_character_that_was_cut_does_not_hide_the_overlap() -> None:
    query = "\ufffd\ufffd" + LONG_PROMPT[-100:] + "#### 18"
    (item,) = openrlhf_items({"query": [query], "prompts": [LONG_PROMPT]})
    assert item["response"].strip() == "#### 18"


def test_a_cut_prompt_is_scored_over_http() -> None:
    with served(compatible_with=BOTH) as client:
        body = {
            "query": [LONG_PROMPT[-300:] + "#### 18"],
            "prompts": [LONG_PROMPT],
            "labels": ["18"],
        }
        reply = client.post("/get_reward", json=body)
    assert (reply.status_code, reply.json()["rewards"]) == (200, [1.0])


def test_a_prompt_that_the_response_repeats_is_no_second_beginning() -> None:
    prompt = "[INST] 9 + 9? [/INST]"
    query = f"<s>[INST] 9 + 9?  [/INST] It is 17. {prompt} #### 18</s>"
    (item,) = openrlhf_items({"query": [query], "prompts": [prompt]})
    assert item["response"] == f" It is 17. {prompt} #### 18"


HOSTILE = {
    "white space": " \n" * 500_000 + "x",
    "tokens": "</s>" * 250_000 + "x",
    "tokens at the end": "x" + "\n</s>" * 200_000,
    "half tokens": "<|" * 500_000,
    "words": "a " * 500_000,
    "one word": "a" * 1_000_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_take_time_that_grows_with_their_length_alone(text: str) -> None:
    began = time.process_time()
    slime_items(slime(text, "18"))
    for query, prompt in ((f"{text}18", text), (text, f"{text[:-2]}b"), (text, "a " * 5_000 + "b")):
        with contextlib.suppress(HTTPException):
            openrlhf_items({"query": [query], "prompts": [prompt]})
    assert time.process_time() - began < 5


@pytest.mark.parametrize("label", [{"answer": "18"}, True, ["18", None], [["18"]]])
def test_a_label_that_is_no_answer_is_refused(label: Any) -> None:
    with pytest.raises(HTTPException, match="must be text or a number"):
        slime_items(slime("18", label))


def test_a_prompt_that_was_decoded_with_other_white_space_is_found() -> None:
    body = {"query": ["<s> [INST] 9 + 9?  [/INST] 18</s>"], "prompts": ["[INST] 9 + 9? [/INST]"]}
    (item,) = openrlhf_items(body)
    assert item["response"] == " 18"


@pytest.mark.parametrize("label", [2**64, [-(2**70)], 10**30])
def test_a_label_whose_digits_json_would_lose_is_refused(label: Any) -> None:
    with served(compatible_with=BOTH) as client:
        reply = client.post("/remote_rm", json=slime("18", label))
        exact = client.post("/remote_rm", json=slime(f"#### {2**64 - 1}", 2**64 - 1))
    assert (reply.status_code, exact.json()) == (422, 1.0)
    assert "label: has a number of more than 64 bits; send it as text" in reply.json()["detail"]


@pytest.mark.parametrize("label", [None, math.nan, "", " "])
def test_a_missing_label_is_no_reference(label: Any) -> None:
    (one,) = openrlhf_items({"query": ["x"], "prompts": ["x"], "labels": [label]})
    (other,) = slime_items(slime("18", label))
    assert "reference" not in {**one, **other}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "query"),
        ({"query": "x", "prompts": ["x"]}, "query: must be a list of texts"),
        ({"query": ["x"]}, "prompts: must be a list of texts"),
        ({"query": ["x", "y"], "prompts": ["x"]}, "equal length"),
        ({"query": ["x"], "prompts": ["x"], "labels": "18"}, "equal length"),
        ({"query": ["x"], "prompts": ["another"]}, "prompts.0: query.0 begins neither"),
        ({"query": ["x"], "prompts": [""]}, "prompts.0: query.0 begins neither"),
        ({"query": ["x"], "prompts": ["x"], "labels": [{}]}, "labels.0: must be text"),
    ],
)
def test_what_is_at_fault_is_named(body: Any, message: str) -> None:
    with served(compatible_with=BOTH) as client:
        reply = client.post("/get_reward", content=json.dumps(body))
    assert reply.status_code == 422
    assert message in reply.json()["detail"]


def test_a_prompt_of_several_turns_is_a_conversation() -> None:
    turns = [{"role": "user", "content": "9 + 9?"}]
    assert slime_items(slime("18", ["18", 18.0], turns)) == [
        {"response": "18", "messages": turns, "reference": ["18", "18.0"]}
    ]


@pytest.mark.parametrize("seconds", ["0", "3601", "nan", "-1"])
def test_a_deadline_in_the_url_is_in_bounds(seconds: str) -> None:
    with served(compatible_with=BOTH, absent_reward=0.0) as client:
        reply = client.post(f"/remote_rm?timeout_s={seconds}", json=slime("#### 18", "18"))
    assert reply.status_code == 422
    assert "at most 3600" in reply.json()["detail"]


def test_no_number_stands_for_a_template_that_is_not_there() -> None:
    missing = {"status": "invalid", "score": None, "reason": "template: no template is named 'x'"}
    late = {"status": "timeout", "score": None, "reason": "timeout_s: 1 s passed"}
    of_composite = {
        **missing,
        "reason": "0 of 2 members have a score: judge: invalid: template: no",
    }
    for results in ([missing, missing], [late, missing], [of_composite]):
        with pytest.raises(HTTPException, match="422"):
            rewards_of(results, absent=0.0, template="x")
    assert rewards_of([late], absent=0.0, template="x") == [0.0]
