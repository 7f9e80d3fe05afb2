"""Groups that wait to be trained on, the most telling first, none too old."""

from __future__ import annotations

from statistics import fmean
from typing import Literal

from examples.grpo.samples import Group


class ReplayBuffer:
    """A priority buffer of groups with bounded staleness.

    Args:
        priority: ``advantage``: mean of the unsigned advantages; ``reward``: mean reward.
        max_staleness: optimiser steps that may lie between sampling and training.
    """

    def __init__(self, priority: Literal["advantage", "reward"], max_staleness: int) -> None:
        self._priority = priority
        self._max_staleness = max_staleness
        self._groups: list[Group] = []

    def add(self, groups: list[Group]) -> None:
        """Keep those that carry a gradient: where two samples earned different rewards."""
        self._groups += [group for group in groups if any(group.advantages)]

    def take(self, count: int, version: int) -> list[Group]:
        """At most ``count`` groups, by priority; those too old for ``version`` are dropped."""
        fresh = [g for g in self._groups if version - g.version <= self._max_staleness]
        fresh.sort(key=self._rank, reverse=True)
        taken, self._groups = fresh[:count], fresh[count:]
        return taken

    def _rank(self, group: Group) -> float:
        if self._priority == "reward":
            return fmean(s.reward for s in group.samples if s.reward is not None)
        return fmean(abs(a) for a in group.advantages if a is not None)
