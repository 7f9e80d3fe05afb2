"""One Ray cluster, one HTTP port and one engine for the whole session."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Serve's controller reads this as it starts: autoscaling tests should not wait ten seconds a look.
os.environ["RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"] = "reward_serve.http.proxy:middleware"

import ray
from ray import serve

from deployments.local import APP, deploy, wait_until_ready
from loadtests.bench.kinds import small_classifier
from reward_serve import HttpRewardClient, RewardClient
from reward_serve.app import build_app
from reward_serve.engines.bundled import prepare_bundled

Deploy = Callable[[str, dict[str, Any]], RewardClient]


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    ray.init(
        address="local",
        num_cpus=8,  # logical: other models stand beside the judge
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    yield ray.get_runtime_context().gcs_address
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="session")
def url(cluster: str) -> str:
    """`serve run deployments/judge.yaml`, as written but for the port; the model judges all."""
    prepare_bundled()
    url = deploy(cluster, rules_first=True)
    with HttpRewardClient(url) as client:
        wait_until_ready(client)
    return url


@pytest.fixture(scope="session")
def rule_url(url: str) -> Iterator[str]:
    """The URL of a rule, behind the same port: what costs no model."""
    app = build_app({"models": [{"name": "rule", "kind": "rule"}]})
    target = serve.RunTarget(app, name="cheap", route_prefix="/cheap")
    serve.run_many([target], wait_for_applications_running=False)
    with HttpRewardClient(f"{url}/cheap") as client:
        wait_for("the rule model", client.is_ready, 60)
    yield f"{url}/cheap"
    serve.delete("cheap", _blocking=False)


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled base with a head of one logit, of seeded weights."""
    return small_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="session")
def classifier_url(url: str, classifier_folder: Path) -> Iterator[str]:
    """The URL of a sequence-classification model, behind the same port."""
    model = {
        "name": "reward-model",
        "kind": "classifier",
        "engine": {"model": str(classifier_folder), "cpu_kv_cache_gib": 0.25},
        "resources": {"num_cpus": 2},
    }
    target = serve.RunTarget(build_app({"models": [model]}), "classifier", "/classifier")
    serve.run_many([target], wait_for_applications_running=False)
    with HttpRewardClient(f"{url}/classifier") as client:
        wait_for("the classifier", client.is_ready, 200)
    yield f"{url}/classifier"
    serve.delete("classifier", _blocking=False)


@pytest.fixture
def http(url: str) -> Iterator[HttpRewardClient]:
    with HttpRewardClient(url, timeout_s=120) as client:
        yield client


@pytest.fixture
def handle(url: str) -> RewardClient:
    return RewardClient(APP, timeout_s=120)


@pytest.fixture
def deploy_app(url: str) -> Iterator[Deploy]:
    """Deploys further applications beside the judge's, without HTTP; removed after the test."""
    names: list[str] = []

    def run(name: str, args: dict[str, Any]) -> RewardClient:
        names.append(name)
        target = serve.RunTarget(build_app(args), name=name, route_prefix=f"/{name}")
        serve.run_many([target], wait_for_applications_running=False)
        return RewardClient(name, timeout_s=60)

    yield run
    for name in names:
        serve.delete(name, _blocking=False)


def wait_for(what: str, condition: Callable[[], bool], timeout_s: float) -> float:
    """Poll until ``condition`` holds; the seconds it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout_s:
            pytest.fail(f"{what}: not within {timeout_s:g} s")
        time.sleep(0.1)
    return time.monotonic() - began
