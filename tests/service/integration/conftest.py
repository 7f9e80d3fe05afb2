"""One Ray cluster, one HTTP port and one engine, on which everything is deployed once."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray
from ray import serve

from deployments.local import APP, free_port, serve_run
from reward_serve import HttpRewardClient, RewardClient
from reward_serve.app import build_app, build_gateway
from reward_serve_judge.weights import prepare_bundled
from tests.service.integration import applications
from tests.service.integration.applications import (
    BEHIND_THE_GATEWAY,
    BESIDE,
    GATEWAY,
    GUARDED,
    MISSING,
    RULES,
)

Deploy = Callable[[str, dict[str, Any]], RewardClient]

START_S = 480.0
OF_THE_FILE = "key-of-the-file-0123456789"
OF_THE_VARIABLE = "key-of-the-variable-0123456789"
OF_A_SMALL_RUN = "key-of-a-small-run-0123456789"

_ENVIRONMENT = {
    # Serve's controller reads this as it starts: autoscaling tests should not wait ten seconds.
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    applications.KEYS_VARIABLE: f"other={OF_THE_VARIABLE},small={OF_A_SMALL_RUN}",
}


@pytest.fixture(scope="package")
def cluster() -> Iterator[str]:
    """The address of a cluster that ends with this folder's tests."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in _ENVIRONMENT.items():
            environment.setenv(name, value)
        ray.init(
            address="local",
            num_cpus=8,  # logical: the other models' tenths stand beside the judge's two
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            _system_config={
                "metrics_report_interval_ms": 1000,
                "worker_maximum_startup_concurrency": 8,  # by default, of a small machine, 2
            },
        )
        yield ray.get_runtime_context().gcs_address
        serve.shutdown()
        ray.shutdown()


@pytest.fixture(scope="package")
def url(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The judge's URL, once all applications are deployed.

    `serve run` takes the judge's file, as written but for the port.
    """
    prepare_bundled()
    keys = tmp_path_factory.mktemp("secrets") / "keys"
    keys.touch(mode=0o600)
    keys.write_text(f"trainer: {OF_THE_FILE}\n", encoding="utf-8")
    port = free_port()
    serve_run(cluster, applications.judge_and_keys(port, keys))
    targets = [serve.RunTarget(build_app(args), name, f"/{name}") for name, args in BESIDE.items()]
    targets.append(serve.RunTarget(build_gateway(BEHIND_THE_GATEWAY), GATEWAY, f"/{GATEWAY}"))
    serve.run_many(targets, wait_for_applications_running=False)
    wait_for("all applications", _settled, START_S, every_s=0.5)
    return f"http://127.0.0.1:{port}"


def _settled() -> bool:
    """Whether each application has started, or failed as it is meant to."""
    applications = serve.status().applications
    for name, application in applications.items():
        if application.status == "DEPLOY_FAILED" and name != MISSING:
            pytest.fail(f"{name}: {application.message}")
    return {name: str(application.status.value) for name, application in applications.items()} == {
        name: "DEPLOY_FAILED" if name == MISSING else "RUNNING"
        for name in (APP, GUARDED, GATEWAY, *BESIDE)
    }


@pytest.fixture(scope="package")
def rule_url(url: str) -> str:
    """The URL of rules: what costs no model."""
    return f"{url}/{RULES}"


@pytest.fixture(scope="package")
def gateway(url: str) -> str:
    """The URL of the gateway."""
    return f"{url}/{GATEWAY}"


@pytest.fixture
def http(url: str) -> Iterator[HttpRewardClient]:
    with HttpRewardClient(url, timeout_s=120) as client:
        yield client


@pytest.fixture
def handle(url: str) -> RewardClient:
    return RewardClient(APP, timeout_s=120)


@pytest.fixture
def deploy_app(url: str) -> Iterator[Deploy]:
    """Deploys further applications beside the others; removed after the test."""
    names: list[str] = []

    def run(name: str, args: dict[str, Any]) -> RewardClient:
        names.append(name)
        target = serve.RunTarget(build_app(args), name=name, route_prefix=f"/{name}")
        serve.run_many([target], wait_for_applications_running=False)
        return RewardClient(name, timeout_s=60)

    yield run
    for name in names:
        serve.delete(name, _blocking=False)


def status_of(app: str) -> str:
    return str(serve.status().applications[app].status.value)


def wait_for_app(app: str, timeout_s: float = 60) -> None:
    wait_for(f"{app} to run", lambda: status_of(app) == "RUNNING", timeout_s)


def wait_for(
    what: str, condition: Callable[[], bool], timeout_s: float, every_s: float = 0.1
) -> float:
    """Poll until ``condition`` holds; the seconds it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout_s:
            pytest.fail(f"{what}: not within {timeout_s:g} s")
        time.sleep(every_s)
    return time.monotonic() - began
