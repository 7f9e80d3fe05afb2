"""Scores from the real engine: by handle, by HTTP, single, batch and streamed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import ray

from examples.demo import SAMPLES
from reward_serve import HttpRewardClient, RewardClient, ScoreResult, Status, __version__
from reward_serve.version import VERSION_HEADER
from reward_serve_answers import verify
from reward_serve_judge.weights import ADAPTER, adapter_digest

RIGHT = {"response": "9 * 2 = 18, so she earns 18 dollars.\n#### 18", "reference": "18"}
WRONG = {"response": "9 * 2 = 17, so she earns 17 dollars.\n#### 17", "reference": "18"}
# No marker, so no rule decides.
PROSE = {"response": "Nine eggs at two dollars make eighteen, or 18 in all", "reference": "18"}
ASKED = {**PROSE, "options": {"cache": False}}


def judged_by_model(result: ScoreResult) -> None:
    assert result.status is Status.OK, result.reason
    assert result.source == "judge"
    assert result.probabilities is not None
    assert abs(sum(result.probabilities.values()) - 1) < 1e-6
    assert result.score == float(max(result.probabilities, key=result.probabilities.__getitem__))
    assert result.usage.prompt_tokens > 50
    assert result.usage.completion_tokens == 1


def test_a_handle_scores_right_and_wrong(handle: RewardClient) -> None:
    assert handle.score(RIGHT).score == 1.0
    assert handle.score(WRONG).score == 0.0
    judged_by_model(handle.score(ASKED))


def test_http_scores_right_and_wrong(http: HttpRewardClient) -> None:
    assert http.score(RIGHT).score == 1.0
    assert http.score(WRONG).score == 0.0
    judged_by_model(http.score(ASKED))


def test_an_equal_question_is_asked_once(handle: RewardClient, http: HttpRewardClient) -> None:
    before = http.models()[0]["cache"]
    question = {"response": f"{PROSE['response']} ({before['misses']})", "reference": "18"}
    results = [*handle.score_batch([question] * 8), http.score(question)]
    after = http.models()[0]["cache"]

    assert [result.source for result in results] == ["judge", *["cache"] * 8]
    assert len({result.score for result in results}) == 1
    assert (after["misses"] - before["misses"], after["hits"] - before["hits"]) == (1, 8)


def test_both_ways_give_the_same_verdict(handle: RewardClient, http: HttpRewardClient) -> None:
    by_handle, by_http = handle.score(ASKED), http.score(ASKED)
    assert by_handle.label == by_http.label
    assert by_handle.fingerprint == by_http.fingerprint
    adapter = f"adapter={adapter_digest(ADAPTER)}"
    for part in ("weights=bundled", adapter, "final_answer@", "mode=label", "vllm-0.30.0"):
        assert part in (by_handle.fingerprint or "")


def test_the_trained_judge_is_right_where_rules_abstain(handle: RewardClient) -> None:
    lines = SAMPLES.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    asked = [r for r in rows if verify(r["response"], r["reference"]).outcome == "abstain"][::2]
    requests = [{key: row[key] for key in ("response", "reference")} for row in asked]
    results = handle.score_batch(requests)
    assert {result.source for result in results} == {"judge"}
    agreed = [result.score == row["correct"] for result, row in zip(results, asked, strict=True)]
    assert sum(agreed) / len(agreed) >= 0.94  # untrained, half


def test_a_batch_keeps_order_and_each_failure_to_its_own_item(http: HttpRewardClient) -> None:
    requests: list[dict[str, Any]] = [
        {**RIGHT, "id": "a"},
        {"response": "no reference here", "id": "b"},
        {**ASKED, "id": "c", "metadata": {"step": 3}},
        {**WRONG, "id": "d", "template": "no such template"},
        {**WRONG, "id": "e"},
    ]
    results = http.score_batch(requests)
    assert [result.id for result in results] == ["a", "b", "c", "d", "e"]
    assert [result.status.value for result in results] == ["ok", "invalid", "ok", "invalid", "ok"]
    assert results[2].metadata == {"step": 3}
    assert "reference" in (results[1].reason or "")
    assert "final_answer" in (results[3].reason or "")


def test_ndjson_streams_a_result_before_the_slowest_is_done(url: str) -> None:
    slow = {**ASKED, "options": {"mode": "generate", "max_tokens": 60}, "template": "solution"}
    body = {"requests": [slow, *([RIGHT] * 8), ASKED]}
    headers = {"accept": "application/x-ndjson"}
    lines = []
    with httpx.stream(
        "POST", f"{url}/v1/score/batch", json=body, headers=headers, timeout=120
    ) as reply:
        assert reply.headers["content-type"].startswith("application/x-ndjson")
        for line in reply.iter_lines():
            lines.append(json.loads(line))
    assert sorted(line["index"] for line in lines) == list(range(10))
    assert lines[-1]["index"] == 0
    assert all(line["score"] == 1.0 for line in lines if 1 <= line["index"] <= 8)


def test_generate_mode_gives_a_typed_status_and_the_text(handle: RewardClient) -> None:
    options = {"mode": "generate", "max_tokens": 12}
    result = handle.score({**ASKED, "template": "gsm8k_strict", "options": options})
    # GSM8K's strict rule would decide this one, were it not for the missing marker's guard.
    assert result.source == "rule"
    result = handle.score({**ASKED, "template": "solution", "options": options})
    assert result.text
    assert (result.score is None) is (result.status is not Status.OK)
    assert result.usage.completion_tokens <= 12


def test_a_group_shares_its_prefix(handle: RewardClient) -> None:
    request = {**ASKED, "template": "solution", "reference": "9 + 9 = 18\n" * 12 + "#### 18"}
    handle.score(request)
    again = handle.score({**request, "response": "It comes to eighteen, that is 18 in all"})
    assert again.usage.cached_tokens >= 96


def test_a_megabyte_of_response_is_judged_by_its_end_and_the_cut_is_reported(
    http: HttpRewardClient,
) -> None:
    result = http.score({"response": "blah " * 205_000 + "it is 18 in all", "reference": "18"})
    judged_by_model(result)
    cut = (result.details or {})["cut_response_characters"]
    assert isinstance(cut, int)
    assert cut > 900_000


def test_async_clients_score_many_at_once(http: HttpRewardClient, handle: RewardClient) -> None:
    async def both() -> list[ScoreResult]:
        calls = [client.ascore(RIGHT) for client in (http, handle) for _ in range(20)]
        return await asyncio.gather(*calls)

    assert {result.score for result in asyncio.run(both())} == {1.0}


def test_a_worker_of_the_cluster_finds_the_service_by_name(url: str) -> None:
    @ray.remote(num_cpus=0)
    def trainer() -> float | None:
        return RewardClient("reward").score({"response": "#### 18", "reference": "18"}).score

    assert ray.get(trainer.remote(), timeout=60) == 1.0


def test_models_health_ready_docs_and_version(url: str, http: HttpRewardClient) -> None:
    (model,) = http.models()
    assert model["name"] == "judge"
    assert model["kind"] == "judge"
    assert set(model["templates"]) >= {"final_answer", "solution", "gsm8k_strict"}
    assert model["ready"] is True
    assert model["engine"]["revision"].startswith("smollm2-135m-instruct-")
    assert {"model", "first verdict"} <= model["start_s"].keys()
    for path in ("/health", "/ready", "/docs", "/openapi.json"):
        reply = httpx.get(url + path)
        assert reply.status_code == 200
        assert reply.headers[VERSION_HEADER] == __version__
