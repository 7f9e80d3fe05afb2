"""The request router of deployments with several replicas, which keeps groups together.

Serve pickles this module by value into every process that calls such a deployment, so those
processes do not need ``reward_serve`` installed.
"""

from __future__ import annotations

import random
from typing import Any

from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter


class GroupRouter(ConsistentHashRouter):
    """Ray Serve's consistent-hash router, extended so that callers can choose a replica.

    A session that equals a replica's id goes to that replica. Other sessions use Serve's hash ring,
    on which the busiest of 2, 4 and 8 replicas has 1.25, 1.5 and 1.8 times the mean load at four
    sessions per replica. Calls without a session use the power of two choices; the ring would pick
    a random replica. Concurrent calls within one Serve request need a context each, as
    ``DeploymentClient`` creates them, because Ray identifies waiting calls by their request's id.
    """

    _note_calls: Any = None  # in a process with this package

    def update_replicas(self, replicas: list[Any]) -> None:
        """Record the replicas for callers of this process that choose one."""
        before = list(self.curr_replicas)
        super().update_replicas(replicas)
        self._note(before + list(self.curr_replicas))

    def on_replica_actor_died(self, replica_id: Any) -> None:
        """Record that a call found a replica dead, seconds before the controller says so."""
        super().on_replica_actor_died(replica_id)
        self._note([replica_id])

    def _note(self, changed: list[Any]) -> None:
        try:
            from reward_serve.routing.dispatch import note_calls, note_replicas
        except ImportError:  # a process with a plain Serve handle, without this package
            return
        self._note_calls = note_calls
        ids = [replica.unique_id for replica in self.curr_replicas]
        for deployment in {replica.deployment_id for replica in changed}:
            note_replicas(deployment.app_name, deployment.name, ids)

    def on_new_queue_len_info(self, replica_id: Any, num_ongoing_requests: int) -> None:
        """Record a replica's calls, which it says when it accepts or rejects one."""
        super().on_new_queue_len_info(replica_id, num_ongoing_requests)
        if self._note_calls is not None:
            self._note_calls(replica_id.unique_id, num_ongoing_requests)

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: Any = None
    ) -> list[list[Any]]:
        """The replicas to try, in order."""
        session = pending_request.metadata.session_id if pending_request else ""
        chosen = [r for r in candidate_replicas if r.replica_id.unique_id == session]
        if session and not chosen:
            ranked: list[list[Any]] = await super().choose_replicas(
                candidate_replicas, pending_request
            )
            return ranked
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        if chosen:  # the others are tried when it is at its limit of calls
            return [chosen, [r for r in candidate_replicas if r is not chosen[0]]]
        return [random.sample(candidate_replicas, min(2, len(candidate_replicas)))]
