"""The request router of deployments with several replicas: groups stay together.

Serve pickles this module by value into every process that calls such a deployment, so that none of
them needs ``reward_serve`` for it.
"""

from __future__ import annotations

import random
from typing import Any

from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter


class GroupRouter(ConsistentHashRouter):
    """Ray Serve's consistent-hash router, for callers that choose a replica themselves.

    A session that is a replica's id goes to that replica. Any other session goes by Serve's ring,
    on which the busiest of 2, 4 and 8 replicas has 1.25, 1.5 and 1.8 times its part of four
    sessions a replica. A call without a session goes by the power of two choices, for which the
    ring would take a random replica. Concurrent calls within one Serve request need a context each,
    as ``DeploymentClient`` makes them: Ray tells waiting calls apart by the id of their request.
    """

    def update_replicas(self, replicas: list[Any]) -> None:
        """Note the replicas for those of this process who choose one."""
        before = list(self.curr_replicas)
        super().update_replicas(replicas)
        try:
            from reward_serve.routing.replicas import note_replicas
        except ImportError:  # a process that calls by a handle of Serve's alone
            return
        now = list(self.curr_replicas)
        for deployment in {replica.deployment_id for replica in before + now}:
            ids = [replica.unique_id for replica in now]
            note_replicas(deployment.app_name, deployment.name, ids)

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: Any = None
    ) -> list[list[Any]]:
        """The replicas to try, in order."""
        session = pending_request.metadata.session_id if pending_request else ""
        chosen = [one for one in candidate_replicas if one.replica_id.unique_id == session]
        if session and not chosen:
            ranked: list[list[Any]] = await super().choose_replicas(
                candidate_replicas, pending_request
            )
            return ranked
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        if chosen:  # the others where it is at its limit of calls
            return [chosen, [one for one in candidate_replicas if one is not chosen[0]]]
        return [random.sample(candidate_replicas, min(2, len(candidate_replicas)))]
