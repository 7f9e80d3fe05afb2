"""Replicas follow the items in flight, which Serve, counting calls, does not see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext


def replicas_for_items(ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """A Serve autoscaling policy: items in flight over items a replica should have.

    Serve applies the delays and bounds. At zero replicas none reports items, and Serve's own
    count of waiting calls starts the first.
    """
    reported = (ctx.aggregated_metrics or {}).get("items", {})
    items = sum(reported.values())
    target = ctx.config.target_ongoing_requests
    if not reported:
        return float(ctx.target_num_replicas), {}
    return items / target, {}
