"""Groups waiting for training, by priority and with bounded staleness."""

from __future__ import annotations

from statistics import fmean
from typing import Literal

from examples.grpo.samples import Group


class ReplayBuffer:
    """A priority buffer of groups with bounded staleness.

    Args:
        priority: ``advantage`` (mean absolute advantage) or ``reward`` (mean reward).
        max_staleness: maximum optimiser steps between sampling and training.
    """

    def __init__(self, priority: Literal["advantage", "reward"], max_staleness: int) -> None:
        self._priority = priority
        self._max_staleness = max_staleness
        self._groups: list[Group] = []

    def add(self, groups: list[Group]) -> None:
        """Add the groups that have a gradient: those whose rewards differ."""
        self._groups += [group for group in groups if any(group.advantages)]

    def take(self, count: int, version: int) -> list[Group]:
        """Remove and return up to ``count`` groups by priority; drop those that are too old."""
        fresh = [g for g in self._groups if version - g.version <= self._max_staleness]
        fresh.sort(key=self._rank, reverse=True)
        taken, self._groups = fresh[:count], fresh[count:]
        return taken

    def _rank(self, group: Group) -> float:
        if self._priority == "reward":
            return fmean(s.reward for s in group.samples if s.reward is not None)
        return fmean(abs(a) for a in group.advantages if a is not None)
