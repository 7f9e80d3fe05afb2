import math
from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve.autoscaling_policy import _apply_autoscaling_config
from ray.serve.config import AutoscalingConfig

from reward_serve.replica.admission import replicas_for_items


def context(items: list[float] | None, replicas: int = 1, calls: int = 0, **config: Any) -> Any:
    """What Serve gives a policy: the items that each replica reports, and the waiting calls."""
    bounds = {"min_replicas": 0, "max_replicas": 8}
    fields = {"target_ongoing_requests": 128, **bounds, **config}
    return SimpleNamespace(
        deployment_id="judge",
        current_num_replicas=replicas,
        target_num_replicas=replicas,
        total_num_requests=calls,
        aggregated_metrics=None if items is None else {"items": dict(enumerate(items))},
        capacity_adjusted_min_replicas=0,
        capacity_adjusted_max_replicas=8,
        policy_state={},
        config=AutoscalingConfig(**fields),
    )


@pytest.mark.parametrize(
    ("items", "target", "replicas"),
    [
        ([0.0], 128, 0), ([1.0], 128, 1), ([128.0], 128, 1), ([129.0], 128, 2),
        ([300.0, 0.0], 128, 3), ([10.0], 2.5, 4),
    ],
)  # fmt: skip
def test_replicas_follow_items_in_flight(items: list[float], target: float, replicas: int) -> None:
    asked = context(items, len(items), calls=9_000, target_ongoing_requests=target)
    assert math.ceil(replicas_for_items(asked)[0]) == replicas


@pytest.mark.parametrize("items", [None, []])
def test_without_a_report_only_a_waiting_call_starts_a_replica(items: list[float] | None) -> None:
    assert replicas_for_items(context(items, replicas=3)) == (3, {})
    policy = _apply_autoscaling_config(replicas_for_items)
    assert [policy(context(items, replicas=0, calls=calls))[0] for calls in (0, 1)] == [0, 1]


def test_serve_keeps_its_delays_around_the_policy() -> None:
    policy = _apply_autoscaling_config(replicas_for_items)
    replicas = [policy(context([512.0], upscale_delay_s=seconds))[0] for seconds in (60, 0)]
    assert replicas == [1, 4]
