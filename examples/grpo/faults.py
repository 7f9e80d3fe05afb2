"""Throws verdicts away, as if the judge had failed."""

from __future__ import annotations

from random import Random

from examples.grpo.samples import Group
from examples.grpo.settings import Settings


def inject(groups: list[Group], settings: Settings, step: int) -> int:
    """Fail the settings' part of the verdicts, chosen by seed and step; how many failed."""
    failed = 0
    for group in groups:
        rng = Random(f"{settings.seed}/{step}/{group.problem}")
        for sample in group.samples:
            if rng.random() < settings.failing:
                sample.reward = 0.0 if settings.failed_as == "zero" else None
                failed += 1
    return failed
