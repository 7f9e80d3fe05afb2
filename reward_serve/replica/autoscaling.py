"""Scales replicas with the items in flight, which Serve does not see, since it counts calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext


def replicas_for_items(ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """A Serve autoscaling policy: items in flight divided by the target per replica.

    Serve applies the delays and bounds. With zero replicas no items are reported, and Serve's count
    of waiting calls starts the first replica.
    """
    reported = (ctx.aggregated_metrics or {}).get("items", {})
    items = sum(reported.values())
    target = ctx.config.target_ongoing_requests
    if not reported:
        return float(ctx.target_num_replicas), {}
    return items / target, {}
