"""Groups waiting for training, and those to replay, by priority and with bounded staleness."""

from __future__ import annotations

from random import Random
from statistics import fmean

from examples.grpo.record import say
from examples.grpo.samples import Group
from examples.grpo.settings import Settings


class ReplayBuffer:
    """A priority buffer of groups with bounded staleness."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._groups: list[Group] = []
        self._trained: list[Group] = []

    def __repr__(self) -> str:
        return "replay-buffer"

    def add(self, groups: list[Group]) -> None:
        """Add the groups that have a gradient: those whose rewards differ."""
        added = [group for group in groups if any(group.advantages)]
        self._groups += added
        say(f"added {len(added)} of {len(groups)} groups, of unequal rewards")

    def take(self, count: int, version: int) -> list[Group]:
        """Remove and return up to ``count`` groups by priority; drop those that are too old."""
        fresh = _within(self._settings.max_staleness, self._groups, version)
        fresh.sort(key=self._rank, reverse=True)
        taken, self._groups = fresh[:count], fresh[count:]
        if self._settings.replay_updates:
            self._trained += taken
        return taken

    def replay(self, count: int, version: int, update: int) -> list[Group]:
        """Draw up to ``count`` groups of earlier steps, likelier with higher priority.

        The number of steps taken, of the update and the seed determine the draw.
        """
        self._trained = _within(self._settings.replay_staleness, self._trained, version)
        rng = Random(f"{self._settings.seed}/{version}/{update}")
        # Efraimidis and Spirakis: the largest u ** (1 / weight) are a weighted draw.
        drawn = [
            (rng.random() ** (1 / max(self._rank(group), 1e-6)), place)
            for place, group in enumerate(self._trained)
            if group.version < version
        ]
        groups = [self._trained[place] for _, place in sorted(drawn, reverse=True)[:count]]
        ages = [version - group.version for group in groups]
        say(f"step {version + 1}: {len(groups)} of {len(drawn)} groups replayed, {ages} steps old")
        return groups

    def _rank(self, group: Group) -> float:
        if self._settings.priority == "reward":
            return fmean(s.reward for s in group.samples if s.reward is not None)
        return fmean(abs(a) for a in group.advantages if a is not None)


def _within(staleness: int, groups: list[Group], version: int) -> list[Group]:
    return [group for group in groups if version - group.version <= staleness]
