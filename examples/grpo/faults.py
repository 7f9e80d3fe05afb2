"""Discards verdicts, as if the judge had failed."""

from __future__ import annotations

from random import Random

from examples.grpo.samples import Group
from examples.grpo.settings import Settings


def inject(groups: list[Group], settings: Settings, step: int) -> int:
    """Fail a share ``settings.failing`` of the verdicts, by seed and step; return their number."""
    failed = 0
    for group in groups:
        rng = Random(f"{settings.seed}/{step}/{group.problem}")
        for sample in group.samples:
            if rng.random() < settings.failing:
                sample.reward = 0.0 if settings.failed_as == "zero" else None
                failed += 1
    return failed
