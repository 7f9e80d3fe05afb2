from __future__ import annotations

import math
from typing import Any

import pytest
from ray.serve._private.common import DeploymentID, ReplicaID
from ray.serve.autoscaling_policy import _apply_autoscaling_config
from ray.serve.config import AutoscalingConfig, AutoscalingContext

from reward_serve.replica.admission import replicas_for_items

JUDGE = DeploymentID(name="judge", app_name="reward")


def context(
    items: list[float] | None,
    *,
    replicas: int = 1,
    target_items: float = 128,
    waiting_calls: float = 0,
    **scaling: Any,
) -> AutoscalingContext:
    metrics = None
    if items is not None:
        metrics = {"items": {ReplicaID(str(i), JUDGE): n for i, n in enumerate(items)}}
    bounds = {"min_replicas": 0, "max_replicas": 8, **scaling}
    return AutoscalingContext(
        deployment_id=JUDGE,
        deployment_name="judge",
        app_name="reward",
        current_num_replicas=replicas,
        target_num_replicas=replicas,
        running_replicas=[],
        total_num_requests=waiting_calls,
        total_queued_requests=waiting_calls,
        aggregated_metrics=metrics,
        raw_metrics=None,
        capacity_adjusted_min_replicas=bounds["min_replicas"],
        capacity_adjusted_max_replicas=bounds["max_replicas"],
        policy_state={},
        last_scale_up_time=None,
        last_scale_down_time=None,
        current_time=None,
        config=AutoscalingConfig(target_ongoing_requests=target_items, **bounds),
        total_pending_async_requests=0,
    )


@pytest.mark.parametrize(
    ("items", "target_items", "replicas"),
    [
        ([0.0], 128, 0), ([1.0], 128, 1), ([128.0], 128, 1), ([129.0], 128, 2),
        ([300.0, 0.0], 128, 3), ([10.0], 2.5, 4),
    ],
)  # fmt: skip
def test_replicas_follow_the_items_in_flight(
    items: list[float], target_items: float, replicas: int
) -> None:
    asked = context(items, replicas=len(items), target_items=target_items, waiting_calls=9_000)
    wanted, _ = replicas_for_items(asked)
    assert math.ceil(wanted) == replicas


@pytest.mark.parametrize("calls", [0, 1])
def test_a_waiting_call_starts_the_first_replica(calls: int) -> None:
    policy = _apply_autoscaling_config(replicas_for_items)
    wanted, _ = policy(context(None, replicas=0, waiting_calls=calls))
    assert wanted == calls


@pytest.mark.parametrize("items", [None, []])
def test_without_a_report_nothing_changes(items: list[float] | None) -> None:
    assert replicas_for_items(context(items, replicas=3)) == (3, {})


def test_serve_keeps_its_delays_around_the_policy() -> None:
    policy = _apply_autoscaling_config(replicas_for_items)
    delayed, _ = policy(context([512.0], upscale_delay_s=60))
    assert delayed == 1
    at_once, _ = policy(context([512.0], upscale_delay_s=0))
    assert at_once == 4
