"""`serve run` of a file with keys, on a cluster of its own: who gets in, and what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from reward_serve import HttpRewardClient
from reward_serve.client import connect
from reward_serve.schema import Status
from tests.fake_service import free_port
from tests.integration.conftest import wait_for

OF_THE_FILE = "key-of-the-file-0123456789"
OF_THE_VARIABLE = "key-of-the-variable-0123456789"
WRONG = "wrong-key-0123456789abcdef"
GOOD = {"response": "#### 18", "reference": "18"}
LIMIT = 4

CLUSTER = """
import ray, sys
ray.init(
    address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
    logging_level="error", _temp_dir=sys.argv[1],
)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
SHOWN = """
import json, ray, sys
from ray import serve
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
from ray.serve.context import _get_global_client
print(serve.status(), json.dumps(_get_global_client().get_serve_details(), default=str))
"""


@dataclass(frozen=True)
class Deployed:
    url: str
    address: str
    folder: Path

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False, timeout=120
        )
        return done.stdout + done.stderr

    def serve_run(self, **server: Any) -> str:
        """What ``serve run`` says of a rule behind this server; it need not know the keys."""
        file = config_file(self.folder, int(self.url.rpartition(":")[2]), **server)
        command = ("-m", "ray.serve.scripts", "run", "--non-blocking", "--address", self.address)
        return self.run(*command, str(file))

    def shown(self) -> str:
        """What Serve's status and the dashboard show."""
        return self.run("-c", SHOWN, self.address)

    def logs(self) -> str:
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
        return "\n".join(texts)


def config_file(folder: Path, port: int, **server: Any) -> Path:
    application = {
        "name": "guarded",
        "route_prefix": "/",
        "import_path": "reward_serve.app:build_app",
        "args": {"models": [{"name": "rule", "kind": "rule"}], "server": server},
    }
    config = {
        "proxy_location": "HeadOnly",
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [application],
    }
    path = folder / f"serve-{len(list(folder.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    secrets = tmp_path_factory.mktemp("secrets") / "keys"
    secrets.touch(mode=0o600)
    secrets.write_text(f"trainer: {OF_THE_FILE}\n", encoding="utf-8")
    env = os.environ | {"REWARD_SERVE_API_KEYS": f"other={OF_THE_VARIABLE}"}
    with (
        tempfile.TemporaryDirectory(prefix="rs", dir="/tmp", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER, folder],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as cluster,
    ):  # fmt: skip
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        deployed = Deployed(f"http://127.0.0.1:{free_port()}", address, Path(folder))
        said = deployed.serve_run(
            api_keys_file=str(secrets),
            api_keys_env="REWARD_SERVE_API_KEYS",
            max_concurrent_items_per_key=LIMIT,
        )
        with HttpRewardClient(deployed.url) as client:  # a probe needs no key
            wait_for(f"ready; serve run said {said}", client.is_ready, 120)
        yield deployed
        cluster.communicate(timeout=60)  # the end of its input ends it


@pytest.mark.parametrize("headers", [{}, {"Authorization": f"Bearer {WRONG}"}])
def test_no_key_and_a_wrong_key_are_401(deployed: Deployed, headers: dict[str, str]) -> None:
    for path in ("/v1/score", "/v1/score/batch"):
        reply = httpx.post(deployed.url + path, json=GOOD, headers=headers)
        assert reply.status_code == 401
        assert "Authorization" in reply.json()["detail"]
    for path in ("/v1/models", "/docs", "/openapi.json"):
        assert httpx.get(deployed.url + path, headers=headers).status_code == 401
    assert httpx.get(f"{deployed.url}/health", headers=headers).json() == {"status": "ok"}
    assert httpx.get(f"{deployed.url}/-/routes").json() == {"/": "guarded"}  # Serve's own


@pytest.mark.parametrize("key", [OF_THE_FILE, OF_THE_VARIABLE])
def test_a_key_of_the_file_or_the_variable_opens(deployed: Deployed, key: str) -> None:
    with HttpRewardClient(deployed.url, key) as client:
        assert client.score(GOOD).score == 1.0
        assert [result.score for result in client.score_batch([GOOD] * LIMIT)] == [1.0] * LIMIT
        assert client.models()[0]["name"] == "rule"
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/x-ndjson"}
    body = {"requests": [GOOD] * LIMIT}
    reply = httpx.post(f"{deployed.url}/v1/score/batch", json=body, headers=headers)
    assert len(reply.text.splitlines()) == LIMIT
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_client_without_the_key_gets_the_reason_and_does_not_retry(deployed: Deployed) -> None:
    with HttpRewardClient(deployed.url, WRONG) as client:
        result = client.score(GOOD)
        assert client.counters.snapshot()["retried"] == 0
    assert result.status is Status.INVALID
    assert "HTTP 401: Authorization" in str(result.reason)
    assert WRONG not in str(result.reason)


def test_a_keys_own_limit_is_429_and_anothers_is_untouched(deployed: Deployed) -> None:
    def ask(n: int) -> httpx.Response:
        headers = {"Authorization": f"Bearer {OF_THE_FILE}"}
        body = {"requests": [GOOD] * LIMIT}
        return client.post(f"{deployed.url}/v1/score/batch", json=body, headers=headers)

    with httpx.Client(timeout=30) as client, ThreadPoolExecutor(32) as pool:
        asked = pool.map(ask, range(96))
        with HttpRewardClient(deployed.url, OF_THE_VARIABLE) as other:
            assert [other.score(GOOD).score for _ in range(8)] == [1.0] * 8
        replies = list(asked)
    assert {reply.status_code for reply in replies} == {200, 429}
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert "max_concurrent_items_per_key" in refused.json()["detail"]


def test_a_trainers_client_splits_what_its_key_may_not_send_at_once(deployed: Deployed) -> None:
    client = connect(url=deployed.url, api_key=OF_THE_FILE, max_attempts=10)
    assert [r.score for r in client.score_batch([GOOD] * (2 * LIMIT))] == [1.0] * (2 * LIMIT)


def test_no_key_is_in_what_serve_logs_and_shows(deployed: Deployed) -> None:
    time.sleep(1)  # logs are written behind the replies
    shown = deployed.shown() + deployed.logs()
    assert "max_concurrent_items_per_key" in shown  # the config, as Serve shows it
    assert "POST /v1/score 401" in shown  # the access log
    assert "key 'trainer'" in shown  # a refusal
    for secret in (OF_THE_FILE, OF_THE_VARIABLE, WRONG, "Bearer"):
        assert secret not in shown


@pytest.mark.slow
def test_unreadable_keys_fail_the_deployment_with_the_reason(
    deployed: Deployed,
) -> None:
    deployed.serve_run(api_keys_file="/nowhere/keys")
    shown = ""

    def failed() -> bool:
        nonlocal shown
        shown = deployed.shown()
        return "DEPLOY_FAILED" in shown

    wait_for("a failed deployment", failed, 60)
    assert "server.api_keys_file: '/nowhere/keys': No such file or directory" in shown
