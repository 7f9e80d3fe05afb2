"""The engine killed in mid-group, through a Serve application of the bundled model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import ray
from ray import serve

from loadtests.chaos import processes
from reward_serve import RewardClient
from reward_serve.app import build_app
from reward_serve.reward_models.group import scores
from reward_serve.schema import GroupResult, Status
from reward_serve_judge.weights import prepare_bundled

pytestmark = pytest.mark.slow

APP, NAME = "pairs", "judge"
ENGINE_S = 600.0
JUDGE = {"name": NAME, "kind": "judge", "group": {}, "cache": {"enabled": False}}
RESPONSES = [f"Attempt {n}: 16 - 3 - 4 = {n + 3}, so she makes {2 * n} dollars." for n in range(20)]
ASKED: dict[str, Any] = {
    "question": "How much does she make?", "responses": RESPONSES, "strategy": "all_pairs"
}  # fmt: skip


@pytest.fixture
def client() -> Iterator[RewardClient]:
    prepare_bundled()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(proxy_location="Disabled")
        serve.run(build_app({"models": [JUDGE]}), name=APP)
        yield RewardClient(APP, timeout_s=ENGINE_S)
    finally:
        serve.shutdown()
        ray.shutdown()


def preferences(group: GroupResult) -> dict[tuple[int, int], float]:
    return {(c.a, c.b): c.probability for c in group.comparisons if c.probability is not None}


@pytest.mark.timeout(1200)
def test_an_engine_killed_in_mid_group_leaves_nulls_and_the_next_group_is_right(
    client: RewardClient,
) -> None:
    client.score_group(ASKED)  # later ones find its prompts in the prefix cache, and are faster
    undisturbed = client.score_group(ASKED)
    assert undisturbed.status is Status.OK, undisturbed.reason
    right = preferences(undisturbed)
    assert len(right) == 190
    describe = serve.get_deployment_handle(NAME, APP).describe.remote()
    replica = describe.result(timeout_s=60)["pid"]
    engine = processes.engine_core(replica)

    once = RewardClient(APP, timeout_s=ENGINE_S, max_attempts=1)
    kill = threading.Timer(0.3 * undisturbed.latency_ms / 1000, processes.kill, [engine])
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(once.score_group, ASKED)
        kill.start()
        broken = asked.result()
    found = preferences(broken)
    expected = scores(len(RESPONSES), found, 1)

    assert len(found) < len(right), "the engine was killed too late"
    assert len(broken.results) == len(RESPONSES)
    for result, score in zip(broken.results, expected, strict=True):
        assert result.score == score  # that of the comparisons which were made, or none
        assert result.status is (Status.ERROR if score is None else Status.OK)
    assert found == pytest.approx({pair: right[pair] for pair in found}, abs=0.05)

    after = client.score_group(ASKED)
    assert preferences(after) == pytest.approx(right, abs=0.05)
    assert None not in [result.score for result in after.results]
