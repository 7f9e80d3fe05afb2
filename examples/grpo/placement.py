"""Where the parts of a run stand: all on this machine, unless something else is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

Part = Literal["engine", "data", "buffer", "workers"]


@dataclass(frozen=True)
class Placement:
    """Where the parts of a run stand.

    Attributes:
        cluster: address of a Ray cluster to join, as ``auto``; None starts one for the run.
        endpoint: URL of a Tinker endpoint; None starts SkyRL's engine.
        model: base model as the endpoint knows it, also the name or path of its tokenizer on every
            node; None is the bundled one, which each node prepares for itself.
        judge: URL of a reward service; None is the Serve application ``reward`` of the cluster.
        home: of the engine's checkpoints; on storage that nodes share, where the engine may move.
        workers: how many rollout workers.
        resources: the custom resource of Ray that a part's node must have.
    """

    cluster: str | None = None
    endpoint: str | None = None
    model: str | None = None
    judge: str | None = None
    home: Path | None = None
    workers: int = 1
    resources: dict[Part, str] = field(default_factory=dict)

    def options(self, part: Part) -> dict[str, Any]:
        """Options of the part's actor."""
        resource = self.resources.get(part)
        return {"num_cpus": 0, "resources": {resource: 0.001} if resource else None}


def resources_of(pairs: Sequence[str]) -> dict[Part, str]:
    """``PART=RESOURCE`` as a mapping.

    Raises:
        ValueError: there is no such part, or it has no resource.
    """
    found: dict[Part, str] = {}
    for pair in pairs:
        part, _, resource = pair.partition("=")
        if part not in get_args(Part) or not resource:
            raise ValueError(f"{pair!r}: must be PART=RESOURCE, the part of {get_args(Part)}")
        found[part] = resource  # type: ignore[index]  # it was just looked up
    return found
