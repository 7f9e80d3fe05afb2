"""Bad input over HTTP: a 4xx that says what to do, never a 500, never a dead replica."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from reward_serve import HttpRewardClient, RewardClient

GOOD = {"response": "#### 18", "reference": "18"}


@pytest.fixture(autouse=True)
def _still_scores_afterwards(url: str) -> Any:
    yield
    with HttpRewardClient(url) as client:
        assert client.score(GOOD).score == 1.0


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        pytest.param(b"", 422, "body", id="empty body"),
        pytest.param(b"{", 422, "JSON", id="malformed JSON"),
        pytest.param(b"\xff\xfe", 422, "JSON", id="not UTF-8"),
        pytest.param(b"[]", 422, "body", id="a list"),
        pytest.param(b"null", 422, "body", id="null"),
        pytest.param(b"[" * 100_000, 422, "JSON", id="deeply nested"),
        pytest.param(b"{}", 422, "response", id="no response"),
        pytest.param(b'{"response": 3, "reference": "18"}', 422, "response", id="wrong type"),
        pytest.param(b'{"response": "18"}', 422, "reference", id="no reference"),
        pytest.param(b'{"response": "18", "reference": []}', 422, "reference", id="none of many"),
        pytest.param(b'{"response": "18", "reference": "  "}', 422, "reference", id="blank"),
        pytest.param(
            b'{"response": "\\ud800", "reference": "18"}', 422, "surrogate", id="lone surrogate"
        ),
        pytest.param(
            b'{"response": "18", "reference": "18", "template": "x"}',
            422,
            "final_answer",
            id="unknown template",
        ),
        pytest.param(
            b'{"response": "18", "reference": "18", "model": "x"}', 404, "judge", id="unknown model"
        ),
        pytest.param(
            b'{"response": "18", "reference": "18", "model": 7}', 404, "judge", id="model of 7"
        ),
        pytest.param(
            b'{"response": "18", "reference": "18", "timeout_s": NaN}', 422, "timeout_s", id="NaN"
        ),
        pytest.param(
            b'{"response": "18", "reference": "18", "timeout_s": -1}', 422, "timeout_s", id="past"
        ),
        pytest.param(
            b'{"response": "18", "reference": "18", "respnse": "x"}', 422, "respnse", id="typo"
        ),
        pytest.param(
            b'{"response": "18", "reference": "18", "options": {"mode": "x"}}',
            422,
            "options.mode",
            id="unknown mode",
        ),
    ],
)
def test_a_bad_request_is_refused_by_name(url: str, body: bytes, code: int, said: str) -> None:
    reply = httpx.post(f"{url}/v1/score", content=body, timeout=30)
    assert reply.status_code == code, reply.text
    assert said in reply.json()["detail"]


@pytest.mark.parametrize(
    "text",
    ["18\x00", "\x00", "\u200b", "18\ufeff", "\U0001f9ee" * 50],
    ids=["NUL at the end", "NUL", "zero width", "byte order mark", "emoji"],
)
def test_odd_but_valid_text_is_scored(http: HttpRewardClient, text: str) -> None:
    result = http.score({"response": f"{text} eggs make 18 in all", "reference": "18"})
    assert result.status == "ok"


def test_an_empty_response_earns_nothing_by_rule(http: HttpRewardClient) -> None:
    result = http.score({"response": "", "reference": "18"})
    assert (result.score, result.source) == (0.0, "rule")


def test_a_lone_surrogate_spoils_its_own_item_alone(url: str) -> None:
    body = (
        b'{"requests": [{"response": "#### 18", "reference": "18"},'
        b' {"response": "\\ud800", "reference": "18", "id": "\\udfff"}]}'
    )
    reply = httpx.post(f"{url}/v1/score/batch", content=body, timeout=30)
    assert reply.status_code == 200
    assert [result["status"] for result in reply.json()["results"]] == ["ok", "invalid"]


def test_a_batch_of_ten_thousand_is_refused_whole_and_a_client_splits_it(
    url: str, handle: RewardClient
) -> None:
    reply = httpx.post(f"{url}/v1/score/batch", json={"requests": [GOOD] * 10_000}, timeout=60)
    assert reply.status_code == 413
    assert "1024" in reply.json()["detail"]
    assert {result.score for result in handle.score_batch([GOOD] * 2_000)} == {1.0}


def test_a_body_over_the_limit_is_refused(url: str) -> None:
    body = b'{"response": "' + b"x" * (33 * 2**20) + b'"}'
    assert httpx.post(f"{url}/v1/score", content=body, timeout=60).status_code == 413


@pytest.mark.parametrize("body", [{}, {"requests": {}}, {"requests": None}, []], ids=str)
def test_an_invalid_batch_is_refused(url: str, body: Any) -> None:
    reply = httpx.post(f"{url}/v1/score/batch", json=body, timeout=30)
    assert reply.status_code == 422
    assert "requests" in reply.json()["detail"]


def test_items_that_are_no_objects_are_invalid(url: str) -> None:
    items: list[Any] = [3, None, "x", [], GOOD]
    reply = httpx.post(f"{url}/v1/score/batch", json={"requests": items}, timeout=30)
    statuses = [result["status"] for result in reply.json()["results"]]
    assert statuses == ["invalid"] * 4 + ["ok"]


def test_an_empty_batch_is_an_empty_answer(http: HttpRewardClient) -> None:
    assert http.score_batch([]) == []


@pytest.mark.parametrize(
    ("method", "path", "code"), [("GET", "/v1/score", 405), ("GET", "/x", 404)]
)
def test_other_routes_say_so_in_json(url: str, method: str, path: str, code: int) -> None:
    reply = httpx.request(method, url + path)
    assert reply.status_code == code
    assert "detail" in reply.json()
