"""An application with keys, deployed by `serve run`: who gets in, and what is shown."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from ray import serve
from ray.serve.context import _get_global_client

from reward_serve import HttpRewardClient
from reward_serve.client import connect
from reward_serve.schema import Status
from tests.service.integration.applications import GUARDED, KEY_LIMIT, UNREADABLE
from tests.service.integration.conftest import (
    OF_THE_FILE,
    OF_THE_VARIABLE,
    Deployed,
    status_of,
    wait_for,
)

WRONG = "wrong-key-0123456789abcdef"
GOOD = {"response": "#### 18", "reference": "18"}


@pytest.fixture(scope="module")
def guarded(url: str) -> str:
    """The URL of a rule that asks for keys."""
    return f"{url}/{GUARDED}"


def shown() -> str:
    """What Serve's status and the dashboard show."""
    details = _get_global_client().get_serve_details()
    return f"{serve.status()} {json.dumps(details, default=str)}"


@pytest.mark.parametrize("headers", [{}, {"Authorization": f"Bearer {WRONG}"}])
def test_no_key_and_a_wrong_key_are_401(guarded: str, headers: dict[str, str]) -> None:
    for path in ("/v1/score", "/v1/score/batch"):
        reply = httpx.post(guarded + path, json=GOOD, headers=headers)
        assert reply.status_code == 401
        assert "Authorization" in reply.json()["detail"]
    for path in ("/v1/models", "/docs", "/openapi.json"):
        assert httpx.get(guarded + path, headers=headers).status_code == 401
    assert httpx.get(f"{guarded}/health", headers=headers).json() == {"status": "ok"}
    serves_own = httpx.get(f"{guarded.removesuffix(GUARDED)}-/routes")
    assert serves_own.json()[f"/{GUARDED}"] == GUARDED


@pytest.mark.parametrize("key", [OF_THE_FILE, OF_THE_VARIABLE])
def test_a_key_of_the_file_or_the_variable_opens(guarded: str, key: str) -> None:
    with HttpRewardClient(guarded, key) as client:
        assert client.score(GOOD).score == 1.0
        assert [result.score for result in client.score_batch([GOOD] * KEY_LIMIT)] == [
            1.0
        ] * KEY_LIMIT
        assert client.models()[0]["name"] == "rule"
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/x-ndjson"}
    body = {"requests": [GOOD] * KEY_LIMIT}
    reply = httpx.post(f"{guarded}/v1/score/batch", json=body, headers=headers)
    assert len(reply.text.splitlines()) == KEY_LIMIT
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_client_without_the_key_gets_the_reason_and_does_not_retry(guarded: str) -> None:
    with HttpRewardClient(guarded, WRONG) as client:
        result = client.score(GOOD)
        assert client.counters.snapshot()["retried"] == 0
    assert result.status is Status.INVALID
    assert "HTTP 401: Authorization" in str(result.reason)
    assert WRONG not in str(result.reason)


def test_a_keys_own_limit_is_429_and_anothers_is_untouched(guarded: str) -> None:
    def ask(n: int) -> httpx.Response:
        headers = {"Authorization": f"Bearer {OF_THE_FILE}"}
        body = {"requests": [GOOD] * KEY_LIMIT}
        return client.post(f"{guarded}/v1/score/batch", json=body, headers=headers)

    with httpx.Client(timeout=30) as client, ThreadPoolExecutor(32) as pool:
        asked = pool.map(ask, range(96))
        with HttpRewardClient(guarded, OF_THE_VARIABLE) as other:
            assert [other.score(GOOD).score for _ in range(8)] == [1.0] * 8
        replies = list(asked)
    assert {reply.status_code for reply in replies} == {200, 429}
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert "max_concurrent_items_per_key" in refused.json()["detail"]


def test_a_trainers_client_splits_what_its_key_may_not_send_at_once(guarded: str) -> None:
    client = connect(url=guarded, api_key=OF_THE_FILE, max_attempts=10)
    assert [r.score for r in client.score_batch([GOOD] * (2 * KEY_LIMIT))] == [1.0] * (
        2 * KEY_LIMIT
    )


def test_no_key_is_in_what_serve_logs_and_shows(guarded: str, deployed: Deployed) -> None:
    httpx.post(f"{guarded}/v1/score", json=GOOD, headers={"Authorization": f"Bearer {WRONG}"})

    def logs() -> str:
        files = [file for file in deployed.folder.rglob("*") if file.is_file()]
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
        return "\n".join(texts)

    def are_written() -> bool:  # behind the replies
        return "v1/score 401" in (text := logs()) and "key 'trainer'" in text

    wait_for("the access log and a refusal", are_written, 60)
    everything = shown() + logs()
    assert "max_concurrent_items_per_key" in everything  # the config, as Serve shows it
    for secret in (OF_THE_FILE, OF_THE_VARIABLE, WRONG, "Bearer"):
        assert secret not in everything


def test_unreadable_keys_fail_the_deployment_with_the_reason(url: str) -> None:
    assert status_of(UNREADABLE) == "DEPLOY_FAILED"
    assert "server.api_keys_file: '/nowhere/keys': No such file or directory" in shown()
