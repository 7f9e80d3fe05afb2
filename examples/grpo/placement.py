"""Where the parts of a run are placed; by default all on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

Part = Literal["engine", "data", "buffer", "workers"]


@dataclass(frozen=True)
class Placement:
    """Where the parts of a run are placed.

    Attributes:
        cluster: address of a Ray cluster to join, such as ``auto``; None starts one.
        endpoint: URL of a Tinker endpoint; None starts SkyRL's engine.
        model: the endpoint's name of the base model, and its tokenizer's name or path on every
            node; None is the bundled model, which each node prepares itself.
        judge: URL of a reward service; None is the cluster's Serve application ``reward``.
        home: folder for the engine's checkpoints; on shared storage if the engine may move.
        workers: number of rollout workers.
        samplers: URL of vLLM servers or their router; None samples at the endpoint.
        resources: the custom Ray resource that a part's node must have.
    """

    cluster: str | None = None
    endpoint: str | None = None
    model: str | None = None
    judge: str | None = None
    home: Path | None = None
    workers: int = 1
    samplers: str | None = None
    resources: dict[Part, str] = field(default_factory=dict)

    def options(self, part: Part) -> dict[str, Any]:
        """Ray's options for the part's actor."""
        resource = self.resources.get(part)
        return {"num_cpus": 0, "resources": {resource: 0.001} if resource else None}


def resources_of(pairs: Sequence[str]) -> dict[Part, str]:
    """Parse ``PART=RESOURCE`` pairs.

    Raises:
        ValueError: the part is unknown, or the resource is missing.
    """
    found: dict[Part, str] = {}
    for pair in pairs:
        part, _, resource = pair.partition("=")
        if part not in get_args(Part) or not resource:
            raise ValueError(f"{pair!r}: must be PART=RESOURCE, with one of {get_args(Part)}")
        found[part] = resource  # type: ignore[index]  # checked above
    return found
