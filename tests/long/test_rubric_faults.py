"""Rubrics through a deployed service whose endpoint fails for every fifth item."""

from __future__ import annotations

from collections import Counter

import pytest
import ray
from ray import serve

from reward_serve import HttpRewardClient, RewardClient
from reward_serve.app import build_app
from tests.fake_service import free_port
from tests.rubric_faults import FAULTS, check_items, faulty_rubrics

pytestmark = pytest.mark.slow
APP = "rubrics"
TIMEOUT_S = 30.0


@pytest.mark.timeout(1800)
def test_ten_thousand_items_under_faults_have_only_earned_scores() -> None:
    ended = scored_under_faults(10_000)
    assert {name.partition(":")[0] for name in ended} == {*FAULTS, "None"}
    assert ended["None: ok"] > 7_000
    assert min(ended["left_out: ok"], ended["left_out: unparseable"]) > 20  # enough left, or not


def scored_under_faults(items: int) -> Counter[str]:
    """Check this many items by HTTP and by handle, on a cluster of its own; how they ended."""
    port = free_port()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        with faulty_rubrics() as args:
            serve.run(build_app(args), name=APP, route_prefix="/")
            clients = [
                HttpRewardClient(f"http://127.0.0.1:{port}", max_attempts=1, max_batch=1),
                RewardClient(APP, max_attempts=1, max_batch=1),
            ]
            return check_items(clients, items, TIMEOUT_S)
    finally:
        serve.shutdown()
        ray.shutdown()
