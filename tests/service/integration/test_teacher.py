"""A teacher on the judge's engine: its numbers by each way in, alone and beside label requests."""

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

import httpx
import numpy as np
import pytest

from reward_serve import HttpRewardClient, RewardClient, Status
from reward_serve.logprobs import LogprobsResult
from reward_serve_judge.weights import ADAPTER, prepare_bundled
from tests.service.integration.applications import GATEWAY

NEAR = 2e-3  # of the same tokens in other steps, in int8
VOCABULARY = 49_152


def tokens(count: int, seed: int = 0) -> list[int]:
    rng = Random(seed)
    return [rng.randrange(32, VOCABULARY) for _ in range(count)]


def near(result: LogprobsResult, other: LogprobsResult | list[float]) -> None:
    values = other if isinstance(other, list) else other.logprobs
    np.testing.assert_allclose(result.logprobs, values, rtol=0, atol=NEAR)


def post(url: str, route: str, body: dict[str, Any], **query: str) -> Any:
    reply = httpx.post(f"{url}/{GATEWAY}/{route}", json=body, params=query, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_the_numbers_are_the_models(handle: RewardClient) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = prepare_bundled(adapter=ADAPTER)
    text = "Natalia sold 48 clips in April and half as many in May: 48 + 48 / 2 = 72 clips. " * 4
    ids = AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    with torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        rows = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1], -1)
    right = rows[range(len(ids) - 1), ids[1:]].numpy()
    (result,) = handle.logprobs([{"token_ids": ids, "top_k": 8}])
    # The judge may be served in int8: a shift by one token would be ten times as far.
    assert np.abs(result.logprobs - right).mean() < 0.2
    assert np.abs(result.logprobs[1:] - right[:-1]).mean() > 1
    assert (result.top_ids[:, 0] == rows.argmax(-1).numpy()).mean() > 0.9


def test_every_way_in_gives_the_same_numbers(
    url: str, handle: RewardClient, http: HttpRewardClient
) -> None:
    ids = tokens(80)
    (by_handle,) = handle.logprobs([{"token_ids": ids, "start": 60, "top_k": 4}])
    (by_http,) = http.logprobs([{"token_ids": ids, "start": 60, "top_k": 4}])
    assert (by_handle.status, by_handle.start, len(by_handle.logprobs)) == (Status.OK, 60, 20)
    near(by_http, by_handle)
    np.testing.assert_array_equal(by_http.top_ids, by_handle.top_ids)
    body: dict[str, Any] = {"model": "judge", "prompt": ids, "prompt_logprobs": 4, "max_tokens": 1}
    (choice,) = post(url, "v1/completions", body)["choices"]
    rows = [
        row[str(i)]["logprob"]
        for row, i in zip(choice["prompt_logprobs"][1:], ids[1:], strict=True)
    ]
    near(by_handle, rows[59:])
    body = {"input_ids": ids, "return_logprob": True, "logprob_start_len": 59}
    meta = post(url, "generate", body, model="judge")["meta_info"]
    values = [value for value, *_ in meta["input_token_logprobs"]]
    assert values[0] is None
    near(by_handle, values[1:])


def test_numbers_and_verdicts_of_one_engine_leave_each_other_alone(handle: RewardClient) -> None:
    sequences = [{"token_ids": tokens(150, seed), "top_k": k} for seed, k in enumerate([0, 8, 256])]
    pairs = [(f"It comes to {n} in all", str(n + n % 2)) for n in range(50, 62)]
    asked = [
        {"response": response, "reference": right, "options": {"cache": False}}
        for response, right in pairs
    ]
    alone = [handle.logprobs([sequence])[0] for sequence in sequences]
    verdicts = handle.score_batch(asked)

    async def together() -> tuple[list[LogprobsResult], list[Any]]:
        return await asyncio.gather(handle.alogprobs(sequences), handle.ascore_batch(asked))

    beside, scored = asyncio.run(together())
    for result, other in zip(beside, alone, strict=True):
        near(result, other)
        if result.top_k:
            np.testing.assert_allclose(result.top_logprobs, other.top_logprobs, rtol=0, atol=NEAR)
    for verdict, before in zip(scored, verdicts, strict=True):
        assert verdict.probabilities == pytest.approx(before.probabilities, abs=NEAR)


def test_a_groups_prompt_is_computed_once_and_no_number_is_of_the_cache(
    handle: RewardClient,
) -> None:
    prompt, responses = tokens(200, 7), [tokens(40, seed) for seed in (8, 9, 10)]
    responses.append(responses[0])  # all of it is in the cache
    group = [
        {"token_ids": prompt + response, "start": len(prompt), "group": "g"}
        for response in responses
    ]
    results = [handle.logprobs([request])[0] for request in group]
    cached = [result.usage.cached_tokens for result in results]
    assert cached == [0, 192, 192, 0]
    whole = handle.logprobs([{"token_ids": g["token_ids"], "start": 1} for g in group])
    for result, other in zip(results, whole, strict=True):
        near(result, other.logprobs[len(prompt) - 1 :].tolist())
    near(results[3], results[0])
    assert all(np.abs(a.logprobs - b.logprobs).max() > 1 for a, b in pairwise(results[:3]))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"token_ids": [5] * 2048}, "token_ids: 2048 tokens"),
        ({"token_ids": [5, VOCABULARY]}, f"token_ids: {VOCABULARY} is outside"),
        ({"token_ids": [5, 6], "start": 2}, "start: 2"),
        ({"token_ids": [5, 6], "model": "none"}, "none"),
    ],
)
def test_a_sequence_that_cannot_be_scored_has_a_reason_and_no_number(
    http: HttpRewardClient, handle: RewardClient, body: dict[str, Any], why: str
) -> None:
    for client in (http, handle):
        (result,) = client.logprobs([body])
        assert (result.status, result.logprobs) == (Status.INVALID, None)
        assert why in (result.reason or "")
