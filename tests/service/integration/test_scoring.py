"""Scores from the real engine: by handle, by HTTP, single, batch and streamed; and explanations."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest

from examples.demo import SAMPLES
from reward_serve import HttpRewardClient, RewardClient, ScoreResult, Status, __version__
from reward_serve.client import connect
from reward_serve.schema import MAX_ITEM_BYTES, MAX_METADATA_BYTES
from reward_serve.version import VERSION_HEADER
from reward_serve_answers import verify
from reward_serve_judge.weights import ADAPTER, adapter_digest
from tests.service.integration.applications import GATEWAY, SEVERAL

RIGHT = {"response": "9 * 2 = 18, so she earns 18 dollars.\n#### 18", "reference": "18"}
WRONG = {"response": "9 * 2 = 17, so she earns 17 dollars.\n#### 17", "reference": "18"}
# No marker, so no rule decides.
PROSE = {"response": "It comes to eighteen.", "reference": "18"}
ASKED = {**PROSE, "options": {"cache": False}}
NDJSON = {"accept": "application/x-ndjson"}


def judged_by_model(result: ScoreResult) -> None:
    assert result.status is Status.OK, result.reason
    assert result.source == "judge"
    assert result.probabilities is not None
    assert abs(sum(result.probabilities.values()) - 1) < 1e-6
    assert result.score == float(max(result.probabilities, key=result.probabilities.__getitem__))
    assert result.usage.prompt_tokens > 50
    assert result.usage.completion_tokens == 1


def test_both_score_right_and_wrong_alike(http: HttpRewardClient, handle: RewardClient) -> None:
    verdicts = []
    for client in (http, handle):
        assert client.score(RIGHT).score == 1.0
        assert client.score(WRONG).score == 0.0
        verdicts.append(client.score(ASKED))
        judged_by_model(verdicts[-1])
    by_http, by_handle = verdicts
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
    pairs = zip(results, asked, strict=True)
    decided = [(result, row) for result, row in pairs if result.status != "unparseable"]
    assert len(decided) >= 0.9 * len(asked)  # the others are below judge.min_probability
    assert {result.source for result, _ in decided} == {"judge"}
    agreed = [result.score == row["correct"] for result, row in decided]
    assert sum(agreed) / len(agreed) >= 0.94  # untrained, half


def test_generate_mode_gives_status_and_text_and_a_group_its_prefix(handle: RewardClient) -> None:
    options = {"mode": "generate", "max_tokens": 12}
    reference = "9 + 9 = 18\n" * 12 + "#### 18"
    request = {**ASKED, "template": "solution", "reference": reference, "options": options}
    first = handle.score(request)
    again = handle.score({**request, "response": "It comes to eighteen, that is 18 in all"})
    for result in (first, again):
        assert result.text
        assert (result.score is None) is (result.status is not Status.OK)
        assert result.usage.completion_tokens <= 12
    assert again.usage.cached_tokens >= 96


def test_a_reason_is_of_the_judges_text_and_a_critique_not_made_up(http: HttpRewardClient) -> None:
    asked = {"question": "9 + 9?", "template": "critique", "options": {"max_tokens": 12}}
    result = http.score({**ASKED, **asked})  # the bundled judge writes none
    assert result.text and result.template == "critique"
    assert result.status is not Status.OK or (result.reason or "") in result.text
    assert "critique" not in result.model_dump()


def test_a_group_is_judged_in_both_ways(http: HttpRewardClient, handle: RewardClient) -> None:
    asked = {"question": "9 + 9?", "responses": ["18.", "17.", "Hm."], "strategy": "all_pairs"}
    for client in (http, handle):
        group = client.score_group(asked)
        assert [result.status for result in group.results] == [Status.OK] * 3
        pairs = [(pair.a, pair.b) for pair in group.comparisons]
        assert pairs == [(0, 1), (0, 2), (1, 2)]
        for pair in group.comparisons:
            assert pair.forward is not None and pair.backward is not None
            assert pair.probability == pytest.approx((pair.forward + 1 - pair.backward) / 2)


def test_the_longest_response_is_judged_by_its_end_and_cut_is_said(http: HttpRewardClient) -> None:
    ending = "it is 18 in all"
    response = "blah " * ((MAX_ITEM_BYTES - 20) // 5) + ending
    result = http.score({"response": response, "reference": "18"})
    judged_by_model(result)
    cut = (result.details or {})["cut_response_characters"]
    assert isinstance(cut, int)
    assert cut > 900_000
    longer = http.score({"response": response + "." * 9, "reference": "18"})
    assert (longer.status, longer.score) == (Status.INVALID, None)
    assert "max_item_bytes" in str(longer.reason)


def test_models_health_ready_docs_and_version(url: str, http: HttpRewardClient) -> None:
    (model,) = http.models()
    assert (model["name"], model["kind"], model["ready"]) == ("judge", "judge", True)
    assert set(model["templates"]) >= {"final_answer", "solution", "gsm8k_strict"}
    assert model["engine"]["revision"].startswith("smollm2-135m-instruct-")
    assert {"model", "first verdict"} <= model["start_s"].keys()
    for path in ("/health", "/ready", "/docs", "/openapi.json"):
        reply = httpx.get(url + path)
        assert reply.status_code == 200
        assert reply.headers[VERSION_HEADER] == __version__


def test_a_verdict_is_explained_in_both_ways(http: HttpRewardClient, handle: RewardClient) -> None:
    asked = {"response": "She makes eighteen dollars in all", "reference": "18", "id": "a"}
    explanation = http.explain(asked)
    (prompt,) = explanation.prompts
    text = prompt.text or ""
    assert (explanation.result.score, explanation.result.id) == (http.score(asked).score, "a")
    assert explanation.model is not None
    assert explanation.model.usage.prompt_tokens == prompt.token_count
    (place,) = [field for field in prompt.fields if field.field == "response"]
    assert text[place.start : place.end] == "She makes 18 dollars in all", "canonical numerals"
    by_handle = handle.explain(asked)
    assert (by_handle.cached, by_handle.prompts[0].text) == (True, text)

    by_rule = http.explain({**asked, "response": "9 * 2 = 18\n#### 18"})
    assert by_rule.rule is not None and by_rule.rule.span is not None
    assert by_rule.model is not None
    assert (by_rule.rule.span.start, by_rule.rule.span.end) == (16, 18)
    sources = [(result.source, result.score) for result in (by_rule.result, by_rule.model)]
    assert sources == [("rule", 1.0), ("judge", 1.0)]


# Long rollouts, whose batch no message of Serve holds, by every way there is.
MODEL = {"model": SEVERAL}
LONG = "So far, so good.\n" * 9_412  # 160 KB
BATCH = [
    {"id": str(n), "response": f"{LONG}#### {n}", "reference": "3", "group": str(n // 8), **MODEL}
    for n in range(64)
]
Ask = Callable[[list[dict[str, Any]]], list[ScoreResult]]
ONE_RIGHT = [float(n == 3) for n in range(64)]


def streamed(url: str, items: list[dict[str, Any]]) -> list[ScoreResult]:
    body = {"requests": items}
    reply = httpx.post(f"{url}/v1/score/batch", json=body, headers=NDJSON, timeout=60)
    lines = sorted(map(json.loads, reply.text.splitlines()), key=lambda line: line.pop("index"))
    return list(map(ScoreResult.model_validate, lines))


@pytest.mark.timeout(180)
def test_a_batch_of_ten_megabytes_is_scored_in_every_way(url: str) -> None:
    noted = [{**item, "metadata": {"note": "é" * (MAX_METADATA_BYTES // 2 - 16)}} for item in BATCH]
    ways: dict[str, Ask] = {
        "by handle": RewardClient(SEVERAL).score_batch,
        "by handle, through the gateway": RewardClient(GATEWAY).score_batch,
        "over HTTP": HttpRewardClient(f"{url}/{SEVERAL}", timeout_s=60).score_batch,
        "through the gateway": HttpRewardClient(f"{url}/{GATEWAY}", timeout_s=60).score_batch,
        "streamed": partial(streamed, f"{url}/{SEVERAL}"),
    }
    for name, ask in ways.items():
        results = ask(noted)
        assert [result.score for result in results] == ONE_RIGHT, (name, results[0])
        assert [result.id for result in results] == [item["id"] for item in BATCH], name
        assert all(result.metadata == noted[0]["metadata"] for result in results), name


@pytest.mark.timeout(60)
def test_a_body_over_the_limit_is_a_413_and_the_trainers_client_splits_it(url: str) -> None:
    several = f"{url}/{SEVERAL}"
    items = [{**item, "response": item["response"] * 2} for item in BATCH]  # 20 MB
    reply = httpx.post(f"{several}/v1/score/batch", json={"requests": items}, timeout=60)
    assert reply.status_code == 413
    assert "split the batch" in reply.json()["detail"]
    results = connect(url=several, on_failure="none", timeout_s=50).score_batch(items)
    assert [result.score for result in results] == ONE_RIGHT
