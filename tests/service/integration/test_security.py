"""An application with keys, deployed by `serve run`: who gets in, and what is shown."""

import json
from pathlib import Path

import httpx
import pytest
import ray
from ray import serve
from ray.serve.context import _get_global_client

from reward_serve import HttpRewardClient
from reward_serve.client import connect
from reward_serve.schema import Status
from tests.service.integration.applications import GUARDED, KEY_LIMIT
from tests.service.integration.conftest import OF_THE_FILE, OF_THE_VARIABLE, wait_for

WRONG = "wrong-key-0123456789abcdef"
GOOD = {"response": "#### 18", "reference": "18"}


@pytest.fixture(scope="module")
def guarded(url: str) -> str:
    """The URL of a rule that asks for keys."""
    return f"{url}/{GUARDED}"


def test_only_a_key_of_the_file_or_the_variable_opens(guarded: str) -> None:
    assert httpx.post(f"{guarded}/v1/score", json=GOOD).status_code == 401
    assert httpx.get(f"{guarded}/docs").status_code == 401
    assert httpx.get(f"{guarded}/health").json() == {"status": "ok"}
    with HttpRewardClient(guarded, WRONG) as client:
        result = client.score(GOOD)
        assert client.counters.snapshot()["retried"] == 0
    assert result.status is Status.INVALID
    assert "HTTP 401: Authorization" in str(result.reason)
    assert WRONG not in str(result.reason)
    for key in (OF_THE_FILE, OF_THE_VARIABLE):
        with HttpRewardClient(guarded, key) as client:
            assert [result.score for result in client.score_batch([GOOD] * KEY_LIMIT)] == [
                1.0
            ] * KEY_LIMIT
            assert client.models()[0]["name"] == "rule"


def test_no_key_is_in_what_serve_logs_and_shows(guarded: str) -> None:
    folder = Path(ray._private.worker._global_node.get_logs_dir_path())
    httpx.post(f"{guarded}/v1/score", json=GOOD, headers={"Authorization": f"Bearer {WRONG}"})
    client = connect(url=guarded, api_key=OF_THE_FILE)
    results = client.score_batch([GOOD] * (2 * KEY_LIMIT))  # refused, and split
    assert [result.score for result in results] == [1.0] * (2 * KEY_LIMIT)

    def logs() -> str:
        files = [file for file in folder.rglob("*") if file.is_file()]
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
        return "\n".join(texts)

    def are_written() -> bool:  # behind the replies
        return "v1/score 401" in (text := logs()) and "key 'trainer'" in text

    wait_for("the access log and a refusal", are_written, 60)
    details = _get_global_client().get_serve_details()
    everything = f"{serve.status()} {json.dumps(details, default=str)}" + logs()
    assert "max_concurrent_items_per_key" in everything  # the config, as Serve shows it
    for secret in (OF_THE_FILE, OF_THE_VARIABLE, WRONG, "Bearer"):
        assert secret not in everything
