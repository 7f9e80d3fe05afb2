"""The request router of deployments with several replicas: groups stay together.

Serve pickles this module by value into every process that calls such a deployment, so that none of
them needs ``reward_serve`` for it.
"""

from __future__ import annotations

import random
from typing import Any

from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter


class GroupRouter(ConsistentHashRouter):
    """Ray Serve's consistent-hash router, with equal parts for the sessions that are numbers.

    Session ``n`` goes to the replica of that number, in the order of their ids. On Serve's own ring
    the busiest of 2, 4 and 8 replicas has 1.25, 1.5 and 1.8 times its part of four sessions a
    replica. Any other session goes by the ring, and a call without one by the power of two choices,
    for which the ring would take a random replica.
    """

    def update_replicas(self, replicas: list[Any]) -> None:
        """Note the replicas there are, for those of this process who number sessions."""
        super().update_replicas(replicas)
        try:
            from reward_serve.routing.placement import tell_replicas
        except ImportError:  # a process that calls by a handle of Serve's alone
            return
        tell_replicas(self._deployment_id.app_name, self._deployment_id.name, len(self._replicas))

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: Any = None
    ) -> list[list[Any]]:
        """The replicas to try, in order."""
        session = pending_request.metadata.session_id if pending_request else ""
        if session and not session.isdecimal():
            ranked: list[list[Any]] = await super().choose_replicas(
                candidate_replicas, pending_request
            )
            return ranked
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        if not session:
            return [random.sample(candidate_replicas, min(2, len(candidate_replicas)))]
        in_order = sorted(candidate_replicas, key=lambda replica: replica.replica_id.unique_id)
        first = int(session) % len(in_order) if in_order else 0
        return [[replica] for replica in in_order[first:] + in_order[:first]]

    def _fulfill_next_pending_request(self, replica: Any, request_metadata: Any = None) -> None:
        """Hand the replica to the call that it was chosen for.

        Ray 2.57 looks the call up by the id of the request that it belongs to: of several calls
        that one request makes at a time, it would answer one and leave the others waiting forever.
        """
        for pending in self._pending_requests_to_fulfill:
            if pending.metadata is request_metadata and not pending.future.done():
                self._record_queue_wait_time(pending)
                pending.future.set_result(replica)
                self._remove_pending_request_from_indices(pending)
                return
